"""Whether only what is stable goes to the tier, and all that is said to be there: judged with each upload of records.

| invariant    | violated when                                                                                      |
|--------------|----------------------------------------------------------------------------------------------------|
| stable tier  | an upload that begins reaches beyond the last stable offset of the log it comes from: into what is |
|              | not committed yet, or into an open transaction (KIP-405)                                           |
| whole tier   | the ledger of who uploads has a finished segment whose records never were in the store             |
| sound tier   | or were uploaded with a batch that is damaged                                                      |

An upload runs in the broker's own process, which would take a violation for a fault of the store: `Judges.on_inside`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from ....plugins import LOG_SUFFIX, partition_of
from ....protocol import CorruptRecordError, TopicIdPartition
from ....protocol.records import iter_batches
from ...machine.store_events import Uploaded, UploadStarted
from .events import Observed
from .partition import InvariantViolationError

StableEndOf = Callable[[str, TopicIdPartition], int | None]
"""Host and partition: the last stable offset there, or the high watermark if that is lower (it is judged by itself);
None if it is not hosted any more."""
FinishedIn = Callable[[str, TopicIdPartition], Iterable[str]]
"""The same: keys of the records of the segments that are finished, as its ledger says."""
_LOG: Final = f".{LOG_SUFFIX}"


class TieredRecordsJudge:
    """Judges each upload, and what the ledger says then. `put_ever` are the keys of all objects there ever were."""

    def __init__(self, stable_end_of: StableEndOf, finished_in: FinishedIn, put_ever: Collection[str]) -> None:
        self._stable_end_of = stable_end_of
        self._finished_in = finished_in
        self._put_ever = put_ever
        self._damaged: dict[str, str] = {}
        """What is wrong with uploads, by their key."""
        self._stable_ends: dict[int, int] = {}
        """The last stable offset as an upload of records began, by the upload."""

    def on(self, event: Observed) -> None:
        match event:
            case UploadStarted(upload, host, key):
                self._started(upload, host, key)
            case Uploaded(upload, host, key, data) if upload in self._stable_ends:
                self._uploaded(host, key, self._stable_ends.pop(upload), data)

    def _started(self, upload: int, host: str, key: str) -> None:
        directory, _, name = key.rpartition("/")
        partition = partition_of(directory)
        if partition is None or not name.endswith(_LOG):
            return
        for finished in self._finished_in(host, partition):
            if finished not in self._put_ever:
                raise InvariantViolationError("whole tier", f"{host} has {finished} as finished, which was never put")
            if finished in self._damaged:
                detail = f"{host} has {finished} as finished: {self._damaged[finished]}"
                raise InvariantViolationError("sound tier", detail)
        stable_end = self._stable_end_of(host, partition)
        if stable_end is not None:
            self._stable_ends[upload] = stable_end

    def _uploaded(self, host: str, key: str, stable_end: int, data: bytes) -> None:
        try:
            end = max((header.next_offset for _, header in iter_batches(data)), default=0)
        except CorruptRecordError as damage:
            self._damaged[key] = str(damage)
            return
        if end > stable_end:
            detail = f"{host} uploads {key}, which ends at {end}; its last stable offset was {stable_end}"
            raise InvariantViolationError("stable tier", detail)

"""Whether only what is stable goes to the tier, and all that is said to be there: judged with each upload of records.

| invariant    | violated when                                                                                      |
|--------------|----------------------------------------------------------------------------------------------------|
| stable tier  | an upload that begins reaches beyond the last stable offset of the log it comes from: into what is |
|              | not committed yet, or into an open transaction (KIP-405)                                           |
| whole tier   | the ledger of who uploads has a finished segment whose records never were in the store             |
| sound tier   | or were uploaded with a batch that is damaged                                                      |

An upload runs in the broker's own process, which would take a violation for a fault of the store: it is kept until
`check`, after the event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from ....plugins.layout import LOG_SUFFIX, partition_of
from ....protocol.errors import CorruptRecordError
from ....protocol.records import iter_batches
from ....protocol.topics import TopicIdPartition
from ...machine.objects import UploadEnds
from .partition import InvariantViolationError

StableEndOf = Callable[[str, TopicIdPartition], int | None]
"""Host and partition: the last stable offset there, or the high watermark if that is lower (it is judged by itself);
None if it is not hosted any more."""
FinishedIn = Callable[[str, TopicIdPartition], Iterable[str]]
"""The same: keys of the records of the segments that are finished, as its ledger says."""
_LOG: Final = f".{LOG_SUFFIX}"


class TieredRecordsJudge:
    """`SimObjectStore.on_upload` is `begins`."""

    def __init__(self, stable_end_of: StableEndOf, finished_in: FinishedIn, put_ever: Collection[str]) -> None:
        self._stable_end_of = stable_end_of
        self._finished_in = finished_in
        self._put_ever = put_ever
        self._damaged: dict[str, str] = {}
        """What is wrong with uploads, by their key."""
        self._violation: InvariantViolationError | None = None

    def check(self) -> None:
        """After every event. InvariantViolationError."""
        if self._violation is not None:
            raise self._violation

    def begins(self, host: str, key: str) -> UploadEnds | None:
        """What to tell the bytes to; None of an object that holds no records."""
        directory, _, name = key.rpartition("/")
        partition = partition_of(directory)
        if partition is None or not name.endswith(_LOG):
            return None
        for finished in self._finished_in(host, partition):
            if finished not in self._put_ever:
                self._violated("whole tier", f"{host} takes {finished} for finished, which was never put")
            if finished in self._damaged:
                self._violated("sound tier", f"{host} takes {finished} for finished: {self._damaged[finished]}")
        stable_end = self._stable_end_of(host, partition)
        return None if stable_end is None else lambda data: self._ends(host, key, stable_end, data)

    def _ends(self, host: str, key: str, stable_end: int, data: bytes) -> None:
        try:
            end = max((header.next_offset for _, header in iter_batches(data)), default=0)
        except CorruptRecordError as damage:
            self._damaged[key] = str(damage)
            return
        if end > stable_end:
            detail = f"{host} uploads {key}, which ends at {end}; its last stable offset was {stable_end}"
            self._violated("stable tier", detail)

    def _violated(self, invariant: str, detail: str) -> None:
        self._violation = self._violation or InvariantViolationError(invariant, detail)

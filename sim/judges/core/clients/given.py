"""The bytes that readers are given: each batch as it is in the log, and follows the one before it. Pure.

| invariant or anomaly | found when                                                                                |
|----------------------|-------------------------------------------------------------------------------------------|
| whole answers        | a batch of an answer does not begin where the one before it ends                          |
| same bytes           | two answers, from whichever broker and tier, have other bytes for the batch at an offset  |
| other bytes          | at the end, the log has another batch at the offset than a reader was given, or none      |

What a reader was given while something may have been corrupt is not looked at, and nothing is where the fault model
allows a loss: another batch may be at an offset then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from .....protocol import TopicPartition
from .....protocol.records import iter_batches
from ..acknowledged_writes import Anomaly
from ..events import BatchesRead, Observed
from ..partition import InvariantViolationError
from ..replicas import StoredBatch


class GivenBatchesJudge:
    """`may_be_corrupt`: what is read now may be damaged. `has_lost`: a partition may have lost something."""

    def __init__(self, may_be_corrupt: Callable[[], bool], has_lost: Callable[[TopicPartition], bool]) -> None:
        self._may_be_corrupt = may_be_corrupt
        self._has_lost = has_lost
        self._given: dict[TopicPartition, dict[int, tuple[bytes, str]]] = defaultdict(dict)
        """The first that was given for each base offset, and its reader."""

    def on(self, event: Observed) -> None:
        if isinstance(event, BatchesRead) and not self._may_be_corrupt() and not self._has_lost(event.partition):
            self._take(event)

    def _take(self, event: BatchesRead) -> None:
        given = self._given[event.partition]
        following: int | None = None
        for position, header in iter_batches(event.data):
            if following not in (None, header.base_offset):
                detail = f"{event.reader} was given {event.partition} up to {following}, then {header.base_offset}"
                raise InvariantViolationError("whole answers", detail)
            following = header.next_offset
            data = event.data[position : position + header.size_bytes]
            first, reader = given.setdefault(header.base_offset, (data, event.reader))
            if first != data:
                where = f"{event.partition} at {header.base_offset}, byte {_first_difference(first, data)}"
                detail = f"{where}: {event.reader} was given other bytes than {reader}"
                raise InvariantViolationError("same bytes", detail)

    def anomalies(
        self, partition: TopicPartition, log_start_offset: int, right: Mapping[int, StoredBatch]
    ) -> Iterator[Anomaly]:
        """Compare with the batches of the log, which is at rest, by base offset."""
        if self._has_lost(partition):
            return
        for offset, (data, reader) in sorted(self._given[partition].items()):
            batch = right.get(offset)
            if batch is None and offset >= log_start_offset:
                yield Anomaly("other bytes", str(partition), f"{reader} was given a batch at {offset}: there is none")
            elif batch is not None and batch.data != data:
                at = _first_difference(batch.data, data)
                detail = f"{reader} was given other bytes at {offset} than the log has, from byte {at} on"
                yield Anomaly("other bytes", str(partition), detail)


def _first_difference(one: bytes, other: bytes) -> int:
    """Return the position of the first byte that differs, or the end of the shorter one."""
    pairs = zip(one, other, strict=False)
    return next((position for position, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))

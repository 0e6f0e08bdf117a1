"""The bytes that readers are given: each batch as it is in the log, and follows the one before it; and whether brokers
find damage only where a fault may have made it. Pure.

| invariant or anomaly | found when                                                                                |
|----------------------|-------------------------------------------------------------------------------------------|
| whole answers        | a batch of an answer does not begin where the one before it ends                          |
| same bytes           | two answers, from whichever broker and tier, have other bytes for the batch at an offset  |
| other bytes          | at the end, the log has another batch at the offset than a reader was given, or none      |
| sound reads          | a reader is given bytes that are no batch, while nothing may be corrupt                   |
| sound tier           | a broker finds the bytes of a segment in the tier wrong, in a run in which nothing was    |
|                      | ever corrupted or cut short: it fetches them again, and readers notice nothing            |

What a reader was given while something may have been corrupt is not looked at, nor after a download has rotted: a
broker keeps that in memory, and no checksum covers a batch's leader epoch. And nothing is where the fault model allows
a loss: another batch may be at an offset then.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

from .....protocol import TopicPartition
from .....protocol.records import iter_batches
from ..acknowledged_writes import Anomaly
from ..events import BatchesRead, DamageRead, MomentPassed, Observed
from ..partition import InvariantViolationError
from ..replicas import StoredBatch


class GivenBatchesJudge:
    """`may_be_wrong`: what is read now may have wrong bytes that no checksum covers. `has_lost`: a partition may have
    lost something.
    """

    def __init__(self, may_be_wrong: Callable[[], bool], has_lost: Callable[[TopicPartition], bool]) -> None:
        self._may_be_wrong = may_be_wrong
        self._has_lost = has_lost
        self._given: dict[TopicPartition, dict[int, tuple[bytes, str]]] = defaultdict(dict)
        """The first that was given for each base offset, and its reader."""

    def on(self, event: Observed) -> None:
        if isinstance(event, BatchesRead) and not self._may_be_wrong() and not self._has_lost(event.partition):
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


class SoundReadsJudge:
    """`may_be_corrupt`: what is read now may be damaged. `was_damaged`: a fault has ever corrupted something, or cut a
    download short. `damaged_reads` is what each broker has found. `injected` counts what readers were given.
    """

    def __init__(
        self,
        may_be_corrupt: Callable[[], bool],
        was_damaged: Callable[[], bool],
        damaged_reads: Callable[[], Mapping[int, int]],
        injected: Counter[str],
    ) -> None:
        self._may_be_corrupt = may_be_corrupt
        self._was_damaged = was_damaged
        self._damaged_reads = damaged_reads
        self._injected = injected

    def on(self, event: Observed) -> None:
        match event:
            case DamageRead(detail):
                self._injected["damaged reads"] += 1
                if not self._may_be_corrupt():
                    raise InvariantViolationError("sound reads", detail)
            case MomentPassed():
                self._look_at_brokers()

    def _look_at_brokers(self) -> None:
        for node_id, damaged in self._damaged_reads().items():
            if damaged and not self._was_damaged():
                detail = f"broker {node_id} has found damage in the tier {damaged} times, and nothing was ever damaged"
                raise InvariantViolationError("sound tier", detail)


def _first_difference(one: bytes, other: bytes) -> int:
    """Return the position of the first byte that differs, or the end of the shorter one."""
    pairs = zip(one, other, strict=False)
    return next((position for position, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))

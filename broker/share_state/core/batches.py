"""The delivery states of a share-partition's records, as ranges of offsets.

What is kept is disjoint, in the order of offsets, above the start offset, and neighbours differ. Of two ranges that
overlap the one with the higher delivery count says what is so, then the one with the higher state: a record goes from
available to acknowledged or archived, and each delivery counts up. So the order of writes does not matter, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from ....light_dataclass import dataclass
from ....protocol import ErrorCode, KafkaError

AVAILABLE: Final = 0
ACKNOWLEDGED: Final = 2
ARCHIVED: Final = 4
DELIVERY_STATES: Final = frozenset({AVAILABLE, ACKNOWLEDGED, ARCHIVED})
"""What is stored: a record that is acquired is available again for the next leader."""
NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class Batch:
    """A range of offsets, both ends inclusive, in one delivery state after so many deliveries."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int

    @property
    def rank(self) -> tuple[int, int]:
        """What decides where two of them overlap."""
        return self.delivery_count, self.delivery_state


def check_batches(batches: Iterable[Batch]) -> None:
    """Raise INVALID_REQUEST for a range that makes no sense."""
    for batch in batches:
        is_range = 0 <= batch.first_offset <= batch.last_offset
        if not is_range or batch.delivery_state not in DELIVERY_STATES or batch.delivery_count < 0:
            message = f"{batch} is none: offsets from 0 up, a state of {sorted(DELIVERY_STATES)} and a count are needed"
            raise KafkaError(ErrorCode.invalid_request, message)


def combined(batches: Iterable[Batch], start_offset: int) -> tuple[Batch, ...]:
    """Return what ranges say together, from the start offset up; all of it with a start offset of -1."""
    waiting = sorted(batches, key=lambda each: each.first_offset, reverse=True)
    active: list[tuple[int, int, int]] = []
    """Ranges that have begun, the one that decides first: (-count, -state, last offset)."""
    merged: list[Batch] = []
    offset = max(start_offset, 0)
    while waiting or active:
        if not active:
            offset = max(offset, waiting[-1].first_offset)
        while waiting and waiting[-1].first_offset <= offset:
            batch = waiting.pop()
            heappush(active, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
        while active and active[0][2] < offset:
            heappop(active)
        if active:
            count, state, last_offset = active[0]
            if waiting:
                last_offset = min(last_offset, waiting[-1].first_offset - 1)
            _append(merged, Batch(offset, last_offset, -state, -count))
            offset = last_offset + 1
    return tuple(merged)


def _append(merged: list[Batch], batch: Batch) -> None:
    last = merged[-1] if merged else None
    if last is not None and last.rank == batch.rank and last.last_offset + 1 == batch.first_offset:
        merged[-1] = Batch(last.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
    else:
        merged.append(batch)

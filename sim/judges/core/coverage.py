"""Whether every offset of a log is somewhere: judged when a local log is opened, when its beginning goes, and (by
`retention`) when records go from the tier.

| invariant   | violated when                                                                                       |
|-------------|-----------------------------------------------------------------------------------------------------|
| some tier   | an offset of [log start, local log start) of a replica is in no object that the store has           |

The store is read, not the ledger: what is said to be tiered must be there. Of which lineage an object is, and what is
in it, is judged at the end (`replicas`). Of a replica that is not in the ISR only what lies above `floor_of` is
demanded: it has not heard yet what has expired meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ....plugins import LOG_SUFFIX, partition_directory
from ....protocol import CorruptRecordError, TopicIdPartition
from ....protocol.records import iter_batches
from .events import LocalStartMoved, Observed
from .partition import InvariantViolationError, ReplicaStatus

_Range = tuple[int, int]


class CoverageJudge:
    """`objects` of the store, by key. `floor_of`: partition and node."""

    def __init__(
        self, objects: Mapping[str, bytes], floor_of: Callable[[TopicIdPartition, int], int] = lambda *_: 0
    ) -> None:
        self._objects = objects
        self._floor_of = floor_of
        self._ranges: dict[str, tuple[bytes, _Range | None]] = {}
        """What was found in which object."""

    def on(self, event: Observed) -> None:
        if isinstance(event, LocalStartMoved):
            self.begins_at(event.partition, event.now)

    def begins_at(self, name: TopicIdPartition, now: ReplicaStatus) -> None:
        """InvariantViolationError."""
        end = max(now.log_start_offset, self._floor_of(name, now.node_id))
        if end >= now.local_log_start_offset:
            return
        for first, next_offset in sorted(self._tiered(name)):
            if first <= end:
                end = max(end, next_offset)
        if end < now.local_log_start_offset:
            detail = f"{name.topic_partition}: offset {end} is in no object of the store, node {now.node_id} begins at"
            raise InvariantViolationError("some tier", f"{detail} {now.local_log_start_offset}")

    def _tiered(self, name: TopicIdPartition) -> Iterator[_Range]:
        prefix, suffix = f"{partition_directory(name)}/", f".{LOG_SUFFIX}"
        for key, data in self._objects.items():
            if key.startswith(prefix) and key.endswith(suffix):
                known = self._ranges.get(key)
                if known is None or known[0] is not data:
                    known = self._ranges[key] = (data, _range(data))
                if known[1] is not None:
                    yield known[1]


def _range(data: bytes) -> _Range | None:
    """From the first offset to the one behind the last; None of what is damaged, or empty."""
    try:
        headers = [header for _, header in iter_batches(data)]
    except CorruptRecordError:
        return None
    return (headers[0].base_offset, headers[-1].next_offset) if headers else None

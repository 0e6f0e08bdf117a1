"""Where a fetched partition stands while there is nothing to report of it: until that moves, no look is needed.

A partition may rest in its session where a look would find, and do, the same until something has moved: it is led here,
its reader waits at the end, with a follower nothing is left to commit and no ISR to change, and there was no error and
nothing to repeat. What moves it notifies `leadership.resting` first.
"""

from __future__ import annotations

from ...fetcher.core import FetchIsolation
from ...log.replica import LogOffsets
from ...protocol.fetch import FetchPartition
from ..replicas.leadership import Leadership
from ..replicas.partition import Partition


class Standing:
    """A partition in which a look found nothing to report, with all that this depends on, as it was then."""

    __slots__ = ("_leader_epoch", "_offsets", "leadership", "partition")

    def __init__(self, partition: Partition, offsets: LogOffsets) -> None:
        self.partition = partition
        self.leadership = partition.leadership
        self._leader_epoch = partition.leader_epoch
        self._offsets = offsets

    def has_moved(self) -> bool:
        partition = self.partition
        state, offsets = partition.log.state, self._offsets
        return (
            state.log_end_offset != offsets.log_end_offset
            or partition.leadership is not self.leadership
            or partition.leader_epoch != self._leader_epoch
            or state.offsets != offsets
        )

    def resting_place(self, wanted: FetchPartition, isolation: FetchIsolation, replica_id: int) -> Leadership | None:
        """Return the leadership in which the partition may rest; None where the next look may find something."""
        leadership = self.leadership
        if leadership is None or self.has_moved() or not self._waits_at_end(leadership, wanted, isolation, replica_id):
            return None
        return leadership

    def _waits_at_end(
        self, leadership: Leadership, wanted: FetchPartition, isolation: FetchIsolation, replica_id: int
    ) -> bool:
        """Return whether a look would find nothing to serve, to commit or to repeat, and no ISR change."""
        state, replicas = self.partition.log.state, leadership.replicas
        if isolation is FetchIsolation.TXN_COMMITTED:
            return wanted.fetch_offset >= state.offsets.last_stable_offset
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return wanted.fetch_offset >= state.high_watermark
        if wanted.can_raise_to(state.high_watermark, state.log_start_offset):
            return False
        # A pending ISR change, or a replica outside the ISR: its next fetch is what decides.
        is_settled = replica_id in replicas.isr and replicas.pending_isr is None
        return is_settled and wanted.fetch_offset == state.log_end_offset == state.high_watermark

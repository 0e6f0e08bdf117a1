"""What must hold after every event of a run, for the replicas of one partition. Pure: statuses in, a violation out.

| invariant             | violated when                                                                               |
|-----------------------|---------------------------------------------------------------------------------------------|
| one leader an epoch   | two nodes lead in one leader epoch                                                          |
| monotonic epoch       | the leader epoch that a process goes by goes back                                           |
| monotonic watermark   | a process's high watermark goes back within one leader epoch, without a truncation          |
| committed never lost  | a leader's log ends below the highest high watermark that a leader reported, or differs     |
| no divergence         | any replica's log differs from the committed one below its own high watermark               |
| no phantom commit     | a follower's high watermark lies above all that leaders ever reported                       |
| ordered offsets       | log start <= local log start <= log end, high watermark <= log end                          |
| truncated epochs      | a truncation leaves a leader epoch that begins at or above the log's new end                |

"Differs" is told by leader epochs: an offset and the epoch of its record name one record for ever, as long as no epoch
has two leaders. The bytes are compared when the run has ended. Losses that the fault model permits (`forgive`) take
the committed prefix back; replicas that still believe in what was lost are left alone above it until they follow.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from ....log.core import EpochEntry
from ....protocol import TopicIdPartition, value


class InvariantViolationError(AssertionError):
    """The run has failed at this event."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


@value
class ReplicaStatus:
    """One replica at one instant. `incarnation` numbers the processes of a node.

    `leads_epoch` is the epoch in which it serves as the leader, None if it does not.
    """

    node_id: int
    incarnation: int
    leader_epoch: int
    leads_epoch: int | None
    log_start_offset: int
    local_log_start_offset: int
    high_watermark: int
    log_end_offset: int
    epochs: tuple[EpochEntry, ...]


class Replicas(Protocol):
    """All replicas of a run, as of the last event."""

    def of(self, name: TopicIdPartition) -> PartitionJudge: ...

    def status(self, node_id: int, name: TopicIdPartition) -> ReplicaStatus | None:
        """None if the node is down or has no such replica."""


class PartitionJudge:
    """The table, for one partition; `observe` whenever a replica has changed. A compacted one `has_gaps`: a replica
    that copies what is left may never see an epoch of which nothing is, and have an older one at its offsets.
    """

    def __init__(self, name: str, *, has_gaps: bool = False) -> None:
        self.name = name
        self._has_gaps = has_gaps
        self.committed_end = 0
        """The highest high watermark that a leader reported, less what was forgiven."""
        self._committed: tuple[EpochEntry, ...] = ()
        self._leaders: dict[int, int] = {}
        self._last: dict[int, ReplicaStatus] = {}
        self._doubts: dict[int, int] = {}
        """From which offset on a replica may remember what was lost."""
        self._forgiven_epoch = -1
        """Leaders up to this epoch no longer commit anything,"""
        self._forgiven_end = 0
        """and believe in nothing at or above this offset."""
        self._forgiven_from = 0
        self._deposed_epoch = -1
        """The leader of this epoch may live, and commit, until it knows of the election in its place."""

    def observe(self, now: ReplicaStatus) -> None:
        """InvariantViolationError."""
        before = self._last.get(now.node_id)
        self._check_offsets(now)
        if now.leader_epoch <= self._deposed_epoch and now.high_watermark > self._forgiven_from:
            self._doubts.setdefault(now.node_id, self._forgiven_from)
        if before is not None and before.incarnation == now.incarnation:
            self._check_change(before, now)
        is_ahead = now.high_watermark > self.committed_end
        if now.leads_epoch is not None:
            self._check_leader(now, now.leads_epoch)
            if is_ahead:
                self._commit(now)
        elif is_ahead:
            self._check_follower(now)
        if self._doubts or now.epochs != self._committed:
            self._check_divergence(now)
        self._last[now.node_id] = now

    def forget(self, node_id: int) -> None:
        """The process has ended: the next one begins again."""
        self._last.pop(node_id, None)

    def forgive(self, from_offset: int, replicas: Collection[int], *, goes_on: bool = False) -> None:
        """Every in-sync copy from this offset on was lost, and that was permitted; the replicas may not know it yet.
        `goes_on`: nor may who led, with what it commits for as long as it does not.
        """
        if from_offset >= self.committed_end and not goes_on:
            return
        self._forgiven_end = max(self._forgiven_end, self.committed_end)
        self._forgiven_from = from_offset = min(from_offset, self.committed_end)
        if goes_on:
            self._deposed_epoch = max(self._leaders, default=-1)
        self.committed_end = from_offset
        self._committed = tuple(entry for entry in self._committed if entry.start_offset < from_offset)
        self._forgiven_epoch = max(self._leaders, default=-1)
        for node_id in {*replicas, *self._last}:
            self._doubts[node_id] = min(from_offset, self._doubts.get(node_id, from_offset))

    def left(self, node_id: int) -> None:
        """The replica is no longer hosted: what it believed was deleted with its log."""
        self.forget(node_id)
        self._doubts.pop(node_id, None)

    @property
    def has_doubts(self) -> bool:
        """Whether any replica may still believe in what was lost."""
        return bool(self._doubts)

    def first_difference(self, status: ReplicaStatus) -> int:
        """Where the replica's log is no longer the committed one; its end if there is no such offset."""
        end = min(status.log_end_offset, self.committed_end)
        found = self._difference(status, end)
        return status.log_end_offset if found is None else found

    def _difference(self, status: ReplicaStatus, end_offset: int) -> int | None:
        """Where the replica's epochs are not the committed ones, up to `end_offset`."""
        epochs, start = status.epochs, status.log_start_offset
        if not self._has_gaps:
            return first_difference(epochs, self._committed, start, end_offset)
        for entry in epochs:
            committed = epoch_at(self._committed, entry.start_offset)
            if start <= entry.start_offset < end_offset and committed is not None and entry.epoch > committed:
                return entry.start_offset
        return None

    def _violated(self, invariant: str, detail: str) -> InvariantViolationError:
        return InvariantViolationError(invariant, f"{self.name}: {detail}")

    def _check_offsets(self, now: ReplicaStatus) -> None:
        is_ordered = now.log_start_offset <= now.local_log_start_offset <= now.log_end_offset
        if not is_ordered or now.high_watermark > now.log_end_offset:
            raise self._violated("ordered offsets", f"{now}")

    def _check_change(self, before: ReplicaStatus, now: ReplicaStatus) -> None:
        """Check two statuses of one process."""
        if now.leader_epoch < before.leader_epoch:
            detail = f"node {now.node_id} went from {before.leader_epoch} to {now.leader_epoch}"
            raise self._violated("monotonic epoch", detail)
        is_same_leader = now.leads_epoch is not None and now.leads_epoch == before.leads_epoch
        if is_same_leader and now.high_watermark < before.high_watermark:
            detail = (
                f"node {now.node_id} leads epoch {now.leads_epoch}, "
                f"its watermark went from {before.high_watermark} to {now.high_watermark}"
            )
            raise self._violated("monotonic watermark", detail)
        # Only of a log that was cut: an append of several epochs notes them all before its first batch is there.
        # A new leader's own epoch begins at the end.
        is_cut = now.log_end_offset < before.log_end_offset and now.leads_epoch is None
        if is_cut and now.epochs and now.epochs[-1].start_offset >= now.log_end_offset:
            detail = f"node {now.node_id} was cut from {before.log_end_offset}: {now}"
            raise self._violated("truncated epochs", detail)

    def _check_leader(self, now: ReplicaStatus, epoch: int) -> None:
        leader = self._leaders.setdefault(epoch, now.node_id)
        if leader != now.node_id:
            detail = f"epoch {epoch} is led by node {leader} and by node {now.node_id}"
            raise self._violated("one leader an epoch", detail)
        is_short = now.log_end_offset < self.committed_end
        if is_short and epoch == max(self._leaders) and not self._is_forgiven(now):
            detail = (
                f"node {now.node_id} leads epoch {epoch}, its log ends at {now.log_end_offset}; "
                f"{self.committed_end} was committed"
            )
            raise self._violated("committed never lost", detail)

    def _commit(self, now: ReplicaStatus) -> None:
        """Take up what the leader says is committed: more than before."""
        if self._is_forgiven(now):
            if now.high_watermark > self._forgiven_end and not self.is_deposed(now):
                detail = f"node {now.node_id} led before {self._forgiven_end} was lost, and goes on: {now}"
                raise self._violated("no phantom commit", detail)
            self._forgiven_end = max(self._forgiven_end, now.high_watermark)
            return
        if now.epochs != self._committed:
            self._commit_epochs(now)
        self.committed_end = now.high_watermark
        self._doubts.pop(now.node_id, None)

    def _commit_epochs(self, now: ReplicaStatus) -> None:
        difference = self._difference(now, self.committed_end)
        if difference is not None:
            detail = (
                f"leader {now.node_id} of epoch {now.leads_epoch} {_differs(difference, now.epochs, self._committed)}"
            )
            raise self._violated("committed never lost", detail)
        own = tuple(entry for entry in now.epochs if entry.start_offset < now.high_watermark)
        self._committed = _merged(self._committed, own) if self._has_gaps else _joined(self._committed, own)

    def is_deposed(self, now: ReplicaStatus) -> bool:
        """Whether it leads, and does not know of the unclean election in its place."""
        return self._is_forgiven(now) and now.leads_epoch == self._deposed_epoch

    def _is_forgiven(self, now: ReplicaStatus) -> bool:
        return now.leads_epoch is not None and now.leads_epoch <= self._forgiven_epoch

    def _check_follower(self, now: ReplicaStatus) -> None:
        """Check a follower that may believe in more than is committed."""
        believed_end = self._forgiven_end if now.node_id in self._doubts else 0
        if now.high_watermark > believed_end:
            detail = f"node {now.node_id} has {now.high_watermark}, leaders reported {self.committed_end}"
            raise self._violated("no phantom commit", detail)

    def _check_divergence(self, now: ReplicaStatus) -> None:
        end = min(now.high_watermark, self.committed_end)
        doubt = self._doubts.get(now.node_id)
        difference = self._difference(now, end)
        if difference is None:
            if doubt is not None and now.high_watermark <= self.committed_end:
                del self._doubts[now.node_id]
            return
        if doubt is None or difference < doubt:
            detail = f"node {now.node_id} {_differs(difference, now.epochs, self._committed)}"
            raise self._violated("no divergence", detail)


def first_difference(
    one: Sequence[EpochEntry], other: Sequence[EpochEntry], start_offset: int, end_offset: int
) -> int | None:
    """The first offset of [start_offset, end_offset) whose leader epoch is not the same in both histories."""
    if one == other:
        return None
    borders = sorted({start_offset, *(e.start_offset for e in one), *(e.start_offset for e in other)})
    for offset in borders:
        if start_offset <= offset < end_offset and epoch_at(one, offset) != epoch_at(other, offset):
            return offset
    return None


def epoch_at(epochs: Sequence[EpochEntry], offset: int) -> int | None:
    """The leader epoch of the record at `offset`; None below the first entry."""
    found = None
    for entry in epochs:
        if entry.start_offset > offset:
            break
        found = entry.epoch
    return found


def _joined(older: tuple[EpochEntry, ...], own: tuple[EpochEntry, ...]) -> tuple[EpochEntry, ...]:
    """`own`, and below where it begins the older history."""
    if not own:
        return older
    below = tuple(entry for entry in older if entry.start_offset < own[0].start_offset)
    if below and below[-1].epoch == own[0].epoch:
        return (*below, *own[1:])
    return (*below, *own)


def _merged(older: tuple[EpochEntry, ...], own: tuple[EpochEntry, ...]) -> tuple[EpochEntry, ...]:
    """The epochs of both, each from where it begins first."""
    starts: dict[int, int] = {}
    for entry in (*older, *own):
        starts[entry.epoch] = min(entry.start_offset, starts.get(entry.epoch, entry.start_offset))
    return tuple(EpochEntry(epoch, start_offset) for epoch, start_offset in sorted(starts.items()))


def _differs(offset: int, own: Sequence[EpochEntry], committed: Sequence[EpochEntry]) -> str:
    return f"has epoch {epoch_at(own, offset)} at offset {offset}, where {epoch_at(committed, offset)} is committed"

"""What a leader knows of its followers under one leader epoch, and what follows: high watermark and ISR changes.

One instance for one leader epoch; a new epoch begins a new record, in which no follower's position is known. Pure: the
caller brings the time (monotonic ms) and the leader's own offsets, proposes ISR changes to the controller and
reports the outcome.

A follower's fetch at offset F, answered when the leader's log ended at L:

    F >= L                                   it is caught up now
    F >= where the leader ended at its       it was caught up when it made that earlier fetch: it has since received
    previous fetch                           all that existed then
    else                                     its last caught-up time stays

High watermark: the minimum log end offset over the leader, the committed ISR, a pending addition, and replicas that
are caught up and eligible but not in the ISR yet, so that one which is about to join never lies below it. Frozen (None)
while the committed ISR is smaller than min ISR. It is a candidate: the log keeps it monotonic within an epoch.

    ISR change   when                                                                     who asks
    -----------  -----------------------------------------------------------------------  ------------------------
    shrink       not caught up for `lag_time_max_ms`, and its end is not the leader's     a timer
    shrink       a member's end is below the high watermark: its log has become shorter   each fetch
    expand       eligible, its end >= high watermark and >= the start of this epoch       each fetch

One change at a time. While a shrink is pending the old members still count, while an expansion is pending the new
member counts already: whichever outcome is committed, no acknowledged record is missing on a member.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ...light_dataclass import dataclass
from ...protocol import value

UNKNOWN_OFFSET = -1


@value
class FollowerFetch:
    """What one Fetch says about a follower. `broker_epoch` -1: not stated. `local_log_start_offset`: a thin one's, None
    of a full one. `connection_id`: later connections have higher ones.
    """

    fetch_offset: int
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int = -1
    local_log_start_offset: int | None = None
    connection_id: int = 0


@dataclass(slots=True)
class Follower:
    """One follower as its fetches show it; offsets -1 until the first fetch of this leader epoch.

    `local_log_start_offset` None: not reported, taken as a full local log.
    """

    last_caught_up_time_ms: int | None
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    local_log_start_offset: int | None = None
    leader_end_offset_at_last_fetch: int = UNKNOWN_OFFSET
    last_fetch_time_ms: int | None = None
    broker_epoch: int = -1
    connection_id: int = 0
    """The newest connection by which it has fetched."""
    is_late: bool = False
    """Its last fetch came by an older connection: it may have been sent before the one noted before it."""

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        if self.log_end_offset == leader_end_offset:
            return True
        return self.last_caught_up_time_ms is not None and now_ms - self.last_caught_up_time_ms <= lag_time_max_ms


class LeaderReplicas:
    """The followers, the committed ISR and the change under way of one led partition."""

    def __init__(
        self,
        *,
        leader_id: int,
        epoch_start_offset: int,
        replicas: Collection[int],
        isr: Collection[int],
        partition_epoch: int,
        min_insync_replicas: int,
        lag_time_max_ms: int,
        now_ms: int,
    ) -> None:
        """Members of the ISR count as caught up now: a new leader gives them the whole lag time to show themselves."""
        assert leader_id in isr, f"leader {leader_id} is not in its ISR {sorted(isr)}"
        self.leader_id = leader_id
        self.epoch_start_offset = epoch_start_offset
        self.isr = frozenset(isr)
        self.pending_isr: frozenset[int] | None = None
        self.partition_epoch = partition_epoch
        self.min_insync_replicas = min_insync_replicas
        self.lag_time_max_ms = lag_time_max_ms
        self.followers: dict[int, Follower] = {}
        self._eligible_epochs: Mapping[int, int] | None = None
        self.assign(replicas, now_ms)

    def assign(self, replicas: Iterable[int], now_ms: int) -> None:
        """The assignment changed within this leader epoch: forget followers that left, begin with those that came."""
        wanted = sorted(set(replicas) - {self.leader_id})
        self.followers = {
            replica_id: self.followers.get(replica_id) or Follower(now_ms if replica_id in self.isr else None)
            for replica_id in wanted
        }

    def set_eligible(self, broker_epochs: Mapping[int, int]) -> None:
        """Brokers that may join an ISR (alive, not fenced, not shutting down), with their registered epochs.

        Until the first call every follower may.
        """
        self._eligible_epochs = dict(broker_epochs)

    def record_fetch(self, replica_id: int, fetch: FollowerFetch, leader_end_offset: int, now_ms: int) -> bool:
        """Note a fetch that `validate_fetch` let pass. False, and no note, if an earlier incarnation sent it."""
        follower = self.followers[replica_id]
        # A new leader has had no fetch yet: without the registered epoch a process of the past could speak first.
        if 0 <= fetch.broker_epoch < max(follower.broker_epoch, self._registered_epoch(replica_id)):
            return False
        if fetch.fetch_offset >= leader_end_offset:
            self._caught_up_at(follower, now_ms)
        elif follower.last_fetch_time_ms is not None and fetch.fetch_offset >= follower.leader_end_offset_at_last_fetch:
            self._caught_up_at(follower, follower.last_fetch_time_ms)
        follower.log_end_offset = fetch.fetch_offset
        follower.log_start_offset = fetch.log_start_offset
        follower.local_log_start_offset = fetch.local_log_start_offset
        if follower.leader_end_offset_at_last_fetch < leader_end_offset:
            follower.leader_end_offset_at_last_fetch = leader_end_offset
        follower.last_fetch_time_ms = now_ms
        follower.broker_epoch = fetch.broker_epoch
        follower.is_late = fetch.connection_id < follower.connection_id
        follower.connection_id = max(follower.connection_id, fetch.connection_id)
        return True

    def _registered_epoch(self, replica_id: int) -> int:
        """Return the epoch under which a live broker is registered; -1 where none is known."""
        return -1 if self._eligible_epochs is None else self._eligible_epochs.get(replica_id, -1)

    def note_caught_up(self, replica_id: int, now_ms: int) -> None:
        """The follower went on to fetch at the end of a log that did not move; its last such fetch was then."""
        follower = self.followers.get(replica_id)
        if follower is not None:
            self._caught_up_at(follower, now_ms)
            follower.last_fetch_time_ms = max(now_ms, follower.last_fetch_time_ms or now_ms)

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The committed ISR and a pending addition."""
        return self.isr if self.pending_isr is None else self.isr | self.pending_isr

    @property
    def is_under_min_isr(self) -> bool:
        """Fewer members than `min.insync.replicas`, or than there are replicas at all."""
        size = len(self.isr)
        return size < self.min_insync_replicas and size <= len(self.followers)

    def high_watermark(self, leader_end_offset: int, now_ms: int) -> int | None:
        """The candidate for the high watermark, None while it is frozen; -1 while a member's position is unknown."""
        if self.is_under_min_isr:
            return None
        members, lowest = self.maximal_isr, leader_end_offset
        for replica_id, follower in self.followers.items():
            if follower.log_end_offset < lowest and (
                replica_id in members
                or (
                    follower.is_caught_up(leader_end_offset, now_ms, self.lag_time_max_ms)
                    and self._is_eligible(replica_id)
                )
            ):
                lowest = follower.log_end_offset
        return lowest

    def shrunk_isr(self, leader_end_offset: int, now_ms: int) -> frozenset[int] | None:
        """The ISR without its laggards, None if there is none or a change is pending."""
        if self.pending_isr is not None:
            return None
        laggards = {
            replica_id
            for replica_id in self.isr - {self.leader_id}
            if replica_id not in self.followers
            or not self.followers[replica_id].is_caught_up(leader_end_offset, now_ms, self.lag_time_max_ms)
        }
        return self.isr - laggards if laggards else None

    def isr_without_shorter(self, replica_id: int, high_watermark: int) -> frozenset[int] | None:
        """The ISR without this member where it fetches below the high watermark, which every member has reached: what
        it had acknowledged it has lost. None if that is not so, or a change is pending.

        Where the network was cut, a fetch of the old connection arrives after those of the new one, and tells what was.
        """
        if self.pending_isr is not None or replica_id not in self.isr:
            return None
        follower = self.followers[replica_id]
        is_shorter = follower.log_end_offset < high_watermark and not follower.is_late
        return self.isr - {replica_id} if is_shorter else None

    def expanded_isr(self, replica_id: int, high_watermark: int, log_start_offset: int) -> frozenset[int] | None:
        """The ISR with this follower, None if it is a member, may not join yet, or a change is pending.

        One with a lower log start than the leader's would name, if it led next, what is being deleted from the tier.
        """
        if self.pending_isr is not None or replica_id in self.isr or not self._is_eligible(replica_id):
            return None
        follower = self.followers[replica_id]
        if follower.log_end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        if UNKNOWN_OFFSET < follower.log_start_offset < log_start_offset:
            return None
        return self.isr | {replica_id}

    def begin_change(self, isr: frozenset[int]) -> None:
        """Note that a change was sent to the controller, conditional on `partition_epoch`."""
        assert self.pending_isr is None, f"ISR {sorted(self.pending_isr or ())} is pending, {sorted(isr)} must wait"
        assert self.leader_id in isr, f"leader {self.leader_id} would leave its own ISR {sorted(isr)}"
        self.pending_isr = isr

    def abandon_change(self) -> None:
        """The change was refused for good. On an unknown outcome it stays pending and is sent again."""
        self.pending_isr = None

    def commit_isr(self, isr: Collection[int], partition_epoch: int) -> bool:
        """The ISR as it was decided, by our proposal or not. False, and no effect, if it is older than what we know."""
        if partition_epoch < self.partition_epoch:
            return False
        self.isr = frozenset(isr)
        self.partition_epoch = partition_epoch
        self.pending_isr = None
        return True

    def lowest_log_start(self, own_log_start_offset: int, among: Collection[int]) -> int:
        """The lowest log start over the leader and these followers; -1 while one has not fetched.

        None of them refers to remote data below it, so expiry may delete that (`among` the ISR), and DeleteRecords may
        answer (`among` the live replicas).
        """
        followers = (self.followers[replica_id] for replica_id in among if replica_id in self.followers)
        return min([own_log_start_offset, *(follower.log_start_offset for follower in followers)])

    def thin_followers(self, leader_local_log_start_offset: int) -> frozenset[int]:
        """Followers whose local log is shorter than the leader's: last in line to lead and to be read from."""
        return frozenset(
            replica_id
            for replica_id, follower in self.followers.items()
            if follower.local_log_start_offset is not None
            and follower.local_log_start_offset > leader_local_log_start_offset
        )

    def _is_eligible(self, replica_id: int) -> bool:
        if self._eligible_epochs is None:
            return True
        registered_epoch = self._eligible_epochs.get(replica_id)
        if registered_epoch is None:
            return False
        stated_epoch = self.followers[replica_id].broker_epoch
        return stated_epoch in (-1, registered_epoch)

    @staticmethod
    def _caught_up_at(follower: Follower, time_ms: int) -> None:
        last_ms = follower.last_caught_up_time_ms
        if last_ms is None or last_ms < time_ms:
            follower.last_caught_up_time_ms = time_ms

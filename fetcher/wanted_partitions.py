"""What is fetched from a leader, looked at again where something may have changed: a fetch costs its follower what has
moved, not what it fetches.

    | a replica | is looked at |
    |---|---|
    | was added, removed or answered, or its state has changed: touched | before the next fetch |
    | has an effect under way, or is held back by the throttle | before each fetch |
    | has not caught up, while there is a throttle | before each fetch |
    | has no room on its disk | before each fetch, at least each second |
    | bootstraps, backs off, has failed, or has all that was committed | once it is touched, or its turn comes |

What changes a replica without an answer or a change of its state is noticed by the look at all, which goes round them,
some at a time: retention has raised its log start, its log has failed, its leader epoch is over. The owner
removes a replica of the last two by itself, and the first may be told late. So with thousands of replicas the round
takes longer, and costs some per cent of a core.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Final

from ..protocol import TopicIdPartition
from .core.partition_fetch import PartitionToFetch
from .core.replication_quota import FollowerThrottle
from .followed_replica import FollowedReplica, ReplicaState

HELD_BACK_S_MAX: Final = 1.0
"""After this long a throttle is asked again: it may have been changed."""
LOOK_AT_ALL_S: Final = 0.5
"""The time from one round to the next, for up to `LOOKS_PER_S` in that time."""
LOOKS_PER_S: Final = 2_000
"""Replicas at rest that are looked at in a second, on average: some 25 us each, with what the fetch does about it."""
LOOK_MAX: Final = 200
"""Replicas at rest that one fetch looks at: some 5 ms."""
LOOK_LATE_MAX: Final = 1_000
"""The same where fetches are rare, and each has to look at more for `LOOKS_PER_S`: some 25 ms, twice a second."""
_BUSY: Final = frozenset({ReplicaState.FETCHING, ReplicaState.TRUNCATING})
"""Nothing says when a replica in another state is wanted again but the change of that state."""


class WantedPartitions:
    """The partitions that one fetcher requests, out of its `replicas`. `max_bytes` limits each partition's answer."""

    def __init__(
        self, replicas: Mapping[TopicIdPartition, FollowedReplica], throttle: FollowerThrottle, max_bytes: int
    ) -> None:
        self.requests: dict[TopicIdPartition, PartitionToFetch] = {}
        """The requests, longest unchanged first: the leader may run out of bytes."""
        self.held_back_s: float | None = None
        """When the first of those may be fetched that the throttle holds back; None if it holds back none."""
        self._replicas = replicas
        self._throttle = throttle
        self._max_bytes = max_bytes
        self._touched: dict[TopicIdPartition, None] = {}
        self._bootstrapping: set[TopicIdPartition] = set()
        self._catching_up: set[TopicIdPartition] = set()
        """The requested replicas that have not caught up."""
        self._behind: set[TopicIdPartition] = set()
        self._new: set[TopicIdPartition] = set()
        self._round: list[TopicIdPartition] = []
        """The replicas whose turn in this look at all is still to come, the last one first."""
        self._round_began_s = -math.inf
        self._looked_s = math.inf
        """When the last look was; the first one has none to make up for."""

    @property
    def is_in_motion(self) -> bool:
        """Whether at the last look a replica was bootstrapping, or is fetched for the first time, or the first since it
        was cut: there may be nothing to fetch of it, and others may become ready soon.
        """
        return bool(self._bootstrapping or self._new)

    @property
    def is_behind(self) -> bool:
        """Whether a replica that has not caught up is fetched from an offset for which no fetch was answered yet: the
        leader has records for it, and sends them at once.
        """
        return bool(self._behind)

    def answered(self) -> None:
        """The fetch of all `requests` was answered. What has got nothing stands where it did, and may wait."""
        self._new.clear()
        self._behind.clear()

    def touch(self, key: TopicIdPartition) -> None:
        """To be looked at before the next fetch."""
        self._touched[key] = None

    def fetched(self, key: TopicIdPartition) -> FollowedReplica | None:
        """The replica that is fetched under this name; None if it was removed since, though another may have come."""
        replica = self._replicas.get(key)
        if replica is None or replica.asked is None or self.requests.get(key) is not replica.asked:
            return None
        return replica

    def look(self, now_s: float) -> Collection[TopicIdPartition]:
        """Bring `requests` up to date; what was looked at for that since there was something to fetch."""
        self._look_around(now_s)
        if self._throttle.is_limited:
            self._touched.update(dict.fromkeys(self._catching_up))
        touched, self._touched = self._touched, {}
        self.held_back_s = None
        for key in touched:
            replica, request = self._replicas.get(key), None
            self._bootstrapping.discard(key)
            is_new = replica is not None and replica.asked is None
            if replica is not None:
                request = self._request(key, replica) if self._is_due(replica, now_s) else None
                if replica.state is ReplicaState.BOOTSTRAPPING:
                    self._bootstrapping.add(key)
                elif replica.state in _BUSY and request is None:
                    self._touched[key] = None
            if request is None or replica is None or replica.is_caught_up:
                self._catching_up.discard(key)
            else:
                self._catching_up.add(key)
            if request is not self.requests.get(key):
                is_new |= self.requests.pop(key, None) is None
                self._note_behind(key, replica if request is not None else None, is_new=is_new)
                if request is not None:
                    self.requests[key] = request
        if not self.requests:  # there is no fetch to tell of them
            self._touched |= touched
        return touched

    def _note_behind(self, key: TopicIdPartition, replica: FollowedReplica | None, *, is_new: bool) -> None:
        """Note that a replica is fetched from another offset than before; None: no longer."""
        self._behind.discard(key)
        self._new.discard(key)
        if replica is not None and not replica.is_caught_up:
            self._behind.add(key)
            if is_new:
                self._new.add(key)

    def _look_around(self, now_s: float) -> None:
        """Touch those whose turn has come."""
        if not self._round and now_s >= self._round_began_s + max(LOOK_AT_ALL_S, len(self._replicas) / LOOKS_PER_S):
            self._round_began_s = now_s
            self._round = list(self._replicas)[::-1]
        share = LOOKS_PER_S * max(now_s - self._looked_s, 0.0)
        self._looked_s = now_s
        for _ in range(min(max(LOOK_MAX, int(min(share, LOOK_LATE_MAX))), len(self._round))):
            self._touched[self._round.pop()] = None

    def _is_due(self, replica: FollowedReplica, now_s: float) -> bool:
        is_ready = replica.state is ReplicaState.FETCHING and replica.is_current and not replica.effects.locked()
        if not is_ready or replica.partition.has_failed:
            return False
        if not replica.partition.has_room:
            self.held_back_s = self.held_back_s or HELD_BACK_S_MAX
            return False
        wait_s = 0.0 if replica.is_caught_up else self._throttle.wait_s(replica.partition.topic_id_partition)
        replica.note_throttle(now_s, is_held=wait_s > 0)
        if wait_s > 0:
            self.held_back_s = min(wait_s, self.held_back_s or HELD_BACK_S_MAX, HELD_BACK_S_MAX)
        return wait_s <= 0

    def _request(self, key: TopicIdPartition, replica: FollowedReplica) -> PartitionToFetch:
        """From where it stands now: the same value while that is the same."""
        partition, asked, last_fetched_epoch = replica.partition, replica.asked, replica.partition.epochs.latest_epoch
        offsets = partition.offsets
        fetch_offset, log_start_offset = offsets.log_end_offset, offsets.log_start_offset
        if (
            asked is None
            or asked.fetch_offset != fetch_offset
            or asked.log_start_offset != log_start_offset
            or asked.last_fetched_epoch != last_fetched_epoch
        ):
            asked = replica.asked = PartitionToFetch(
                key,
                fetch_offset,
                log_start_offset,
                last_fetched_epoch,
                replica.leader_epoch,
                self._max_bytes,
            )
        return asked

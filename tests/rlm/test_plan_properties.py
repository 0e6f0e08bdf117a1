"""The plan driven over a model of two replicas and one tier, with faults, and what must hold after every step.

The model performs actions as the shell would, one at a time, and lets anything happen in between: a copy dies half-way,
a follower lags, the leader changes, time passes, an object vanishes. Offsets carry no data: a replica's history is its
epoch cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.log.core import LeaderEpochCache
from tierfetch.remote.core import (
    OffsetRuns,
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierfetch.rlm.core.plan import (
    AbandonOrphan,
    Action,
    Copy,
    DeleteLocal,
    DeleteRemote,
    Prove,
    RaiseLogStart,
    RollActive,
    pending_copies,
    plan,
)
from tierfetch.rlm.core.view import PartitionView, TierMode

from .views import DELETING, FINISHED, PARTITION, STARTED, local, policy, remote, view

ROUNDS_MAX = 200
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


@dataclass
class Replica:
    """A local log: segment base offsets, the last one active."""

    id: int
    bases: list[int] = field(default_factory=lambda: [0])
    end: int = 0
    log_start: int = 0
    high_watermark: int = 0
    epochs: LeaderEpochCache = field(default_factory=LeaderEpochCache)
    proven: set[RemoteLogSegmentId] = field(default_factory=set)
    disproven: set[RemoteLogSegmentId] = field(default_factory=set)

    @property
    def local_start(self) -> int:
        return max(self.bases[0], self.log_start)

    def roll(self) -> None:
        if self.end > self.bases[-1]:
            self.bases.append(self.end)

    def truncate_to(self, end_offset: int) -> None:
        assert self.local_start <= end_offset <= self.end
        if end_offset < self.end:
            self.end = end_offset
            self.epochs.truncate_from_end(end_offset)
            while self.bases[-1] > end_offset:
                self.bases.pop()
        self.high_watermark = min(self.high_watermark, end_offset)

    def raise_log_start(self, to_offset: int) -> None:
        assert to_offset <= self.high_watermark
        self.log_start = max(self.log_start, to_offset)
        self.epochs.truncate_from_start(self.log_start)

    def delete_local(self, up_to_offset: int) -> None:
        assert up_to_offset <= self.bases[-1], "the active segment stays"
        while len(self.bases) > 1 and self.bases[1] <= up_to_offset:
            del self.bases[0]


class Cluster:
    """Two replicas, both in the ISR, and a tier whose ledger both read at once."""

    def __init__(self) -> None:
        self.replicas = [Replica(1), Replica(2)]
        self.leader = self.replicas[0]
        self.epoch = 0
        self.now_ms = 0
        self.policy = policy()
        self.tier: dict[RemoteLogSegmentId, RemoteLogSegmentMetadata] = {}
        self.stored: set[RemoteLogSegmentId] = set()
        self.numbers = itertools.count(1)
        self.ledger = RemoteLogLedger(PARTITION)
        self.leader.epochs.assign(0, 0)

    @property
    def follower(self) -> Replica:
        return self.replicas[1] if self.leader is self.replicas[0] else self.replicas[0]

    def look(self, replica: Replica) -> PartitionView:
        parts = [local(a, b) for a, b in itertools.pairwise([*replica.bases, replica.end])]
        leads = replica is self.leader
        return view(
            epochs=tuple((entry.epoch, entry.start_offset) for entry in replica.epochs.entries),
            leader_epoch=self.epoch if leads else None,
            broker_id=replica.id,
            log_start_offset=replica.log_start,
            local_log_start_offset=replica.local_start,
            high_watermark=replica.high_watermark,
            last_stable_offset=replica.high_watermark,
            log_end_offset=replica.end,
            closed=tuple(parts[:-1]),
            active=parts[-1],
            remote=tuple(sorted(self.tier.values(), key=lambda segment: segment.start_offset)),
            deleted_to=self.ledger.deleted_to(replica.epochs.entries, replica.log_start),
            isr_log_start_min=min(each.log_start for each in self.replicas),
            policy=self.policy,
            proven=frozenset(replica.proven),
            disproven=frozenset(replica.disproven),
        )

    def replicate(self) -> None:
        follower = self.follower
        follower.end = self.leader.end
        for entry in self.leader.epochs.entries:
            follower.epochs.assign(entry.epoch, entry.start_offset)
        self.leader.high_watermark = self.leader.end
        follower.high_watermark = self.leader.high_watermark
        follower.raise_log_start(self.leader.log_start)

    def fail_over(self) -> None:
        old, self.leader = self.leader, self.follower
        self.epoch += 1
        self.leader.epochs.assign(self.epoch, self.leader.end)
        old.truncate_to(min(old.end, self.leader.end))

    def elect_uncleanly(self, lost: int) -> None:
        """The follower, which lacks the last `lost` offsets, leads: what was above its end is lost history."""
        end = max(self.follower.end - lost, *(replica.local_start for replica in self.replicas))
        self.follower.truncate_to(min(end, self.follower.end))
        self.fail_over()

    def lose_object(self) -> None:
        """Of a segment that both replicas still have locally."""
        start = max(replica.local_start for replica in self.replicas)
        for segment_id, segment in self.tier.items():
            if segment.state is FINISHED and segment.start_offset >= start and segment_id in self.stored:
                self.stored.discard(segment_id)
                for replica in self.replicas:
                    replica.proven.discard(segment_id)
                return

    def do(self, replica: Replica, action: Action, *, dies: bool = False) -> None:
        match action:
            case Copy(segment):
                self.copy(replica, segment.base_offset, segment.end_offset, dies=dies)
            case AbandonOrphan(segment_id):
                self.abandon(replica, segment_id, dies=dies)
            case RaiseLogStart(to_offset):
                replica.raise_log_start(to_offset)
            case DeleteRemote(segment_ids):
                for segment_id in segment_ids:
                    self.delete_remote(segment_id, dies=dies)
            case Prove(segment_ids):
                for segment_id in segment_ids:
                    (replica.proven if segment_id in self.stored else replica.disproven).add(segment_id)
            case DeleteLocal(up_to_offset):
                replica.delete_local(up_to_offset)
            case RollActive(base_offset):
                assert base_offset == replica.bases[-1]
                replica.roll()

    def copy(self, replica: Replica, start: int, end: int, *, dies: bool) -> None:
        assert end <= replica.bases[-1], "the active segment is never copied"
        assert end <= replica.high_watermark
        epochs = tuple((entry.epoch, entry.start_offset) for entry in replica.epochs.range(start, end))
        segment = remote(
            next(self.numbers), start, end, epochs=epochs, state=STARTED, broker_id=replica.id, at_ms=self.now_ms
        )
        self.ledger.apply(segment)
        if not dies:
            self.stored.add(segment.segment_id)
            segment = replace(segment, state=FINISHED)
            self.note(segment.segment_id, FINISHED)
        self.tier[segment.segment_id] = segment

    def abandon(self, replica: Replica, segment_id: RemoteLogSegmentId, *, dies: bool) -> None:
        """Another broker's copy is finished just after the last look at it, as late as it can be."""
        assert self.tier[segment_id].state is STARTED
        if self.tier[segment_id].broker_id != replica.id:
            self.finish(segment_id)
        self.delete_remote(segment_id, dies=dies)

    def finish(self, segment_id: RemoteLogSegmentId) -> None:
        """Finish the copy. The follower counts on it at once."""
        self.stored.add(segment_id)
        self.note(segment_id, FINISHED)
        self.tier[segment_id] = replace(self.tier[segment_id], state=FINISHED)
        for _ in range(2):  # proofs first, local deletions next
            for action in plan(self.look(self.follower), self.now_ms):
                self.do(self.follower, action)

    def note(self, segment_id: RemoteLogSegmentId, state: RemoteLogSegmentState) -> None:
        assert self.ledger.apply(RemoteLogSegmentMetadataUpdate(segment_id, state, self.now_ms, 1))

    def delete_remote(self, segment_id: RemoteLogSegmentId, *, dies: bool) -> None:
        segment = self.tier[segment_id]
        if segment.state is FINISHED and segment_id in self.stored:
            live = [
                r for r in self.replicas if segment in list(self.look(r).usable) and r.log_start <= segment.end_offset
            ]
            assert not live or self.is_needless(segment) or self.policy.mode is TierMode.DELETING
        if segment.state is not DELETING:
            self.note(segment_id, DELETING)
        self.tier[segment_id] = replace(segment, state=DELETING)
        if not dies:
            self.note(segment_id, DELETED)
            self.stored.discard(segment_id)
            del self.tier[segment_id]

    def is_needless(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Whether every replica has its offsets locally, or in other segments."""
        others = OffsetRuns.of(
            each for each in self.tier.values() if each.state is FINISHED and each.segment_id != segment.segment_id
        )
        return all(
            replica.local_start <= segment.start_offset
            or others.holds(max(segment.start_offset, replica.log_start), segment.end_offset + 1)
            for replica in self.replicas
        )

    def readable(self, replica: Replica, *, stored_only: bool = True) -> OffsetRuns:
        """What the tier holds of a replica's history, the agreeing part of straddling segments included."""
        parts = []
        for segment in [segment for segment in self.tier.values() if segment.state is FINISHED]:
            for epoch, first, last in segment.epoch_ranges():
                end = replica.epochs.end_offset_for(epoch, replica.end)
                begins = next((e.start_offset for e in replica.epochs.entries if e.epoch == epoch), None)
                if begins is None or end.epoch != epoch or (stored_only and segment.segment_id not in self.stored):
                    continue
                first, last = max(first, begins), min(last, end.end_offset - 1)
                if first <= last:
                    parts.append(replace(segment, start_offset=first, end_offset=last))
        return OffsetRuns.of(parts)

    def check(self) -> None:
        """No offset that somebody may name is in neither tier."""
        for replica in self.replicas:
            if self.policy.mode is not TierMode.DELETING:
                assert self.readable(replica).holds(replica.log_start, replica.local_start), replica
        assert self.leader.log_start <= self.leader.high_watermark

    def settle(self) -> None:
        """Everything works for a while: the plan of each replica comes to rest."""
        for _ in range(ROUNDS_MAX):
            self.replicate()
            self.now_ms += 1_000_000
            acted = False
            for replica in self.replicas:
                for action in plan(self.look(replica), self.now_ms):
                    self.do(replica, action)
                    self.check()
                    acted = True
            if not acted:
                return
        raise AssertionError(f"no rest: {[plan(self.look(replica), self.now_ms) for replica in self.replicas]}")


def act(cluster: Cluster, random: Random) -> None:
    replica = random.choice(cluster.replicas)
    for action in plan(cluster.look(replica), cluster.now_ms)[: random.randint(1, 4)]:
        cluster.do(replica, action, dies=random.random() < 0.2)
        cluster.check()


def produce(cluster: Cluster, random: Random) -> None:
    cluster.leader.end += random.randint(1, 60)


def tick(cluster: Cluster, random: Random) -> None:
    cluster.now_ms += random.randint(1, 500)


HAPPENINGS: dict[Callable[[Cluster, Random], None], int] = {
    act: 40,
    produce: 20,
    tick: 5,
    lambda cluster, random: random.choice(cluster.replicas).roll(): 10,
    lambda cluster, _: cluster.replicate(): 15,
    lambda cluster, _: cluster.fail_over(): 2,
    lambda cluster, random: cluster.elect_uncleanly(random.randint(0, 80)): 2,
    lambda cluster, _: cluster.lose_object(): 2,
}
"""What may happen, and how often relative to the rest."""


def run(cluster: Cluster, random: Random, steps: int) -> None:
    """`steps` things happen, one after the other; the seed of `random` names the run."""
    for happening in random.choices(list(HAPPENINGS), weights=list(HAPPENINGS.values()), k=steps):
        happening(cluster, random)
        cluster.check()


SEEDS = st.integers(0, 2**32)
BYTES = st.sampled_from([-1, -1, 0, 100, 400, 1500])
AGES_MS = st.sampled_from([-1, -1, -1, -1, 0, 400])


@settings(max_examples=60, deadline=None)
@given(SEEDS, AGES_MS, BYTES, AGES_MS, BYTES)
def test_R1_R2_R4_no_offset_in_neither_tier_and_the_plan_comes_to_rest(
    seed: int, whole_ms: int, whole_bytes: int, local_ms: int, local_bytes: int
) -> None:
    cluster = Cluster()
    cluster.policy = policy(
        retention_ms=whole_ms,
        retention_bytes=whole_bytes,
        local_retention_ms=local_ms,
        local_retention_bytes=local_bytes,
    )
    run(cluster, Random(seed), 80)
    cluster.settle()
    leader = cluster.look(cluster.leader)
    assert pending_copies(leader) == []
    # Another broker's copy that was given up stays until the active segment, which holds some of it, is copied, too.
    copied_to = leader.active.base_offset
    assert all(segment.state is FINISHED or segment.end_offset >= copied_to for segment in cluster.tier.values())
    assert cluster.stored <= set(cluster.tier)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_R6_disabled_and_enabled_again(seed: int) -> None:
    cluster = Cluster()
    random = Random(seed)
    cluster.policy = policy(local_retention_bytes=300)
    run(cluster, random, 60)
    cluster.settle()
    cluster.policy = policy(TierMode.DELETING)
    cluster.settle()
    assert not cluster.tier
    assert not cluster.stored
    assert cluster.leader.log_start == cluster.leader.local_start
    cluster.follower.raise_log_start(cluster.follower.local_start)
    cluster.policy = policy(local_retention_bytes=300)
    run(cluster, random, 40)
    cluster.settle()
    tiered = cluster.readable(cluster.leader, stored_only=False)
    assert tiered.holds(cluster.leader.log_start, cluster.leader.bases[-1])


@settings(max_examples=60, deadline=None)
@given(SEEDS, BYTES, BYTES)
def test_same_view_same_plan_and_each_action_changes_the_view(seed: int, whole_bytes: int, local_bytes: int) -> None:
    cluster = Cluster()
    cluster.policy = policy(retention_bytes=whole_bytes, local_retention_bytes=local_bytes)
    run(cluster, Random(seed), 40)
    for replica in cluster.replicas:
        seen = cluster.look(replica)
        actions = plan(seen, cluster.now_ms)
        assert actions == plan(seen, cluster.now_ms)
        for action in actions:
            cluster.do(replica, action)
        repeated = set(actions) & set(plan(cluster.look(replica), cluster.now_ms))
        assert not repeated

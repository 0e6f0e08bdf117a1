"""Bugs of replication: who counts, where a follower cuts, what it adopts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

from tierfetch.broker.handlers import offsets
from tierfetch.broker.replicas.delayed import OffsetWaiters
from tierfetch.broker.replicas.partition import Partition
from tierfetch.fetcher import aux_state
from tierfetch.fetcher.core import epoch_fetch, leader_offsets
from tierfetch.fetcher.core.bootstrap import ResumeFetch, Trigger
from tierfetch.fetcher.core.epoch_fetch import FetchIsolation, LeaderView
from tierfetch.fetcher.core.leader_offsets import EARLIEST_LOCAL_TIMESTAMP, EARLIEST_TIMESTAMP
from tierfetch.fetcher.core.leader_replicas import LeaderReplicas
from tierfetch.fetcher.replica_fetcher import ReplicaFetcher
from tierfetch.log.core import EpochEntry, LeaderEpochCache, ProducerStateManager
from tierfetch.log.keeper import replace_replica as adopt
from tierfetch.remote.core import OffsetAndEpoch
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.sim.scenarios.cluster_options import SMALL_FETCH_BYTES
from tierfetch.tests.sim.planted.registry import planted


@planted(
    "a follower truncates to its high watermark (before KIP-101)",
    file="fetcher/core/bootstrap.py",
    scenario="cluster",
    needs_quiet=True,
    faults=(FaultKind.MOVE_LEADER,),
)
def truncate_to_high_watermark() -> Iterator[None]:
    original = ReplicaFetcher._carry_out

    async def carry_out(self, replica, prepared):
        partition = replica.partition
        if isinstance(prepared.outcome, ResumeFetch) and replica.trigger is Trigger.ASSIGNED:
            offsets, high_watermark = partition.offsets, partition._partition.log.state.high_watermark
            cut = max(high_watermark, offsets.local_log_start_offset)
            if cut < offsets.log_end_offset:
                await partition.truncate_to(cut)
        await original(self, replica, prepared)

    with patch.object(ReplicaFetcher, "_carry_out", carry_out):
        yield


@planted(
    "the leader overlooks a diverging log that is not longer",
    file="fetcher/core/epoch_fetch.py",
    scenario="cluster",
    faults=(FaultKind.PARTITION, FaultKind.ONE_WAY, FaultKind.MOVE_LEADER),
    weak_producers=(1,),
)
def overlooked_divergence() -> Iterator[None]:
    original = epoch_fetch.check_divergence

    def check(epochs, log_end_offset, fetch_offset, last_fetched_epoch, rules):
        found = original(epochs, log_end_offset, fetch_offset, last_fetched_epoch, rules)
        return found if fetch_offset > log_end_offset else None

    with patch.object(epoch_fetch, "check_divergence", check):
        yield


@planted(
    "consumers read past the high watermark",
    file="fetcher/core/epoch_fetch.py",
    scenario="cluster",
    faults=(FaultKind.PARTITION, FaultKind.PROCESS_CRASH, FaultKind.PAUSE),
)
def read_past_high_watermark() -> Iterator[None]:
    original = LeaderView.end_visible_to

    def end_visible_to(self: LeaderView, isolation: FetchIsolation) -> int:
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.log_end_offset
        return original(self, isolation)

    with patch.object(LeaderView, "end_visible_to", end_visible_to):
        yield


@planted(
    "acks=all is answered before the high watermark",
    file="broker/replicas/partition.py",
    scenario="cluster",
    faults=(FaultKind.PARTITION, FaultKind.PROCESS_CRASH, FaultKind.PAUSE),
)
def answered_too_early() -> Iterator[None]:
    with patch.object(Partition, "committed", lambda self, *_: None):
        yield


@planted(
    "the high watermark is that of a majority, not of the ISR",
    file="fetcher/core/leader_replicas.py",
    scenario="cluster",
    faults=(FaultKind.SLOW_LINK, FaultKind.PAUSE, FaultKind.SLOW_DISK),
    replication_factor=(3,),
)
def majority_of_isr() -> Iterator[None]:
    def high_watermark(self: LeaderReplicas, leader_end_offset: int, now_ms: int) -> int | None:
        if self.is_under_min_isr:
            return None
        members = [f.log_end_offset for replica_id, f in self.followers.items() if replica_id in self.maximal_isr]
        ends = sorted([leader_end_offset, *members], reverse=True)
        return ends[len(ends) // 2]

    with patch.object(LeaderReplicas, "high_watermark", high_watermark):
        yield


@planted(
    "a replica joins the ISR before it has caught up",
    file="fetcher/core/leader_replicas.py",
    scenario="cluster",
    needs_quiet=True,
    faults=(FaultKind.PROCESS_CRASH,),
    replica_fetch_max_bytes=(SMALL_FETCH_BYTES,),
    gap_ms=(100,),
)
def joins_too_early() -> Iterator[None]:
    original = LeaderReplicas.expanded_isr

    def expanded(self: LeaderReplicas, replica_id: int, high_watermark: int, log_start_offset: int):
        return original(self, replica_id, 0, log_start_offset)

    with patch.object(LeaderReplicas, "expanded_isr", expanded):
        yield


@planted(
    "the producer snapshot is not adopted from the tier",
    file="fetcher/aux_state.py",
    scenario="cluster",
    needs_quiet=True,
    faults=(FaultKind.MOVE_LEADER,),
    newcomer=(True,),
    follows_tier=(True,),
    bootstrap_policy=("tier-first", "earliest-pending-upload"),
    local_retention_ms=(500, 2_000),
    segment_bytes=(3_000,),
)
def snapshot_dropped() -> Iterator[None]:
    original = aux_state._aux_state

    def without_snapshot(found, producers, adoption, bytes_from_tier):
        made = original(found, producers, adoption, bytes_from_tier)
        empty = ProducerStateManager(made.state.start_offset).snapshot()
        return replace(made, state=replace(made.state, producer_snapshot=empty))

    with patch.object(aux_state, "_aux_state", without_snapshot):
        yield


@planted(
    "the epoch index that is adopted is not the leader's lineage",
    file="fetcher/aux_state.py",
    scenario="cluster",
    needs_quiet=True,
    faults=(FaultKind.MOVE_LEADER,),
    newcomer=(True,),
    follows_tier=(True,),
    bootstrap_policy=("tier-first", "earliest-pending-upload"),
    local_retention_ms=(500, 2_000),
    segment_bytes=(3_000,),
)
def foreign_epoch_index() -> Iterator[None]:
    original = aux_state._verified_epochs

    def latest_only(segment, epoch_index, log_start_offset):
        epochs = original(segment, epoch_index, log_start_offset)
        return LeaderEpochCache([EpochEntry(epochs.latest_epoch, log_start_offset)])

    with patch.object(aux_state, "_verified_epochs", latest_only):
        yield


@planted(
    "half a bootstrap is committed: the epochs are missing",
    file="log/keeper/replace_replica.py",
    scenario="cluster",
    needs_quiet=True,
    faults=(FaultKind.MOVE_LEADER,),
    newcomer=(True,),
    follows_tier=(True,),
    bootstrap_policy=("tier-first", "earliest-pending-upload"),
    local_retention_ms=(500, 2_000),
    segment_bytes=(3_000,),
)
def half_a_bootstrap() -> Iterator[None]:
    original = adopt.build_sibling

    async def build(disk, sibling, state):
        await original(disk, sibling, replace(state, epochs=()))

    with patch.object(adopt, "build_sibling", build):
        yield


@planted(
    "a shrunk ISR counts before it is accepted",
    file="fetcher/core/leader_replicas.py",
    scenario="cluster",
    faults=(FaultKind.PARTITION,),
)
def shrunk_too_early() -> Iterator[None]:
    def maximal_isr(self: LeaderReplicas) -> frozenset[int]:
        return self.isr if self.pending_isr is None else self.pending_isr

    with patch.object(LeaderReplicas, "maximal_isr", property(maximal_isr)):
        yield


@planted(
    "who waits for acks=all is answered when leadership ends",
    file="broker/replicas/delayed.py",
    scenario="cluster",
    faults=(FaultKind.DEPOSE_LEADERS,),
    needs_quiet=True,
    gap_ms=(100,),
)
def answered_at_the_end() -> Iterator[None]:
    def fail(self: OffsetWaiters, error: Exception) -> None:
        self.advance(2**62)

    with patch.object(OffsetWaiters, "fail", fail):
        yield


@planted(
    "a member that is not level at this moment leaves the ISR",
    file="fetcher/core/leader_replicas.py",
    scenario="cluster",
    needs_quiet=True,
    faults=(FaultKind.SLOW_LINK,),
    gap_ms=(100,),
)
def no_lag_allowed() -> Iterator[None]:
    original = LeaderReplicas.shrunk_isr

    def shrunk(self: LeaderReplicas, leader_end_offset: int, now_ms: int):
        return original(self, leader_end_offset, now_ms + self.lag_time_max_ms)

    with patch.object(LeaderReplicas, "shrunk_isr", shrunk):
        yield


@planted(
    "the earliest offset is that of the local log",
    file="fetcher/core/leader_offsets.py",
    scenario="cluster",
    local_retention_ms=(500,),
)
def earliest_is_local() -> Iterator[None]:
    original = offsets.special_offset

    def special_offset(view, ledger, timestamp, *rest):
        return original(view, ledger, EARLIEST_LOCAL_TIMESTAMP if timestamp == EARLIEST_TIMESTAMP else timestamp, *rest)

    with patch.object(offsets, "special_offset", special_offset):
        yield


@planted(
    "the latest offset is the end of the leader's log",
    file="fetcher/core/leader_offsets.py",
    scenario="cluster",
    faults=(FaultKind.SLOW_LINK, FaultKind.PAUSE),
)
def latest_is_the_end() -> Iterator[None]:
    def latest(view, isolation, version):
        return OffsetAndEpoch(view.log_end_offset, view.leader_epoch)

    with patch.object(leader_offsets, "_latest", latest):
        yield

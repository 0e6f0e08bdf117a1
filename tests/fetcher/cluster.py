"""A leader, a tier and a follower in memory, with the real fetcher between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

from tierfetch.fetcher.aux_state import AuxStateBuilder
from tierfetch.fetcher.bootstrap_runner import Bootstrapper, BootstrapSettings
from tierfetch.fetcher.core.bootstrap import BootstrapPolicy
from tierfetch.fetcher.core.policies import TierFirst
from tierfetch.fetcher.ports import LeaderEndpoint
from tierfetch.fetcher.replica_fetcher import FetcherConfig, ReplicaFetcher
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.tests.fetcher.model_follower import ModelFollower
from tierfetch.tests.fetcher.model_log import ModelLog, worked_log
from tierfetch.tests.fetcher.model_tier import PARTITION, ModelTier
from tierfetch.tests.fetcher.stub_leader import StubLeader

OTHER = TopicIdPartition(UUID(int=0x1024), "payments", 0)
QUICK = FetcherConfig(wait_max_ms=20, busy_wait_max_ms=1, backoff_ms=1, backoff_max_ms=4)


class Cluster:
    """`log` is the leader's log of PARTITION; more partitions through `logs`."""

    def __init__(
        self,
        log: ModelLog,
        *,
        policy: BootstrapPolicy | None = None,
        logs: Mapping[TopicIdPartition, ModelLog] | None = None,
        config: FetcherConfig = QUICK,
        ledger_wait_s: float = 0.05,
    ) -> None:
        self.log = log
        self.tier = ModelTier()
        self.leader = StubLeader({PARTITION: log, **(logs or {})}, self._leaders_ledger)
        self.is_ledger_read = True
        self.settings = BootstrapSettings(
            policy=policy or TierFirst(), is_option_enabled=True, is_feature_supported=True
        )
        self.endpoint: LeaderEndpoint = self.leader
        self.config = config
        self.aux_states = AuxStateBuilder(
            self.tier.storage, self.tier.metadata, ledger_wait_s=ledger_wait_s, storage_deadline_s=0.05
        )
        self.follower = ModelFollower(leader_epoch=log.leader_epoch)
        self.fetcher = self._new_fetcher()

    def change_settings(self, **changes: object) -> None:
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]

    @asynccontextmanager
    async def running(self, *, add: bool = True) -> AsyncIterator[ReplicaFetcher]:
        await self.tier.start()
        self.fetcher = self._new_fetcher()
        task = asyncio.create_task(self.fetcher.run())
        if add:
            self.fetcher.add(self.follower)
        try:
            yield self.fetcher
        finally:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()

    async def until_caught_up(self, follower: ModelFollower | None = None) -> None:
        follower = follower or self.follower
        log = self.leader.logs[follower.topic_id_partition]
        await until(lambda: follower.offsets.log_end_offset == log.log_end_offset)

    def state(self) -> str:
        return self.fetcher.replicas[PARTITION].state.value

    def reason(self) -> str:
        return self.fetcher.replicas[PARTITION].reason

    def _new_fetcher(self) -> ReplicaFetcher:
        bootstrapper = Bootstrapper(lambda: self.settings, self.aux_states)
        return ReplicaFetcher(self.endpoint, bootstrapper, self.config, Random(1), wall_clock=lambda: 1000.0)

    def _leaders_ledger(self, partition: TopicIdPartition):
        return self.tier.ledger() if self.is_ledger_read and partition == PARTITION else None


async def until(condition: Callable[[], bool], *, turns_max: int = 20_000) -> None:
    """Let others run until the condition holds."""
    for turn in range(turns_max):
        if condition():
            return
        await asyncio.sleep(0 if turn % 50 else 0.001)
    raise AssertionError("it does not come true")


def worked_cluster(**options: Any) -> Cluster:
    """That of `worked_log`, with its first two segments in the tier."""
    cluster = Cluster(worked_log(), **options)
    cluster.tier.upload(cluster.log, 0, 2)
    cluster.tier.upload(cluster.log, 3, 5)
    return cluster

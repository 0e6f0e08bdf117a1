"""Consumers that read from followers (KIP-392): where the leader sends them, and what a follower gives them."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import BrokerRegistration
from tierfetch.broker.core.read_replicas import select_rack_aware
from tierfetch.broker.handlers.fetch import FetchHandler
from tierfetch.broker.handlers.fetch_reads import FetchReads
from tierfetch.broker.replicas.partition import Partition
from tierfetch.broker.replicas.thin_replicas import ThinReplicas, WarmingLimits
from tierfetch.fetcher.core.leader_replicas import FollowerFetch
from tierfetch.log.core import AppendOrigin, LogConfig
from tierfetch.log.replica.state import LogOffsets
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.leader_sessions import FetchSessionCache
from tierfetch.protocol.fetch.messages import (
    READ_COMMITTED,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
)
from tierfetch.protocol.fetch.session import SESSION_ID_MAX
from tierfetch.protocol.records import iter_batches
from tierfetch.protocol.wire.leader_hints import LeaderIdAndEpoch
from tierfetch.rlm.reader import RemoteRead, RemoteRecords
from tierfetch.tests.broker.hosting import NOW_MS, Host, batch
from tierfetch.tests.broker.requests import context_of
from tierfetch.tests.broker.waiting import until

FOLLOWER_EPOCH = 0


def local_from(offset: int) -> LogOffsets:
    """Return the offsets of a log of `[0, 50)` whose local part begins at `offset`."""
    return LogOffsets(0, offset, None, 50, 50, 50, 50, 50)


class Tier:
    """Has every offset that it is asked for."""

    async def read(self, request: RemoteRead) -> RemoteRecords | None:
        return RemoteRecords(memoryview(b"tiered"), request.offset + 1)


@pytest.fixture
async def handler(host: Host) -> FetchHandler:
    for number, rack in ((1, "a"), (2, "b"), (3, "b")):
        directories = (UUID(int=number),)
        await host.view.register(BrokerRegistration(number, "h", 9000 + number, rack, directories))
    ids = random.Random(1)
    sessions = FetchSessionCache(draw_id=lambda: ids.randint(1, SESSION_ID_MAX))
    return FetchHandler(host.hosted, sessions, Tier(), max_bytes=1 << 20, select=select_rack_aware)


async def fetched(
    handler: FetchHandler,
    offset: int,
    *,
    version: int = 12,
    rack: str = "b",
    max_wait_ms: int = 0,
    isolation: int = 0,
    **fields: int,
) -> FetchPartitionResponse:
    wanted = FetchPartition(0, fetch_offset=offset, **fields)
    response = await handler.fetch(
        context_of(ApiKey.FETCH, version),
        FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            topics=(FetchTopic((wanted,), "t"),),
            rack_id=rack,
            isolation_level=isolation,
        ),
    )
    return response.topics[0].partitions[0]


async def offsets_of(answer: FetchPartitionResponse) -> list[int]:
    with answer.records as records:  # type: ignore[union-attr]  # a slice of the log
        data: bytes = await records.read()
    return [header.base_offset for _, header in iter_batches(data)]


async def led(host: Host, end_offset: int = 3) -> Partition:
    """Broker 1 in rack a leads; 2 and 3 in rack b are caught up."""
    partition = await host.topic("t", 1, 2, 3)
    for _ in range(end_offset):
        await partition.append(batch(b"x"), AppendOrigin.CLIENT, acks_all=False)
    for replica in (2, 3):
        partition.leader().record_fetch(replica, FollowerFetch(end_offset, 0))
    return partition


async def followed(host: Host, end_offset: int = 3, high_watermark: int = 2) -> Partition:
    """Broker 1 follows 2."""
    partition = await host.topic("t", 2, 1, config=LogConfig(segment_bytes=100, remote_storage_enable=True))
    leader_epoch = host.view.image.topics["t"].partitions[0].leader_epoch
    for _ in range(end_offset):
        await partition.log.append_as_leader(batch(b"x" * 30), leader_epoch=leader_epoch, now_ms=NOW_MS)
    partition.log.update_high_watermark(high_watermark)
    return partition


class TestLeader:
    async def test_F11_names_the_follower_in_the_consumers_rack_in_place_of_records(
        self, host: Host, handler: FetchHandler
    ) -> None:
        await led(host)
        answer = await fetched(handler, 1, max_wait_ms=60_000)
        assert (answer.preferred_read_replica, answer.records, answer.error_code) == (3, b"", ErrorCode.none)
        assert (answer.high_watermark, answer.log_start_offset) == (3, 0)

    @pytest.mark.parametrize(("version", "rack"), [(10, ""), (12, ""), (12, "a"), (12, "elsewhere")])
    async def test_serves_others_itself(self, host: Host, handler: FetchHandler, version: int, rack: str) -> None:
        await led(host)
        answer = await fetched(handler, 1, version=version, rack=rack)
        assert answer.preferred_read_replica == -1
        assert await offsets_of(answer) == [1, 2]

    async def test_names_only_followers_that_hold_the_offset_in_sync_and_alive(
        self, host: Host, handler: FetchHandler
    ) -> None:
        partition = await led(host)
        partition.leader().record_fetch(2, FollowerFetch(3, 2))
        await host.view.fence_broker(3)
        assert (await fetched(handler, 2)).preferred_read_replica == 2
        below = await fetched(handler, 1)
        assert below.preferred_read_replica == -1, "it lies below the log start of broker 2"
        assert await offsets_of(below) == [1, 2]

    async def test_F11_names_no_thin_follower_until_it_has_warmed(self, host: Host, handler: FetchHandler) -> None:
        partition = await led(host)
        partition.leader().record_fetch(3, FollowerFetch(3, 0, local_log_start_offset=2))
        assert (await fetched(handler, 2)).preferred_read_replica == 2
        partition.leader().record_fetch(2, FollowerFetch(3, 0, local_log_start_offset=2))
        last = await fetched(handler, 2)
        assert last.preferred_read_replica == -1, "the leader comes before a thin replica"
        assert await offsets_of(last) == [2]
        partition.leader().record_fetch(3, FollowerFetch(3, 0))
        assert (await fetched(handler, 2)).preferred_read_replica == 3

    async def test_answers_a_follower_at_once_that_told_an_older_high_watermark(
        self, host: Host, handler: FetchHandler
    ) -> None:
        partition = await led(host, 0)
        waits = [asyncio.create_task(self._from_follower(handler, replica, 0, 0)) for replica in (2, 3)]
        await until(lambda: len(partition.log_end_news) == 2)
        await partition.append(batch(b"x"), AppendOrigin.CLIENT, acks_all=False)
        assert [len(await offsets_of(await each)) for each in waits] == [1, 1]
        second = asyncio.create_task(self._from_follower(handler, 2, 1, 0))
        await until(lambda: bool(partition.high_watermark_news))
        third = await self._from_follower(handler, 3, 1, 0)
        assert (third.high_watermark, (await second).high_watermark) == (1, 1)
        idle = asyncio.create_task(self._from_follower(handler, 2, 1, 1))
        await until(lambda: bool(partition.high_watermark_news))
        idle.cancel()

    @staticmethod
    async def _from_follower(
        handler: FetchHandler, replica: int, offset: int, high_watermark: int
    ) -> FetchPartitionResponse:
        wanted = FetchPartition(0, fetch_offset=offset, log_start_offset=0, high_watermark=high_watermark)
        request = FetchRequest(
            max_wait_ms=60_000, min_bytes=1, topics=(FetchTopic((wanted,), "t"),), replica_id=replica
        )
        return (await handler.fetch(context_of(ApiKey.FETCH, 12), request)).topics[0].partitions[0]


class TestFollower:
    async def test_gives_what_is_committed(self, host: Host, handler: FetchHandler) -> None:
        await followed(host)
        answer = await fetched(handler, 1)
        assert (answer.error_code, answer.high_watermark, answer.preferred_read_replica) == (ErrorCode.none, 2, -1)
        assert await offsets_of(answer) == [1]

    async def test_E5_waits_at_its_high_watermark_and_goes_on_when_that_rises(
        self, host: Host, handler: FetchHandler
    ) -> None:
        partition = await followed(host)
        waiting = asyncio.create_task(fetched(handler, 2, max_wait_ms=60_000))
        await until(lambda: bool(partition.high_watermark_news))
        partition.log.update_high_watermark(3)
        assert await offsets_of(await waiting) == [2]

    async def test_E5_what_is_committed_in_transactions_is_waited_for_at_its_last_stable_offset(
        self, host: Host, handler: FetchHandler
    ) -> None:
        partition = await followed(host)
        waiting = asyncio.create_task(fetched(handler, 2, max_wait_ms=60_000, isolation=READ_COMMITTED))
        await until(lambda: bool(partition.stable_news))
        partition.log.update_high_watermark(3)
        assert await offsets_of(await waiting) == [2]

    async def test_who_waits_at_a_follower_looks_again_when_that_leads(
        self, host: Host, handler: FetchHandler, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        partition = await followed(host)
        looks, look = [], FetchReads.look

        async def counted(reads: FetchReads, *args: Any) -> None:
            looks.append(partition.leadership is not None)
            await look(reads, *args)

        monkeypatch.setattr(FetchReads, "look", counted)
        waiting = asyncio.create_task(fetched(handler, 2, max_wait_ms=60_000, isolation=READ_COMMITTED))
        await until(lambda: bool(partition.stable_news))
        await host.view.elect_leader(partition.partition, 1)
        await partition.lead(host.view.image.topics["t"].partitions[0])
        await until(lambda: looks == [False, True])
        waiting.cancel()

    @pytest.mark.parametrize("offset", [-5, 4])
    async def test_refuses_what_it_does_not_hold_so_that_the_leader_is_asked(
        self, host: Host, handler: FetchHandler, offset: int
    ) -> None:
        await followed(host)
        assert (await fetched(handler, offset)).error_code is ErrorCode.offset_out_of_range

    async def test_tells_nobody_of_a_divergence(self, host: Host, handler: FetchHandler) -> None:
        partition = await followed(host)
        await partition.log.assign_epoch(7)
        for epoch, offset in ((3, 1), (9, 3)):
            answer = await fetched(handler, offset, last_fetched_epoch=epoch)
            assert (answer.error_code, answer.diverging_epoch) == (ErrorCode.offset_out_of_range, None)

    async def test_fences_clients_of_another_leader_epoch(self, host: Host, handler: FetchHandler) -> None:
        partition = await followed(host)
        epoch = partition.leader_epoch
        assert (await fetched(handler, 1, current_leader_epoch=epoch)).error_code is ErrorCode.none
        unknown = await fetched(handler, 1, current_leader_epoch=epoch + 1)
        assert unknown.error_code is ErrorCode.unknown_leader_epoch
        await host.view.elect_leader(partition.partition, 1)
        await host.view.elect_leader(partition.partition, 2)
        await partition.step_down(host.view.image.topics["t"].partitions[0])
        fenced = await fetched(handler, 1, current_leader_epoch=epoch)
        assert fenced.error_code is ErrorCode.fenced_leader_epoch
        assert fenced.current_leader == LeaderIdAndEpoch(2, epoch + 2)

    async def test_R4_gives_what_is_in_the_tier(self, host: Host, handler: FetchHandler) -> None:
        partition = await followed(host, 4, 4)
        await partition.log.delete_local_segments(3)
        assert partition.log.state.offsets.local_log_start_offset == 3
        assert (await fetched(handler, 1)).records == b"tiered"
        assert await offsets_of(await fetched(handler, 3, isolation=READ_COMMITTED)) == [3]

    @pytest.mark.parametrize("version", [4, 10])
    async def test_old_clients_are_sent_to_the_leader(self, host: Host, handler: FetchHandler, version: int) -> None:
        await followed(host)
        answer = await fetched(handler, 1, version=version)
        assert answer.error_code is ErrorCode.not_leader_or_follower

    async def test_C4_whoever_is_about_to_lead_serves_nobody(self, host: Host, handler: FetchHandler) -> None:
        partition = await followed(host)
        await host.view.elect_leader(partition.partition, 1)
        partition.note_registration(host.view.image.topics["t"].partitions[0])
        assert (await fetched(handler, 1)).error_code is ErrorCode.not_leader_or_follower
        await partition.lead(host.view.image.topics["t"].partitions[0])
        assert await offsets_of(await fetched(handler, 1, rack="a")) == [1]


class TestThinReplicas:
    LIMITS = WarmingLimits(bytes_min=1_000, time_ms=5_000)

    async def thin(self, host: Host) -> tuple[Partition, ThinReplicas, list[int]]:
        partition = await followed(host, 4, 4)
        await partition.log.delete_local_segments(3)
        clock = [1_000]
        return partition, ThinReplicas(lambda: clock[0], host.hosted.partitions, self.LIMITS), clock

    async def test_F11_says_so_until_it_has_been_in_sync_for_long_enough(self, host: Host) -> None:
        partition, thin, clock = await self.thin(host)
        assert thin.local_start_of(partition) is None, "absent means full"
        thin.joined(partition)
        assert thin.local_start_of(partition) == 3
        clock[0] += 4_999
        (report,) = thin.report()
        assert (report.local_start_offset, report.local_bytes, report.age_ms) == (
            3,
            partition.log.state.segments.size_bytes,
            4_999,
        )
        clock[0] += 1
        assert thin.local_start_of(partition) is None

    async def test_F11_or_holds_enough(self, host: Host) -> None:
        partition, thin, _ = await self.thin(host)
        thin.joined(partition)
        for _ in range(10):
            await partition.log.append_as_leader(batch(b"x" * 30), leader_epoch=0, now_ms=NOW_MS)
        assert thin.local_start_of(partition) is None

    async def test_F11_a_heartbeat_before_the_warmer_has_said_what_came_changes_nothing(self, host: Host) -> None:
        partition = await followed(host, 4, 4)
        segments, clock = SimpleNamespace(size_bytes=9), [0]
        state = SimpleNamespace(log_start_offset=0, offsets=local_from(30), segments=segments, is_adopted=False)
        replica: Any = SimpleNamespace(partition=partition.partition, log=SimpleNamespace(state=state))
        thin = ThinReplicas(lambda: clock[0], {partition.partition.topic_partition: replica}, self.LIMITS)
        thin.joined(replica)
        state.offsets = local_from(20)  # a segment came in
        assert [each.local_start_offset for each in thin.report()] == [20]
        assert thin.local_start_of(replica) == 20
        thin.warmed(replica, is_full=False)
        assert thin.partitions() == [replica]
        state.offsets = local_from(0)
        assert thin.local_start_of(replica) is None, "nothing is missing"
        assert thin.report() == []

    async def test_F11_its_log_is_told_once_it_has_warmed(self, host: Host, caplog: pytest.LogCaptureFixture) -> None:
        partition = await followed(host, 4, 4)
        told: list[str] = []
        answers: list[OSError | None] = [OSError("full"), None]

        async def confirm_warmed() -> None:
            if (failure := answers.pop(0)) is not None:
                raise failure
            told.append("warmed")

        clock = [0]
        segments = SimpleNamespace(size_bytes=9)
        state = SimpleNamespace(log_start_offset=0, offsets=local_from(30), segments=segments, is_adopted=False)
        log = SimpleNamespace(state=state, confirm_warmed=confirm_warmed)
        replica: Any = SimpleNamespace(partition=partition.partition, log=log)
        hosted = {partition.partition.topic_partition: replica}
        thin = ThinReplicas(lambda: clock[0], hosted, self.LIMITS)
        thin.joined(replica)
        await thin.settle()
        assert len(answers) == 2, "it is thin still"
        clock[0] = self.LIMITS.time_ms
        await thin.settle()
        assert "could not be noted" in caplog.text
        await thin.settle()
        await thin.settle()
        assert told == ["warmed"]
        assert [each.age_ms for each in thin.report()] == [self.LIMITS.time_ms], "the controller judges for itself"

    async def test_a_replica_whose_start_retention_moves_is_like_the_others(self, host: Host) -> None:
        partition, thin, _ = await self.thin(host)
        thin.joined(partition)
        for _ in range(3):
            await partition.log.append_as_leader(batch(b"x" * 20), leader_epoch=0, now_ms=NOW_MS)
        await partition.log.delete_local_segments(5)
        assert (thin.local_start_of(partition), thin.report()) == (None, [])

"""A fetcher of several partitions: what holds up whom, and partitions that go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tierfetch.fetcher import wanted_partitions
from tierfetch.fetcher.core.leader_offsets import EARLIEST_PENDING_UPLOAD_TIMESTAMP
from tierfetch.fetcher.core.policies import EarliestPendingUpload, LocalLogStart, TierFirst
from tierfetch.fetcher.followed_replica import ReplicaState
from tierfetch.fetcher.replica_fetcher import FetcherConfig
from tierfetch.log.core import EpochEntry
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.remote.core import OffsetAndEpoch
from tierfetch.sim.machine.loop import SimLoop
from tierfetch.tests.fetcher.cluster import OTHER, QUICK, Cluster, until, worked_cluster
from tierfetch.tests.fetcher.model_follower import ModelFollower
from tierfetch.tests.fetcher.model_log import model_log
from tierfetch.tests.fetcher.model_tier import PARTITION

pytestmark = pytest.mark.virtual_time


class TestSeveralPartitions:
    def cluster(self, **options) -> tuple[Cluster, ModelFollower]:
        other = model_log((0, 0), end=50)
        cluster = worked_cluster(logs={OTHER: other}, **options)
        follower = ModelFollower(partition=OTHER)
        follower.is_tiered = False
        return cluster, follower

    async def test_a_bootstrap_that_hangs_does_not_block_the_others(self) -> None:
        cluster, other = self.cluster()
        cluster.tier.storage.hang_on.add("fetch_index")
        async with cluster.running() as fetcher:
            fetcher.add(other)
            await cluster.until_caught_up(other)
            assert cluster.state() in {"bootstrapping", "backoff"}

    async def test_a_fault_of_our_own_stops_one_replica_only(self, caplog: pytest.LogCaptureFixture) -> None:
        cluster, other = self.cluster()

        def fail(effect: str) -> None:
            raise AssertionError("a bug in this replica's log")

        cluster.follower.before_effect = fail
        async with cluster.running() as fetcher:
            fetcher.add(other)
            await cluster.until_caught_up(other)
            await until(lambda: cluster.state() == "failed")
            assert "a bug in this replica's log" in cluster.reason()
        assert "internal error in the replication of" in caplog.text

    async def test_nothing_begins_anew_while_what_is_under_way_ends(self) -> None:
        """One bootstrap answers its cancellation with an error, as plugins do, while the disk of another stalls."""
        cluster, other = self.cluster()
        asked, stalled = 0, asyncio.Event()

        async def ask(call: str) -> None:
            nonlocal asked
            if call.startswith("end-offset-for-epoch"):
                asked += 1
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    raise OSError("the connection was closed") from None

        async def stall(effect: str) -> None:
            stalled.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0.03)
                raise

        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        cluster.leader.before_call, other.before_effect = ask, stall
        async with cluster.running() as fetcher:
            fetcher.add(other)
            await until(lambda: asked == 1 and stalled.is_set())
        assert (asked, loop.failures) == (1, [])

    async def test_a_full_disk_backs_off_and_goes_on_when_there_is_room(self) -> None:
        cluster, other = self.cluster()
        full = True

        def no_space(effect: str) -> None:
            if full:
                raise OSError(28, "No space left on device")

        cluster.follower.before_effect = no_space
        async with cluster.running() as fetcher:
            fetcher.add(other)
            await cluster.until_caught_up(other)
            await until(lambda: fetcher.replicas[PARTITION].failures >= 2)
            full = False
            await cluster.until_caught_up()
        assert cluster.follower.log.records == cluster.log.records

    async def test_a_disk_that_stalls_holds_up_its_own_replica_only(self) -> None:
        cluster, other = self.cluster(config=replace(QUICK, effect_wait_max_ms=1))
        answers = asyncio.Event()

        async def stall(effect: str) -> None:
            await answers.wait()

        other.before_effect = stall
        async with cluster.running() as fetcher:
            fetcher.add(other)
            await cluster.until_caught_up()
            cluster.log.append(3, 5)
            cluster.leader.changed()
            await cluster.until_caught_up()
            assert other.offsets.log_end_offset == 0
            assert other.effects == ["append 0-49"], "it is not fetched again meanwhile"
            answers.set()
            await cluster.until_caught_up(other)

    async def test_two_disks_that_stall_at_once_do_not_wait_for_each_other(self) -> None:
        cluster, other = self.cluster(config=replace(QUICK, effect_wait_max_ms=1))
        stalled: list[tuple[ModelFollower, asyncio.Event]] = []

        def stalling(follower: ModelFollower) -> Callable[[str], Awaitable[None]]:
            async def stall(effect: str) -> None:
                stalled.append((follower, asyncio.Event()))
                await stalled[-1][1].wait()

            return stall

        async with cluster.running() as fetcher:
            fetcher.add(other)
            await cluster.until_caught_up(other)
            await cluster.until_caught_up()
            for follower in (cluster.follower, other):
                follower.before_effect = stalling(follower)
            cluster.log.append(3, 5)
            cluster.leader.logs[OTHER].append(0, 5)
            cluster.leader.changed()
            turn = fetcher._fetching
            await until(lambda: len(stalled) == 2 and fetcher._fetching is not turn and not fetcher._ready.is_set())
            (first, answers), (second, second_answers) = stalled
            second.before_effect = lambda _: None
            second_answers.set()
            await cluster.until_caught_up(second)
            cluster.leader.logs[second.topic_id_partition].append(3, 5)
            cluster.leader.changed()
            await cluster.until_caught_up(second)
            answers.set()
            await cluster.until_caught_up(first)

    async def test_a_lost_connection_delays_all_and_loses_nothing(self) -> None:
        cluster, other = self.cluster()
        failures = iter([True, True, False])

        def lose(call: str) -> None:
            if call.startswith("fetch ") and next(failures, False):
                raise ConnectionResetError("connection lost")

        cluster.leader.before_call = lose
        async with cluster.running() as fetcher:
            fetcher.add(other)
            await cluster.until_caught_up(other)
            await cluster.until_caught_up()

    async def test_an_answer_that_makes_no_sense_delays_all_and_ends_nothing(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        cluster, other = self.cluster()
        answers = iter([ValueError("not enough values to unpack")])

        def nonsense(call: str) -> None:
            if call.startswith("fetch ") and (error := next(answers, None)) is not None:
                raise error

        cluster.leader.before_call = nonsense
        async with cluster.running() as fetcher:
            fetcher.add(other)
            await cluster.until_caught_up(other)
            await cluster.until_caught_up()
        assert "not enough values" in caplog.text

    async def test_a_partition_that_is_added_during_a_long_wait_is_fetched_at_once(self) -> None:
        cluster, other = self.cluster(config=replace(QUICK, wait_max_ms=60_000))
        async with cluster.running() as fetcher:
            await cluster.until_caught_up()
            await until(lambda: fetcher._long_fetch is not None)
            fetcher.add(other)
            await cluster.until_caught_up(other)

    async def test_an_answer_that_has_begun_to_arrive_is_not_given_up_for_a_replica_that_is_ready(self) -> None:
        """The session of which it tells would be lost, and the next fetch would name every partition again."""
        cluster, _ = self.cluster(config=replace(QUICK, wait_max_ms=60_000))
        async with cluster.running() as fetcher:
            await cluster.until_caught_up()
            await until(lambda: fetcher._long_fetch is not None)
            cluster.leader.tells_early = 1
            cluster.leader.after_telling = lambda: asyncio.get_running_loop().call_soon(fetcher._became_ready)
            cluster.log.append(3, 5)
            cluster.leader.changed()
            await cluster.until_caught_up()
            fetches = sum(call.startswith("fetch ") for call in cluster.leader.calls)
            assert fetches - cluster.leader.fetches_answered <= 1, "but the one that waits now"

    async def test_what_is_sent_to_a_replica_that_is_behind_is_not_given_up_for_another_that_is_ready(self) -> None:
        """The leader has answered by the time at which the other is ready: what is on its way would be sent twice."""
        cluster, other = self.cluster(config=replace(QUICK, wait_max_ms=60_000))
        async with cluster.running() as fetcher:
            sending, sent = asyncio.Event(), asyncio.Event()

            async def send(call: str) -> None:
                if call.startswith("fetch ") and not sending.is_set():
                    sending.set()
                    await sent.wait()

            cluster.leader.before_call = send
            await sending.wait()
            fetcher.add(other)
            await until(lambda: fetcher.replicas[other.topic_id_partition].state is ReplicaState.FETCHING)
            fetches = [call for call in cluster.leader.calls if call.startswith("fetch ")]
            assert len(fetches) == 1
            sent.set()
            await cluster.until_caught_up()
            await cluster.until_caught_up(other)
            assert "close" not in cluster.leader.calls

    async def test_a_replica_that_was_cut_to_its_leaders_end_holds_up_no_other(self) -> None:
        """It has not caught up as far as it knows, but nothing is on its way to it."""
        _, other = self.cluster()
        logs = {OTHER: model_log((0, 0), end=50)}
        cluster = Cluster(model_log((0, 0), end=10), logs=logs, config=replace(QUICK, wait_max_ms=60_000))
        cluster.follower = ModelFollower(log=model_log((0, 0), end=20))
        loop = asyncio.get_running_loop()
        async with cluster.running() as fetcher:
            await cluster.until_caught_up()
            await until(lambda: cluster.leader.calls[-1].startswith("fetch "))
            began_s = loop.time()
            fetcher.add(other)
            await cluster.until_caught_up(other)
            assert loop.time() - began_s < 1

    async def test_records_of_which_the_first_bytes_are_there_are_not_given_up_either(self) -> None:
        """The first partition's answer may be megabytes: they would be sent again, as often as a replica is ready."""
        cluster, _ = self.cluster(config=replace(QUICK, wait_max_ms=60_000))
        async with cluster.running() as fetcher:

            async def a_replica_is_ready() -> None:
                fetcher._became_ready()
                await asyncio.sleep(0)

            await cluster.until_caught_up()
            await until(lambda: fetcher._long_fetch is not None)
            cluster.leader.begins_early = a_replica_is_ready
            cluster.log.append(3, 5)
            cluster.leader.changed()
            await cluster.until_caught_up()
            fetches = sum(call.startswith("fetch ") for call in cluster.leader.calls)
            assert fetches - cluster.leader.fetches_answered <= 1, "but the one that waits now"

    async def test_a_fetcher_that_is_stopped_as_its_long_wait_is_ended_stops(self) -> None:
        cluster, _ = self.cluster(config=replace(QUICK, wait_max_ms=60_000))
        async with cluster.running() as fetcher:
            await cluster.until_caught_up()
            await until(lambda: fetcher._long_fetch is not None)
            fetcher._became_ready()
            assert fetcher._fetching is not None
            fetcher._fetching.cancel()
            await asyncio.wait({fetcher._fetching}, timeout=5)
            assert fetcher._fetching.cancelled()

    async def test_every_partition_gets_its_turn_to_be_first(self) -> None:
        cluster, other = self.cluster()
        async with cluster.running() as fetcher:
            fetcher.add(other)
            await cluster.until_caught_up(other)
            await cluster.until_caught_up()
            logs = {str(key.topic_partition): log for key, log in cluster.leader.logs.items()}
            served = []
            for _ in range(4):
                cluster.leader.calls.clear()
                await until(lambda: cluster.leader.calls)
                first = cluster.leader.calls[0].split()[1].split("@")[0]
                served.append(first)
                logs[first].append(logs[first].epochs.latest_epoch, 5)
                cluster.leader.changed()
                grown = f" {first}@{logs[first].log_end_offset}("
                await until(lambda grown=grown: grown in cluster.leader.calls[-1])  # type: ignore[misc]
        assert served[:2] == served[2:]
        assert set(served) == set(logs), "who was given records is behind the others"


class TestRemove:
    async def test_an_append_under_way_ends_before_remove_returns(self) -> None:
        cluster = Cluster(model_log((0, 0), end=10))
        appending, may_end = asyncio.Event(), asyncio.Event()

        async def hold(effect: str) -> None:
            appending.set()
            await may_end.wait()

        cluster.follower.before_effect = hold
        async with cluster.running() as fetcher:
            await appending.wait()
            removal = asyncio.create_task(fetcher.remove(PARTITION))
            await asyncio.sleep(0)
            assert not removal.done()
            may_end.set()
            await removal
            assert cluster.follower.offsets.log_end_offset == 10
            effects = list(cluster.follower.effects)
            cluster.log.append(0, 5)
            cluster.leader.changed()
            for _ in range(20):
                await asyncio.sleep(0)
            assert cluster.follower.effects == effects

    async def test_a_commit_under_way_ends_before_remove_returns(self) -> None:
        cluster = worked_cluster()
        committing, may_end = asyncio.Event(), asyncio.Event()

        async def hold(effect: str) -> None:
            committing.set()
            await may_end.wait()

        cluster.follower.before_effect = hold
        async with cluster.running() as fetcher:
            await committing.wait()
            removal = asyncio.create_task(fetcher.remove(PARTITION))
            await asyncio.sleep(0)
            assert not removal.done()
            may_end.set()
            progress = await removal
            assert progress is not None
            assert progress.bytes_from_tier > 0
            assert cluster.follower.offsets.log_end_offset == 6

    async def test_a_bootstrap_that_waits_is_cancelled_at_once(self) -> None:
        cluster = worked_cluster(ledger_wait_s=3600)
        cluster.tier.metadata.hold()
        async with cluster.running() as fetcher:
            await until(lambda: "end-offset-for-epoch 1" in cluster.leader.calls)
            await fetcher.remove(PARTITION)
        assert cluster.follower.effects == []

    async def test_removing_what_is_not_there_is_no_error(self) -> None:
        assert await worked_cluster().fetcher.remove(PARTITION) is None


async def test_C4_fenced_by_the_epoch_of_an_earlier_topic_of_that_name_it_asks_again() -> None:
    """The leader has not heard yet that the topic was made anew, and its questions name no topic id."""
    cluster = worked_cluster()
    led = cluster.leader.logs[PARTITION]
    cluster.leader.logs[PARTITION] = replace(led, leader_epoch=led.leader_epoch + 1)
    async with cluster.running():
        await until(lambda: cluster.state() == "backoff")
        assert "FENCED_LEADER_EPOCH" in cluster.reason()
        cluster.leader.logs[PARTITION] = led
        await cluster.until_caught_up()


async def test_C4_fenced_by_a_newer_leader_epoch_it_waits_for_the_metadata() -> None:
    cluster = worked_cluster()
    async with cluster.running() as fetcher:
        await cluster.until_caught_up()
        cluster.leader.logs[PARTITION].leader_epoch += 1
        await until(lambda: cluster.state() == "failed")
        assert "fenced" in cluster.reason()
        await fetcher.remove(PARTITION)
        cluster.follower.leader_epoch += 1
        fetcher.add(cluster.follower)
        await cluster.until_caught_up()


async def test_a_leader_that_moved_away_is_asked_again_with_back_off() -> None:
    cluster = Cluster(model_log((0, 0), end=10))
    log = cluster.leader.logs.pop(PARTITION)
    cluster.follower.is_tiered = False
    async with cluster.running():
        await until(lambda: cluster.state() == "backoff")
        assert "NOT_LEADER_OR_FOLLOWER" in cluster.reason()
        cluster.leader.logs[PARTITION] = log
        await cluster.until_caught_up()


async def test_retry_now_ends_every_back_off() -> None:
    cluster = worked_cluster(config=replace(QUICK, backoff_ms=3_600_000, backoff_max_ms=3_600_000))
    cluster.is_ledger_read = False
    async with cluster.running() as fetcher:
        await until(lambda: cluster.state() == "backoff")
        cluster.is_ledger_read = True
        fetcher.retry_now()
        await cluster.until_caught_up()


async def test_progress_tells_bytes_and_times() -> None:
    cluster = worked_cluster()
    async with cluster.running() as fetcher:
        await cluster.until_caught_up()
        progress = fetcher.replicas[PARTITION].progress
    assert progress.bytes_from_leader == len(cluster.log.batches(6, 8))
    assert progress.bytes_from_tier > 0
    assert progress.added_at == progress.first_fetch_at == progress.bootstrap_ended_at == 1000.0


def test_the_defaults_are_kafkas() -> None:
    config = FetcherConfig()
    assert (config.wait_max_ms, config.min_bytes) == (500, 1)
    assert (config.max_bytes, config.response_max_bytes) == (1 << 20, 10 << 20)
    assert ReplicaState.BOOTSTRAPPING.value == "bootstrapping"


@pytest.mark.parametrize(
    "policy", [TierFirst(), EarliestPendingUpload(), LocalLogStart()], ids=lambda policy: policy.name
)
async def test_F3_a_replica_that_holds_something_fetches_plainly(policy) -> None:
    """Also with tier-first: asking first is for the empty."""
    cluster = worked_cluster(policy=policy)
    cluster.log.local_log_start_offset = 0
    cluster.follower = ModelFollower(log=model_log((0, 0), (1, 3), end=4), leader_epoch=3)
    async with cluster.running():
        await cluster.until_caught_up()
    assert cluster.leader.calls[0] == "fetch orders-0@4(epoch 1)"
    assert {call.split()[0] for call in cluster.leader.calls} == {"fetch", "close"}
    assert cluster.follower.effects == ["append 4-7"]
    assert cluster.tier.storage.calls == []


async def test_F4_moved_is_told_with_the_log_start_that_the_replica_takes_over() -> None:
    """[4, 6) was expired from the tier's beginning: what the replica adopts begins at the leader's log start."""
    cluster = Cluster(model_log((0, 0), end=20, start=4), policy=LocalLogStart())
    cluster.log.local_log_start_offset = 12
    cluster.tier.upload(cluster.log, 4, 11)
    cluster.follower = ModelFollower(log=model_log((0, 0), end=6), leader_epoch=0)
    async with cluster.running():
        await cluster.until_caught_up()
    assert cluster.follower.effects == ["adopt [4, 12)", "append 12-19"]


async def test_F4_below_the_log_start_never_becomes_moved() -> None:
    """Not one offset of the replica is in either tier any more: it begins at the log start, here in the tier."""
    cluster = Cluster(model_log((0, 0), end=20, start=8), policy=LocalLogStart())
    cluster.log.local_log_start_offset = 12
    cluster.tier.upload(cluster.log, 8, 11)
    cluster.follower = ModelFollower(log=model_log((0, 0), end=3), leader_epoch=0)
    async with cluster.running():
        await cluster.until_caught_up()
    assert cluster.follower.offsets.log_start_offset == 8
    assert cluster.follower.offsets.log_end_offset == 20
    assert "append 3-7" not in cluster.follower.effects


def reenabled_cluster(**options) -> Cluster:
    """Tiering was off, with deletion, and is on again: the leader has [20, 60), and nothing is in the tier."""
    cluster = Cluster(model_log((0, 0), (2, 40), end=60, start=20), **options)
    cluster.log.local_log_start_offset = 20
    return cluster


@pytest.mark.parametrize("policy", [TierFirst(), EarliestPendingUpload()], ids=lambda policy: policy.name)
async def test_F8_tiering_off_and_on_again_replicates_all_that_is_local(policy) -> None:
    cluster = reenabled_cluster(policy=policy)
    async with cluster.running():
        await cluster.until_caught_up()
    assert cluster.follower.effects == ["start at 20", "append 20-59"]
    assert cluster.tier.storage.calls == [], "no remote look-up"
    assert cluster.follower.epochs.entries == (EpochEntry(0, 20), EpochEntry(2, 40))


@pytest.mark.parametrize("policy", [TierFirst(), EarliestPendingUpload()], ids=lambda policy: policy.name)
async def test_F8_a_leader_whose_pending_upload_lies_below_its_log_start(policy, monkeypatch) -> None:
    """A right one never says so; whoever does is taken at its log start."""
    cluster = reenabled_cluster(policy=policy)
    ask = cluster.leader.list_offset

    async def below(partition, leader_epoch, timestamp):
        answer = await ask(partition, leader_epoch, timestamp)
        return OffsetAndEpoch(12, 0) if timestamp == EARLIEST_PENDING_UPLOAD_TIMESTAMP else answer

    monkeypatch.setattr(cluster.leader, "list_offset", below)
    async with cluster.running():
        await cluster.until_caught_up()
    assert cluster.follower.effects == ["start at 20", "append 20-59"]
    assert cluster.tier.storage.calls == []


async def test_F8_what_an_earlier_bootstrap_left_is_truncated() -> None:
    """It was adopted while the topic was tiered, and never was in the ISR: it counts as empty."""
    cluster = reenabled_cluster()
    cluster.follower = ModelFollower(log=model_log((0, 0), end=15), leader_epoch=2)
    cluster.follower.is_never_in_isr = True
    async with cluster.running():
        await cluster.until_caught_up()
    assert cluster.follower.effects == ["start at 20", "append 20-59"]
    assert (cluster.follower.offsets.log_start_offset, cluster.follower.offsets.local_log_start_offset) == (20, 20)


async def test_bootstrap_rule_5_a_leader_whose_high_watermark_is_lower_takes_nothing_back() -> None:
    """A new leader may not know yet how far its predecessor had committed."""
    cluster = worked_cluster()
    cluster.log.high_watermark = 2
    async with cluster.running():
        await cluster.until_caught_up()
        for _ in range(5):
            await asyncio.sleep(0)
        assert cluster.follower.offsets.high_watermark == 6
        cluster.log.high_watermark = 8
        cluster.leader.changed()
        await until(lambda: cluster.follower.offsets.high_watermark == 8)


async def test_bootstrap_rule_11_a_compacted_topic_is_copied_whole_though_its_leader_tiers() -> None:
    cluster = worked_cluster()
    cluster.log.local_log_start_offset = 0
    cluster.follower.is_compacted = True
    async with cluster.running():
        await cluster.until_caught_up()
    assert cluster.follower.effects == ["append 0-7"]
    assert cluster.tier.storage.calls == []


@pytest.mark.parametrize("fails", [False, True], ids=["answered", "failed"])
async def test_an_answer_that_is_told_early_is_used_once_and_before_the_next_fetch(*, fails: bool) -> None:
    cluster = worked_cluster(logs={OTHER: model_log((0, 0), end=5)})
    other = ModelFollower(partition=OTHER)
    other.is_tiered = False
    cluster.leader.tells_early = 1
    failures = 3 if fails else 0

    def after_telling() -> None:
        nonlocal failures
        if failures and cluster.leader.calls[-1].count("@") == 2:
            failures -= 1
            raise ConnectionResetError("the leader went away behind the first answer")

    cluster.leader.after_telling = after_telling
    async with cluster.running() as fetcher:
        fetcher.add(other)
        await cluster.until_caught_up()
        await cluster.until_caught_up(other)
    assert cluster.follower.effects == ["adopt [0, 6)", "append 6-7"]
    assert [effect for effect in other.effects if effect.startswith("append")] == ["append 0-4"]


async def test_no_fetch_leaves_while_an_early_answer_of_a_failed_one_is_being_appended() -> None:
    cluster = worked_cluster()
    cluster.leader.tells_early = 1
    may_end = asyncio.Event()
    appending = asyncio.Event()

    async def hold(effect: str) -> None:
        if effect.startswith("append"):
            appending.set()
            await may_end.wait()

    def fail_once() -> None:
        cluster.leader.after_telling = lambda: None
        raise ConnectionResetError("the leader went away behind its answer")

    cluster.follower.before_effect = hold
    cluster.leader.after_telling = fail_once
    async with cluster.running():
        await appending.wait()
        await asyncio.sleep(0.02)
        assert len([call for call in cluster.leader.calls if call.startswith("fetch")]) == 1
        may_end.set()
        cluster.log.append(3, 2)
        await cluster.until_caught_up()
    assert cluster.follower.effects[:2] == ["adopt [0, 6)", "append 6-7"]


async def test_D5_a_log_without_room_is_not_fetched_and_continues_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanted_partitions, "HELD_BACK_S_MAX", 0.01)
    cluster = worked_cluster()
    cluster.follower.has_room = False
    async with cluster.running():
        for _ in range(100):
            await asyncio.sleep(0.0005)
        assert not [call for call in cluster.leader.calls if call.startswith("fetch")]
        cluster.follower.has_room = True
        await cluster.until_caught_up()


async def test_D5_what_arrives_when_the_room_is_gone_is_not_appended_and_is_fetched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answers of other partitions, or of another leader, may have taken it while this one was under way."""
    monkeypatch.setattr(wanted_partitions, "HELD_BACK_S_MAX", 0.01)
    cluster = worked_cluster()

    def fill(call: str) -> None:
        if call.startswith("fetch"):
            cluster.follower.has_room = False

    cluster.leader.before_call = fill
    async with cluster.running() as fetcher:
        await until(lambda: not cluster.follower.has_room)
        for _ in range(100):
            await asyncio.sleep(0.0005)
        assert [effect for effect in cluster.follower.effects if effect.startswith("append")] == []
        assert [call for call in cluster.leader.calls if call.startswith("fetch")][1:] == []
        assert fetcher.replicas[PARTITION].failures == 0, "it is no failure: nothing is reported"
        cluster.leader.before_call = lambda call: None
        cluster.follower.has_room = True
        await cluster.until_caught_up()


async def test_a_log_that_has_failed_acknowledges_nothing() -> None:
    """An fsync failed after the append was visible: the leader would count what the disk does not have."""
    cluster = worked_cluster()

    def fail(effect: str) -> None:
        if effect.startswith("append"):
            cluster.follower.has_failed = True
            raise KafkaError(ErrorCode.kafka_storage_error, "the log is not available")

    cluster.follower.before_effect = fail
    async with cluster.running():
        await until(lambda: cluster.follower.has_failed)
        asked = len(cluster.leader.calls)
        for _ in range(100):
            await asyncio.sleep(0.0005)
        assert cluster.leader.calls[asked:] == []

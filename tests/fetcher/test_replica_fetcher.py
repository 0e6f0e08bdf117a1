"""The fetcher as a whole: one leader, a tier, and partitions that come, go, fail and recover."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from tierfetch.fetcher.core.policies import BoundedLocal, BoundedLocalConfig, EarliestPendingUpload, LocalLogStart
from tierfetch.log.core import EpochEnd, EpochEntry
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.remote import IndexType
from tierfetch.tests.fakes.faults import FailNth
from tierfetch.tests.fetcher.cluster import QUICK, Cluster, until, worked_cluster
from tierfetch.tests.fetcher.model_follower import ModelFollower
from tierfetch.tests.fetcher.model_log import model_log, worked_log
from tierfetch.tests.fetcher.model_tier import PARTITION, segment


async def test_F9_the_worked_scenario() -> None:
    cluster = worked_cluster()
    epochs_before: dict[str, tuple[EpochEntry, ...]] = {}

    def look(effect: str) -> None:
        epochs_before[effect] = cluster.follower.epochs.entries

    cluster.follower.before_effect = look
    async with cluster.running():
        await cluster.until_caught_up()
        await until(lambda: cluster.follower.offsets.high_watermark == 8)
    adopted = (EpochEntry(0, 0), EpochEntry(1, 3), EpochEntry(2, 5))
    assert epochs_before == {"adopt [0, 6)": (), "append 6-7": adopted}
    assert cluster.follower.epochs.entries == (*adopted, EpochEntry(3, 7))


async def test_bootstrap_rule_4_the_first_fetch_leaves_only_after_the_commit() -> None:
    cluster = worked_cluster()
    committing = asyncio.Event()
    may_end = asyncio.Event()

    async def hold(effect: str) -> None:
        committing.set()
        await may_end.wait()

    cluster.follower.before_effect = hold
    async with cluster.running():
        await committing.wait()
        for _ in range(50):
            await asyncio.sleep(0)
        assert not [call for call in cluster.leader.calls if call.startswith("fetch")]
        may_end.set()
        await cluster.until_caught_up()
    fetches = [call for call in cluster.leader.calls if call.startswith("fetch")]
    assert fetches[0] == "fetch orders-0@6(epoch 2)"


async def test_bootstrap_rule_5_the_commit_sets_the_high_watermark_to_the_start() -> None:
    cluster = worked_cluster()
    cluster.log.high_watermark = 0
    async with cluster.running():
        await cluster.until_caught_up()
    assert cluster.follower.offsets.high_watermark == 6, "a follower's may lie above its leader's"


@pytest.mark.parametrize("policy", [LocalLogStart(), EarliestPendingUpload()], ids=lambda policy: policy.name)
async def test_F3_reactive_policies_fetch_first(policy) -> None:
    cluster = worked_cluster(policy=policy)
    async with cluster.running():
        await cluster.until_caught_up()
    assert cluster.leader.calls[0] == "fetch orders-0@0(epoch -1)"
    expected = {
        "local-log-start": ["adopt [0, 3)", "append 3-7"],
        "earliest-pending-upload": ["adopt [0, 6)", "append 6-7"],
    }
    assert cluster.follower.effects == expected[policy.name]


async def test_F1_off_takes_local_log_start_and_on_takes_effect_without_a_restart() -> None:
    cluster = worked_cluster()
    cluster.change_settings(is_option_enabled=False)
    async with cluster.running() as fetcher:
        await cluster.until_caught_up()
        assert cluster.follower.effects == ["adopt [0, 3)", "append 3-7"]
        await fetcher.remove(PARTITION)
        cluster.change_settings(is_option_enabled=True)
        replacement = ModelFollower(leader_epoch=cluster.log.leader_epoch)
        fetcher.add(replacement)
        await cluster.until_caught_up(replacement)
    assert replacement.effects == ["adopt [0, 6)", "append 6-7"]


async def test_F5_a_follower_that_fell_below_the_log_start_begins_there() -> None:
    log = model_log((0, 0), end=100, start=60)
    cluster = Cluster(log)
    cluster.follower = ModelFollower(log=model_log((0, 0), end=40))
    async with cluster.running():
        await cluster.until_caught_up()
    assert cluster.follower.effects[:2] == ["start at 60", "append 60-99"]


async def test_F5_offsets_that_moved_to_the_tier_are_adopted_up_to_the_local_start() -> None:
    cluster = worked_cluster()
    cluster.follower = ModelFollower(log=model_log((0, 0), end=2), leader_epoch=3)
    async with cluster.running():
        await cluster.until_caught_up()
    assert cluster.follower.effects == ["adopt [0, 3)", "append 3-7"]


async def test_F7_a_leader_that_does_not_know_yet_is_asked_until_it_does() -> None:
    cluster = worked_cluster()
    cluster.is_ledger_read = False
    async with cluster.running() as fetcher:
        await until(lambda: fetcher.replicas[PARTITION].failures >= 3)
        assert "does not know" in cluster.reason()
        cluster.is_ledger_read = True
        await cluster.until_caught_up()
    assert cluster.follower.effects == ["adopt [0, 6)", "append 6-7"]


async def test_F12_asked_again_after_a_feature_change() -> None:
    cluster = worked_cluster()
    cluster.change_settings(is_feature_supported=False)
    cluster.leader.before_call = refuse_fetches
    async with cluster.running() as fetcher:
        await until(lambda: bool(cluster.leader.calls))
        assert cluster.leader.calls[0].startswith("fetch"), "local-log-start fetches first"
        await fetcher.remove(PARTITION)
        cluster.change_settings(is_feature_supported=True)
        cluster.leader.before_call = lambda call: None
        cluster.leader.calls.clear()
        fetcher.add(cluster.follower)
        await cluster.until_caught_up()
    assert "list-offset -6" in cluster.leader.calls[:3]


async def test_F12_a_leader_that_becomes_an_older_broker_does_not_leave_the_follower_stuck() -> None:
    cluster = worked_cluster()
    cluster.leader.version = 10
    async with cluster.running():
        await cluster.until_caught_up()
    assert cluster.follower.effects == ["adopt [0, 3)", "append 3-7"]


def refuse_fetches(call: str) -> None:
    if call.startswith("fetch"):
        raise KafkaError(ErrorCode.not_leader_or_follower)


class TestLedgerBehind:
    async def test_bootstrap_rule_2_waits_asks_again_and_at_last_takes_local_log_start(self) -> None:
        cluster = Cluster(worked_log(), ledger_wait_s=0.01)
        cluster.tier.upload(cluster.log, 0, 2)
        async with cluster.running(add=False) as fetcher:
            cluster.tier.metadata.hold()
            cluster.tier.upload(cluster.log, 3, 5)
            fetcher.add(cluster.follower)
            await cluster.until_caught_up()
            assert fetcher.replicas[PARTITION].tier_failures == 0
        assert cluster.follower.effects == ["adopt [0, 3)", "append 3-7"]
        assert cluster.leader.calls.count("list-offset -6") == 2

    async def test_bootstrap_rule_2_the_same_for_bounded_local(self) -> None:
        cluster = Cluster(worked_log(), ledger_wait_s=0.01, policy=BoundedLocal(BoundedLocalConfig(bytes=1)))
        cluster.tier.upload(cluster.log, 0, 2)
        async with cluster.running(add=False) as fetcher:
            cluster.tier.metadata.hold()
            cluster.tier.upload(cluster.log, 3, 5)
            fetcher.add(cluster.follower)
            await cluster.until_caught_up()
        assert cluster.follower.effects == ["adopt [0, 3)", "append 3-7"]

    async def test_bootstrap_rule_2_a_replica_that_cannot_read_the_tier_never_joins_thin(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tierfetch.fetcher.aux_state.LEDGER_SETTLE_S", 0.001)
        cluster = worked_cluster()
        cluster.tier.storage.objects.clear()
        async with cluster.running() as fetcher:
            await until(lambda: fetcher.replicas[PARTITION].tier_failures >= 5)
            assert "but not in the tier" in cluster.reason()
        assert cluster.follower.effects == []
        assert cluster.follower.offsets.log_end_offset == 0


class TestDamagedTier:
    """Rule 2: what cannot be adopted holds nobody out for ever."""

    @pytest.fixture(autouse=True)
    def quick_settling(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tierfetch.fetcher.aux_state.LEDGER_SETTLE_S", 0.001)

    @staticmethod
    def damage(cluster: Cluster, start: int, kind: IndexType | None) -> bytes:
        """One object of the segment that begins there; what it was."""
        objects = cluster.tier.storage.objects
        (key,) = [key for key in objects if key[0] == segment(start, start).segment_id and key[1] is kind]
        before = objects[key]
        objects[key] = before[: len(before) // 2]
        return before

    @pytest.mark.parametrize("kind", [None, IndexType.LEADER_EPOCH, IndexType.PRODUCER_SNAPSHOT])
    async def test_bootstrap_rule_2_with_a_damaged_object_it_begins_at_the_local_log_start(
        self, kind: IndexType | None, caplog: pytest.LogCaptureFixture
    ) -> None:
        cluster = worked_cluster()
        self.damage(cluster, 3, kind)
        async with cluster.running():
            await cluster.until_caught_up()
        assert cluster.follower.effects == ["adopt [0, 3)", "append 3-7"]
        assert "the tier has not given what tier-first needs" in caplog.text

    @pytest.mark.parametrize("kind", [IndexType.LEADER_EPOCH, IndexType.PRODUCER_SNAPSHOT])
    async def test_bootstrap_rule_2_the_same_where_an_object_is_missing(self, kind: IndexType) -> None:
        cluster = worked_cluster()
        cluster.tier.drop_objects(segment(3, 5), kind)
        async with cluster.running():
            await cluster.until_caught_up()
        assert cluster.follower.effects == ["adopt [0, 3)", "append 3-7"]

    async def test_bootstrap_rule_2_both_ways_are_tried_in_turn(self) -> None:
        cluster = worked_cluster()
        before = self.damage(cluster, 3, IndexType.PRODUCER_SNAPSHOT)
        self.damage(cluster, 0, IndexType.PRODUCER_SNAPSHOT)
        async with cluster.running() as fetcher:
            await until(lambda: fetcher.replicas[PARTITION].tier_failures >= 5)
            cluster.tier.storage.objects[segment(3, 5).segment_id, IndexType.PRODUCER_SNAPSHOT] = before
            await cluster.until_caught_up()
        assert cluster.follower.effects == ["adopt [0, 6)", "append 6-7"]

    async def test_an_outage_is_waited_for(self) -> None:
        cluster = worked_cluster()
        cluster.tier.storage.faults = FailNth(1, persistent=True)
        async with cluster.running() as fetcher:
            await until(lambda: fetcher.replicas[PARTITION].failures >= 4)
            cluster.tier.storage.faults = None
            await cluster.until_caught_up()
        assert cluster.follower.effects == ["adopt [0, 6)", "append 6-7"]


class TestWhatIsLogged:
    @staticmethod
    def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    async def test_a_bootstrap_that_waits_for_the_tier_is_warned_of_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        cluster = worked_cluster()
        cluster.tier.storage.faults = FailNth(1, persistent=True)
        async with cluster.running() as fetcher:
            await until(lambda: fetcher.replicas[PARTITION].failures >= 4)
            (warning,) = self.warnings(caplog)
            assert "orders-0" in warning
            assert "the bootstrap waits for the tier" in warning
            assert "check that this broker reaches the remote store" in warning
            assert any(
                record.levelno == logging.INFO and "bootstrapping, retrying in" in record.getMessage()
                for record in caplog.records
            ), "the attempts are still logged, at INFO"
            cluster.tier.storage.faults = None
            await cluster.until_caught_up()
            assert not fetcher.replicas[PARTITION].is_tier_outage_reported, "the next outage is a new one"

    async def test_a_leader_that_cannot_answer_yet_is_no_outage_of_the_tier(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        cluster = worked_cluster()
        cluster.is_ledger_read = False
        async with cluster.running() as fetcher:
            await until(lambda: fetcher.replicas[PARTITION].failures >= 3)
        assert self.warnings(caplog) == []

    async def test_an_adopted_bootstrap_is_logged_without_its_producer_snapshot(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        cluster = worked_cluster()
        async with cluster.running():
            await cluster.until_caught_up()
        starts = [record.getMessage() for record in caplog.records if "replication starts at" in record.getMessage()]
        size = cluster.fetcher.replicas[PARTITION].progress.bytes_from_tier
        assert [line.split("replication ")[1] for line in starts] == [
            "starts at offset 6 by bootstrap policy tier-first (assigned): the log up to there was adopted from the"
            f" tier, {size} bytes"
        ]


class TestCommitGround:
    """Rule 3: what moved between the first answer and the commit."""

    async def test_bootstrap_rule_3_the_leader_epoch_changed(self) -> None:
        cluster = worked_cluster()

        def new_epoch(call: str) -> None:
            if call == "end-offset-for-epoch 2":
                cluster.follower.leader_epoch = 4

        cluster.leader.before_call = new_epoch
        async with cluster.running() as fetcher:
            await until(lambda: cluster.follower.leader_epoch == 4)
            await until(lambda: fetcher.replicas[PARTITION].task is None)
            assert cluster.follower.effects == []
            cluster.leader.before_call = lambda call: None
            cluster.log.lead(4)
            await fetcher.remove(PARTITION)
            fetcher.add(cluster.follower)
            await cluster.until_caught_up()

    async def test_bootstrap_rule_3_the_log_start_passed_the_start(self) -> None:
        cluster = worked_cluster()

        def delete_records(call: str) -> None:
            if call == "end-offset-for-epoch 2" and cluster.log.log_start_offset == 0:
                del cluster.log.records[:7]
                cluster.log.log_start_offset = cluster.log.local_log_start_offset = 7
                cluster.log.epochs.truncate_from_start(7)

        cluster.leader.before_call = delete_records
        async with cluster.running():
            await cluster.until_caught_up()
        assert cluster.follower.effects == ["start at 7", "append 7-7"]


class TestTruncation:
    async def test_E3_a_diverging_follower_is_cut_to_the_common_prefix(self) -> None:
        log = model_log((0, 0), (2, 6), (4, 9), end=12)
        cluster = Cluster(log)
        cluster.follower = ModelFollower(log=model_log((0, 0), (1, 4), (3, 8), end=20), leader_epoch=4)
        async with cluster.running():
            await cluster.until_caught_up()
        assert cluster.follower.log.records == log.records
        assert [effect for effect in cluster.follower.effects if effect.startswith("truncate")] == [
            "truncate to 8",
            "truncate to 4",
        ]

    async def test_E4_scenario_1_nothing_above_the_high_watermark_is_cut(self) -> None:
        cluster = Cluster(model_log((0, 0), end=10))
        cluster.follower = ModelFollower(log=model_log((0, 0), end=10))
        cluster.follower.log.high_watermark = 3
        async with cluster.running():
            await until(lambda: cluster.follower.offsets.high_watermark == 10)
        assert cluster.follower.effects == []

    async def test_bootstrap_rule_7_a_cut_below_the_local_start_bootstraps_aside_again(self) -> None:
        log = model_log((0, 0), (2, 4), end=12)
        cluster = Cluster(log)
        cluster.tier.upload(log, 0, 7)
        thin = model_log((0, 0), (1, 6), end=10)
        thin.local_log_start_offset = 9
        cluster.follower = ModelFollower(log=thin, leader_epoch=2)
        async with cluster.running():
            await cluster.until_caught_up()
        assert cluster.follower.effects == ["adopt [0, 8)", "append 8-11"]

    async def test_F5_a_leader_with_a_shorter_log_and_unknown_epochs_truncates(self) -> None:
        log = model_log((0, 0), end=10)
        cluster = Cluster(log)
        cluster.follower = ModelFollower(log=model_log((0, 0), (5, 10), end=20))
        async with cluster.running():
            await until(lambda: cluster.follower.offsets.log_end_offset == 10)

    async def test_a_divergence_that_cuts_nothing_does_not_spin(self) -> None:
        cluster = Cluster(model_log((0, 0), end=10), config=replace(QUICK, backoff_ms=1000, backoff_max_ms=1000))
        cluster.follower = ModelFollower(log=model_log((0, 0), end=10))
        cluster.leader.always_diverges_at = EpochEnd(0, 10)
        async with cluster.running():
            await until(lambda: cluster.state() == "backoff")
            assert "agrees with" in cluster.reason()


class TestHighWatermarkAndLogStart:
    async def test_the_high_watermark_follows_without_records(self) -> None:
        cluster = Cluster(model_log((0, 0), end=10))
        cluster.log.high_watermark = 4
        async with cluster.running():
            await until(lambda: cluster.follower.offsets.high_watermark == 4)
            cluster.log.high_watermark = 9
            cluster.leader.changed()
            await until(lambda: cluster.follower.offsets.high_watermark == 9)

    async def test_the_log_start_follows_the_leaders(self) -> None:
        cluster = Cluster(model_log((0, 0), end=10))
        async with cluster.running():
            await cluster.until_caught_up()
            del cluster.log.records[:5]
            cluster.log.log_start_offset = 5
            cluster.leader.changed()
            await until(lambda: cluster.follower.offsets.log_start_offset == 5)

    async def test_the_high_watermark_passes_no_record_below_the_leaders_log_start(self) -> None:
        """Record 6 of epoch 0 is not the leader's, which begins above it and has nothing to tell them apart by."""
        cluster = Cluster(model_log((3, 7), start=7, end=10))
        cluster.follower = follower = ModelFollower(log=model_log((0, 0), end=7), leader_epoch=3)
        follower.log.high_watermark = 6
        seen: list[tuple[int, int]] = []
        follower.before_effect = lambda _: seen.append(
            (follower.offsets.log_start_offset, follower.offsets.high_watermark)
        )
        async with cluster.running():
            await until(lambda: follower.offsets.high_watermark == 10)
        assert follower.effects == ["append 7-9", "log start 7"]
        assert seen == [(0, 6), (0, 6)]

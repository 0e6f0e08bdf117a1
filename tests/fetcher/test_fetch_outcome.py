"""What a follower makes of each answer, and of the edges of its record bytes."""

from __future__ import annotations

import pytest

from tierfetch.fetcher.core.bootstrap import Trigger
from tierfetch.fetcher.core.fetch_outcome import BackOff, Begin, Cut, Outcome, Stop, outcome_of
from tierfetch.fetcher.core.fetched_records import base_offset_of, whole_batches
from tierfetch.fetcher.core.partition_fetch import FetchedPartition
from tierfetch.log.core import EpochEnd
from tierfetch.protocol.errors import ErrorCode
from tierfetch.tests.fetcher.cluster import Cluster, until
from tierfetch.tests.fetcher.model_follower import ModelFollower
from tierfetch.tests.fetcher.model_log import batch_of, epochs_of, model_log
from tierfetch.tests.fetcher.model_tier import PARTITION

EPOCHS = epochs_of((0, 0), (3, 40), (5, 90))


def outcome(answer: FetchedPartition, *, local_start: int = 30) -> Outcome:
    return outcome_of(answer, EPOCHS, local_start, 100)


def diverging(epoch: int, end_offset: int) -> FetchedPartition:
    return FetchedPartition(error=ErrorCode.none, diverging_epoch=EpochEnd(epoch, end_offset))


def test_what_is_followed_is_neither_an_error_nor_a_divergence() -> None:
    assert FetchedPartition(ErrorCode.none, high_watermark=80, log_start_offset=20).agrees
    assert not FetchedPartition(ErrorCode.unknown_server_error).agrees
    assert not diverging(3, 60).agrees


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (diverging(3, 60), Cut(60)),
        (diverging(2, 70), Cut(40)),
        (diverging(0, 29), Begin(Trigger.TRUNCATED_BELOW_LOCAL_START)),
        (diverging(0, 30), Cut(30)),
    ],
)
def test_E3_a_divergence_is_cut_or_bootstrapped_aside(answer: FetchedPartition, expected: Outcome) -> None:
    assert outcome(answer) == expected


@pytest.mark.parametrize("answer", [diverging(5, 100), diverging(5, 200), diverging(-1, -1)])
def test_a_divergence_that_says_nothing_backs_off(answer: FetchedPartition) -> None:
    assert isinstance(outcome(answer), BackOff)


def test_E3_an_epoch_without_data_is_cut_at_the_end() -> None:
    led_without_data = epochs_of((0, 0), (5, 100))
    assert outcome_of(diverging(0, 150), led_without_data, 0, 100) == Cut(100)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.offset_out_of_range, Begin(Trigger.OUT_OF_RANGE)),
        (ErrorCode.offset_moved_to_tiered_storage, Begin(Trigger.MOVED_TO_TIERED_STORAGE)),
        (ErrorCode.fenced_leader_epoch, Stop("")),
        (ErrorCode.unknown_leader_epoch, BackOff("")),
        (ErrorCode.not_leader_or_follower, BackOff("")),
        (ErrorCode.unknown_topic_id, BackOff("")),
        (ErrorCode.kafka_storage_error, BackOff("")),
        (ErrorCode.unknown_server_error, BackOff("")),
    ],
)
def test_error_codes(error: ErrorCode, expected: Outcome) -> None:
    found = outcome(FetchedPartition(error=error))
    assert type(found) is type(expected)
    if isinstance(expected, Begin):
        assert found == expected


class TestEdges:
    TWO = batch_of(7, 1) + batch_of(8, 1)

    def test_whole_batches_stay(self) -> None:
        assert whole_batches(memoryview(self.TWO)) == self.TWO
        assert len(whole_batches(memoryview(b""))) == 0

    def test_a_torn_batch_is_left_out_wherever_it_is_torn(self) -> None:
        whole = self.TWO + batch_of(9, 1)
        for size in range(len(self.TWO), len(whole)):
            assert whole_batches(memoryview(whole)[:size]) == self.TWO

    def test_an_impossible_length_is_left_to_the_log(self) -> None:
        damaged = bytearray(self.TWO)
        damaged[8:12] = (-5).to_bytes(4, "big", signed=True)
        assert whole_batches(memoryview(damaged)) == damaged

    def test_base_offset(self) -> None:
        assert base_offset_of(memoryview(self.TWO)) == 7


async def test_a_torn_batch_at_the_end_is_fetched_again() -> None:
    cluster = Cluster(model_log((0, 0), end=20))
    cluster.leader.torn_bytes = 10
    async with cluster.running():
        await until(lambda: cluster.follower.offsets.log_end_offset >= 18)
    assert cluster.follower.log.records == cluster.log.records[: cluster.follower.offsets.log_end_offset]


async def test_a_log_that_starts_in_the_middle_of_a_batch_has_that_batch_whole() -> None:
    log = model_log((0, 0), end=20)
    cluster = Cluster(log)
    cluster.follower = ModelFollower()
    cluster.follower.is_tiered = False
    cluster.leader.begins_below = 2
    log.log_start_offset = log.local_log_start_offset = 5
    del log.records[:5]
    async with cluster.running():
        await until(
            lambda: cluster.follower.offsets.log_start_offset == 5 and cluster.follower.offsets.log_end_offset == 20
        )
    assert cluster.follower.effects[:4] == ["start at 5", "start at 3", "append 3-19", "log start 5"]


async def test_A2_a_batch_below_offset_0_does_not_empty_the_log() -> None:
    """An empty log begins where the leader's first batch begins, but not at an offset that no log has."""
    log = model_log((0, 0), end=5)
    cluster = Cluster(log)
    cluster.follower = ModelFollower()
    cluster.follower.is_tiered = False
    cluster.leader.begins_below = 3
    async with cluster.running() as fetcher:
        await until(lambda: fetcher.replicas[PARTITION].failures > 1)
    assert not any("start at -" in effect for effect in cluster.follower.effects)

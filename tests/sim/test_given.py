"""The judge of the bytes that readers are given, shown to convict; and readers of small chunks, which come in runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tierfetch.protocol import TopicPartition
from tierfetch.protocol.records import Record, build_batch
from tierfetch.sim.judges.core.clients.given import GivenBatchesJudge, SoundReadsJudge
from tierfetch.sim.judges.core.events import BatchesRead, DamageRead, MomentPassed
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.judges.core.replicas import StoredBatch, batches_of
from tierfetch.tests.sim.test_cluster_options import QUIET, run

T = TopicPartition("orders", 0)


def batch(offset: int, value: bytes = b"value", epoch: int = 0) -> bytes:
    records = [Record(offset + number, 1_000, None, value) for number in range(2)]
    return build_batch(records, base_offset=offset, partition_leader_epoch=epoch)


def judge(*answers: bytes, is_corrupt: bool = False, has_lost: bool = False) -> GivenBatchesJudge:
    """Return the judge that has seen these answers to readers."""
    judge = GivenBatchesJudge(lambda: is_corrupt, lambda _: has_lost)
    for number, data in enumerate(answers):
        judge.on(BatchesRead(T, data, f"reader.{number}"))
    return judge


def log(*batches: bytes) -> dict[int, StoredBatch]:
    return {each.base_offset: each for each in batches_of(b"".join(batches))}


def found(judge: GivenBatchesJudge, right: dict[int, StoredBatch], log_start_offset: int = 0) -> list[str]:
    return [str(each) for each in judge.anomalies(T, log_start_offset, right)]


def test_the_same_batches_from_wherever_are_right() -> None:
    seen = judge(batch(0) + batch(2), batch(2) + batch(4), batch(0))
    assert found(seen, log(batch(0), batch(2), batch(4))) == []


def test_a_hole_in_an_answer_is_found() -> None:
    with pytest.raises(InvariantViolationError, match=r"whole answers: reader.0 was given orders-0 up to 2, then 4"):
        judge(batch(0) + batch(4))


def test_two_answers_with_other_bytes_are_found() -> None:
    with pytest.raises(
        InvariantViolationError, match=r"same bytes: orders-0 at 2, byte \d+: reader.1 .* than reader.0"
    ):
        judge(batch(0) + batch(2), batch(2, b"other"))


def test_a_leader_epoch_which_no_checksum_covers_counts() -> None:
    with pytest.raises(InvariantViolationError, match=r"same bytes: orders-0 at 0, byte 15"):
        judge(batch(0), batch(0, epoch=1))


def test_other_bytes_than_those_of_the_log_are_found() -> None:
    seen = judge(batch(0) + batch(2))
    (text,) = found(seen, log(batch(0), batch(2, b"other")))
    assert text.startswith("other bytes: orders-0: reader.0 was given other bytes at 2 than the log has")
    assert found(seen, log(batch(0))) == ["other bytes: orders-0: reader.0 was given a batch at 2: there is none"]


def test_what_has_left_the_log_is_not_compared() -> None:
    assert found(judge(batch(0) + batch(2)), log(batch(2)), log_start_offset=2) == []


@pytest.mark.parametrize("excuse", [{"is_corrupt": True}, {"has_lost": True}])
def test_what_may_be_corrupt_or_lost_is_not_judged(excuse: dict[str, bool]) -> None:
    assert found(judge(batch(0) + batch(4), batch(0, b"other"), **excuse), {}) == []


def sound(damaged_reads: int = 0, *, may_be_corrupt: bool = False, was_damaged: bool = False) -> SoundReadsJudge:
    return SoundReadsJudge(lambda: may_be_corrupt, lambda: was_damaged, lambda: {1: 0, 3: damaged_reads}, Counter())


def test_a_damaged_batch_for_a_reader_is_found_unless_something_may_be_corrupt() -> None:
    with pytest.raises(InvariantViolationError, match="sound reads: a bit"):
        sound().on(DamageRead("a bit"))
    sound(may_be_corrupt=True).on(DamageRead("a bit"))


def test_damage_that_a_broker_has_found_in_the_tier_is_found_unless_a_fault_has_made_it() -> None:
    with pytest.raises(InvariantViolationError, match="sound tier: broker 3 has found damage in the tier 2 times"):
        sound(2).on(MomentPassed())
    sound(2, was_damaged=True).on(MomentPassed())
    sound(0).on(MomentPassed())


@pytest.mark.simulated
@pytest.mark.parametrize("cache_chunks", [12, 1_000])
def test_readers_of_small_chunks_are_given_runs_of_them(cache_chunks: int) -> None:
    options = replace(QUIET, segment_bytes=15_000, local_retention_ms=500, chunk_bytes=600, cache_chunks=cache_chunks)
    scenario, _ = run(options, 15_000)
    assert scenario.world.store.runs > 10

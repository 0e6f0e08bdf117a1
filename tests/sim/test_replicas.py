"""Each anomaly of the table on replicas made by hand, of one log whose beginning lies in the tier."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfetch.log.core import EpochEntry
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.sim.judges.core.replicas import (
    Aborted,
    ProducerView,
    ReplicaState,
    StoredBatch,
    TieredSegment,
    aborted_of,
    batches_of,
    check_partition,
    producers_of,
)

EPOCHS = (EpochEntry(0, 0), EpochEntry(2, 4))


def batch(base: int, count: int = 2, epoch: int = 0, value: bytes = b"v", sequence: int = -1, **kwargs) -> StoredBatch:
    records = [Record(base + index, 1_000, None, value) for index in range(count)]
    data = build_batch(
        records,
        base_offset=base,
        partition_leader_epoch=epoch,
        producer_id=-1 if sequence < 0 else 9,
        producer_epoch=-1 if sequence < 0 else 0,
        base_sequence=sequence,
        **kwargs,
    )
    return batches_of(data)[0]


def marker(base: int, kind: ControlType) -> StoredBatch:
    """Of the producer of all batches."""
    end = EndTransactionMarker(kind, 3)
    place = {"base_offset": base, "partition_leader_epoch": 0}
    return batches_of(build_end_transaction_batch(end, timestamp_ms=1, producer_id=9, producer_epoch=0, **place))[0]


WHOLE = (batch(0, sequence=0), batch(2, sequence=2), batch(4, epoch=2, sequence=4), batch(6, epoch=2, sequence=6))
TIER = (TieredSegment(name="0", start_offset=0, end_offset=3, epochs=EPOCHS[:1], batches=WHOLE[:2]),)
PRODUCERS = {9: ProducerView(0, 7, 7, None)}


def replica(node_id: int, first: int = 0, **changes) -> ReplicaState:
    """With the local batches from the `first` on."""
    state = ReplicaState(
        node_id=node_id,
        partition="t-0",
        log_start_offset=0,
        local_log_start_offset=2 * first,
        high_watermark=8,
        log_end_offset=8,
        epochs=EPOCHS,
        batches=WHOLE[first:],
        producers=PRODUCERS,
    )
    return replace(state, **changes)


def kinds(*replicas: ReplicaState, tier=TIER, isr=(1, 2)) -> list[str]:
    return [anomaly.kind for anomaly in check_partition(replicas, tier, 1, isr)]


def test_thick_and_thin_replicas_that_agree() -> None:
    assert kinds(replica(1, 1), replica(2, 2)) == []


def test_not_converged() -> None:
    assert kinds(replica(1), replica(2), isr=(1,)) == ["not converged"]
    assert kinds(replica(2)) == ["not converged"]
    short = replica(
        2, batches=WHOLE[:3], log_end_offset=6, high_watermark=6, producers={9: ProducerView(0, 5, 5, None)}
    )
    assert kinds(replica(1), short) == ["not converged"]
    assert kinds(replica(1, high_watermark=6), replica(2)) == ["not converged"]


def test_divergence_between_replicas_and_from_the_tier() -> None:
    other = batch(4, epoch=2, value=b"w", sequence=4)
    assert kinds(replica(1), replica(2, batches=(*WHOLE[:2], other, WHOLE[3]))) == ["divergence"]
    segment = replace(TIER[0], batches=(WHOLE[0], batch(2, value=b"w", sequence=2)))
    assert kinds(replica(1), replica(2), tier=(segment,)) == ["divergence"]


def test_an_offset_in_neither_tier() -> None:
    assert kinds(replica(1, 2), replica(2, 2), tier=()) == ["gap", "gap"]
    without_object = replace(TIER[0], batches=None)
    assert kinds(replica(1), replica(2, 2), tier=(without_object,)) == ["missing object", "gap"]


def test_a_hole_between_batches() -> None:
    assert kinds(replica(1), replica(2, batches=(*WHOLE[:2], WHOLE[3]))) == ["gap"]


def test_epoch_mismatch() -> None:
    assert kinds(replica(1), replica(2, epochs=EPOCHS[:1])) == ["epoch mismatch"]


@pytest.mark.parametrize(
    "epochs",
    [
        (EpochEntry(0, 0), EpochEntry(1, 5), EpochEntry(2, 6)),  # no batch begins there
        (EpochEntry(0, 0), EpochEntry(1, 1), EpochEntry(2, 4)),  # of what lies in the tier
        (EpochEntry(0, 0), EpochEntry(2, 4), EpochEntry(3, 9)),  # beyond the end
        (EpochEntry(0, 0), EpochEntry(1, 4), EpochEntry(2, 4)),  # no record of this one is left
    ],
)
def test_a_cache_says_of_every_offset_what_the_batches_say(epochs: tuple[EpochEntry, ...]) -> None:
    assert kinds(replica(1), replica(2, 2, epochs=epochs)) == ["epoch mismatch"]


def test_a_leader_may_have_begun_an_epoch_without_a_record() -> None:
    assert kinds(replica(1, epochs=(*EPOCHS, EpochEntry(3, 8))), replica(2)) == []


def test_a_remote_segment_is_what_its_metadata_says() -> None:
    assert kinds(replica(1), replica(2), tier=(replace(TIER[0], end_offset=4),)) == ["segment mismatch"]
    half = replace(TIER[0], batches=WHOLE[:1])
    assert kinds(replica(1), replica(2), tier=(half,)) == ["segment mismatch"]
    foreign = replace(TIER[0], epochs=(EpochEntry(0, 0), EpochEntry(1, 2)))
    assert kinds(replica(1), replica(2), tier=(foreign,)) == ["epoch mismatch"]


def test_the_epochs_of_a_remote_segment_may_begin_at_the_log_start_within_it() -> None:
    def found(log_start_offset: int, *epochs: EpochEntry) -> list[str]:
        raised = {"log_start_offset": log_start_offset, "epochs": (EpochEntry(0, log_start_offset), EPOCHS[1])}
        return kinds(replica(1, **raised), replica(2, **raised), tier=(replace(TIER[0], epochs=epochs),))

    assert found(2, EpochEntry(0, 2)) == []
    assert found(1, EpochEntry(0, 2)) == ["epoch mismatch"]
    assert found(2, EpochEntry(1, 0)) == ["epoch mismatch"]


def test_transaction_indexes_say_what_the_markers_say() -> None:
    batches = (batch(0, sequence=0, is_transactional=True), marker(2, ControlType.ABORT))
    assert list(aborted_of(batches)) == [Aborted(9, 0, 2)]
    whole = replica(
        1,
        batches=batches,
        high_watermark=3,
        log_end_offset=3,
        epochs=EPOCHS[:1],
        producers=producers_of(batches),
        aborted=(Aborted(9, 0, 2),),
    )
    other = replace(whole, node_id=2)
    assert kinds(whole, other, tier=()) == []
    assert kinds(whole, replace(other, aborted=()), tier=()) == ["aborted mismatch"]
    assert kinds(whole, replace(other, aborted=(Aborted(9, 1, 2),)), tier=()) == ["aborted mismatch"]


def test_producer_mismatch_also_where_the_batches_are_in_the_tier() -> None:
    assert kinds(replica(1), replica(2, 2, producers={})) == ["producer mismatch"]


def test_batches_by_which_a_repetition_is_told_are_in_the_log() -> None:
    def knows(*batches: tuple[int, int]) -> ReplicaState:
        return replica(2, producers={9: ProducerView(0, 7, 7, None, frozenset(batches))})

    assert kinds(replica(1), knows((7, 7), (5, 5))) == []
    assert kinds(replica(1), knows((7, 7), (5, 4))) == ["producer mismatch"]


def test_producers_of_transactions() -> None:
    open_batch = batch(0, sequence=0, is_transactional=True)
    assert producers_of([open_batch]) == {9: ProducerView(0, 1, 1, 0)}
    assert producers_of([open_batch, marker(2, ControlType.COMMIT)]) == {9: ProducerView(0, 1, 1, None)}


def test_of_a_log_that_lost_nothing_a_producer_of_no_batch_is_a_mismatch() -> None:
    """As after the truncation of a marker that was all of it."""
    ghost = PRODUCERS | {8: ProducerView(0, -1, -1, None)}
    assert kinds(replica(1, 1), replica(2, 2, producers=ghost)) == ["producer mismatch"]


EXPIRED = {"log_start_offset": 4, "epochs": EPOCHS[1:]}


def test_of_producers_whose_batches_have_expired_a_replica_may_know_or_not() -> None:
    old = {8: ProducerView(0, 1, 1, None, frozenset({(1, 1)}))}
    knows = {9: ProducerView(0, 7, 7, None, frozenset({(7, 7), (3, 3)}))}
    assert kinds(replica(1, 2, **EXPIRED), replica(2, 2, producers=knows | old, **EXPIRED), tier=()) == []
    for producers in ({}, knows | {8: ProducerView(0, 5, 5, None)}, knows | {8: ProducerView(0, 1, 1, 2)}):
        other = replica(2, 2, producers=producers, **EXPIRED)
        assert kinds(replica(1, 2, **EXPIRED), other, tier=()) == ["producer mismatch"]


def test_of_a_transaction_whose_beginning_has_expired_an_index_tells_more_than_the_batches() -> None:
    whole = replica(
        1,
        batches=(batch(2, sequence=2, is_transactional=True), marker(4, ControlType.ABORT)),
        log_start_offset=2,
        local_log_start_offset=2,
        high_watermark=5,
        log_end_offset=5,
        epochs=(EpochEntry(0, 2),),
        producers={9: ProducerView(0, 3, 3, None)},
        aborted=(Aborted(9, 0, 4),),
    )
    other = replace(whole, node_id=2)
    assert kinds(whole, other, tier=()) == []
    assert kinds(whole, replace(other, aborted=(Aborted(9, 2, 4),)), tier=()) == []
    assert kinds(whole, replace(other, aborted=()), tier=()) == ["aborted mismatch"]

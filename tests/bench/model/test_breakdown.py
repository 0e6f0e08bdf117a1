"""Where a measured time went: from instants that brokers say to rows that add up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.bench.model.breakdown import (
    Row,
    Trace,
    medians,
    moved_rows,
    predicted_rows,
    replaced_rows,
    whole_rows,
)
from tierfetch.bench.model.traces import add_metrics, read_lines, trace_of
from tierfetch.cli.demo.scenario import Metrics
from tierfetch.model import Cause

REPLACED = Trace(
    up_s=100.5,
    replayed_s=100.75,
    asked_s=101.0,
    settled_s=101.5,
    joined_s=104.0,
    tier_s=0.25,
    throttle_s=1.0,
    append_s=0.5,
)
MOVED = Trace(ordered_s=12.0, asked_s=12.5, settled_s=13.0, joined_s=16.0, tier_s=0.0, throttle_s=2.0, append_s=0.25)
unix = st.none() | st.floats(0, 100)
wait = st.none() | st.floats(0, 100)
traces = st.builds(
    Trace,
    up_s=unix,
    replayed_s=unix,
    ordered_s=unix,
    asked_s=unix,
    settled_s=unix,
    joined_s=st.floats(0, 100),
    tier_s=wait,
    throttle_s=wait,
    append_s=wait,
)


def test_a_replacement_is_told_apart() -> None:
    assert replaced_rows(REPLACED, 100.0, 104.125) == {
        Row.START: 0.75,
        Row.REPLAY: 0.25,
        Row.SETUP: 0.25,
        Row.TIER: 0.25,
        Row.LEADER: 1.0,
        Row.DISK: 0.5,
        Row.THROTTLE: 1.0,
        Row.OTHER: 0.125,
    }


def test_what_was_not_seen_is_other_up_to_the_next_instant() -> None:
    unseen = replace(REPLACED, asked_s=None, throttle_s=None)
    assert replaced_rows(unseen, 100.0, 104.0) == {Row.START: 0.5, Row.REPLAY: 0.25, Row.OTHER: 0.75 + 2.5}
    assert replaced_rows(Trace(joined_s=4.0), 1.0, 4.0) == {Row.OTHER: 3.0}


def test_a_move_waits_for_its_wave_and_the_whole_for_its_beginning() -> None:
    rest = {Row.SETUP: 0.5, Row.LEADER: 0.75, Row.DISK: 0.25, Row.THROTTLE: 2.0}
    assert moved_rows(MOVED, 10.0) == {Row.SLOT: 2.0, Row.BEGIN: 0.5, **rest}
    first = Trace(ordered_s=10.0, asked_s=10.25, settled_s=10.5, joined_s=11.0, tier_s=0, throttle_s=0, append_s=0)
    whole = whole_rows([first, MOVED], 10.0)
    assert whole == {
        Row.BEGIN: 0.25 + 1.0 + 0.5,
        Row.SETUP: 0.75,
        Row.LEADER: 1.25,
        Row.DISK: 0.25,
        Row.THROTTLE: 2.0,
    }
    assert sum(whole.values()) == 6.0


@given(trace=traces, more=traces, lasts_s=st.floats(0, 50))
def test_rows_always_add_up_and_none_is_negative(trace: Trace, more: Trace, lasts_s: float) -> None:
    for began_s, ended_s, rows in (
        (trace.joined_s, trace.joined_s + lasts_s, replaced_rows(trace, trace.joined_s, trace.joined_s + lasts_s)),
        (0.0, trace.joined_s, replaced_rows(trace, 0.0, trace.joined_s)),
        (0.0, trace.joined_s, moved_rows(trace, 0.0)),
    ):
        assert sum(rows.values()) == pytest.approx(ended_s - began_s, abs=1e-9)
        assert all(seconds > 0 for seconds in rows.values())
    waves = sorted([trace, more], key=lambda each: each.joined_s)
    assert sum(whole_rows(waves, 0.0).values()) == pytest.approx(waves[1].joined_s, abs=1e-9)


def test_every_cause_has_a_row() -> None:
    found = predicted_rows({cause.text: 1.0 for cause in Cause})
    assert sum(found.values()) == len(Cause)
    assert Row.OTHER not in found
    assert found.keys() == set(Row) - {Row.OTHER}


def test_a_row_that_a_run_has_not_took_it_no_time() -> None:
    assert medians([{"tier": 3.0, "other": 1.0}, {"other": 2.0}, {"other": 4.0}]) == {Row.OTHER: 2.0}


# --- what brokers say -------------------------------------------------------------------------------------------------

OURS = """
2026-11-26 21:55:52,250 INFO tierfetch.broker.cluster.quorum_view: asking the controllers 127.0.0.1:9095
2026-11-26 21:55:52,750 INFO tierfetch.broker.cluster.quorum_view: controller 100 is active in epoch 1
2026-11-26 21:55:53,000 INFO tierfetch.fetcher.replica_fetcher: t-1-2ZjcQbZtRoyqBcHfQnK49A: replication starts at offset 0 by bootstrap policy local-log-start (assigned): x
2026-11-26 21:55:53,500 INFO tierfetch.fetcher.replica_fetcher: t-1-2ZjcQbZtRoyqBcHfQnK49A: replication starts at offset 9 by bootstrap policy local-log-start (assigned): again
2026-11-26 21:55:53,000 INFO tierfetch.fetcher.replica_fetcher: other-t-1-2ZjcQbZtRoyqBcHfQnK49A: replication starts at offset 0 by x
no stamp: controller 100 is active in epoch 2
2026-11-26 21:55:54,000 INFO tierfetch.broker.replicas.leadership: t-1-2ZjcQbZtRoyqBcHfQnK49A: ISR [1] -> [1, 2] at epoch 0
2026-11-26 21:55:55,000 INFO tierfetch.broker.replicas.leadership: t-1-2ZjcQbZtRoyqBcHfQnK49A: ISR [1, 2] -> [1] at epoch 0
2026-11-26 21:55:56,000 INFO tierfetch.broker.replicas.leadership: t-1-2ZjcQbZtRoyqBcHfQnK49A: ISR [1] -> [1, 2] at epoch 0
""".splitlines()  # noqa: E501 - lines of a log are as long as they are
KAFKAS = """
2026-11-27 01:46:55.114 [main] INFO kafka.server.SharedServer - [SharedServer id=2] Starting SharedServer
2026-11-27 01:46:58.367 [x] INFO org.apache.kafka.image.loader.MetadataLoader - [MetadataLoader id=2] maybePublishMetadata(LOG_DELTA): The loader finished catching up to the current high watermark
2026-11-27 01:47:03.616 [x] INFO kafka.server.ReplicaFetcherManager - [ReplicaFetcherManager on broker 3] Added fetcher to broker 2 for partitions HashMap(a-t-7 -> InitialFetchState, t-0 -> InitialFetchState(..), t-12 -> InitialFetchState(..))
2026-11-27 01:47:03.640 [x] INFO kafka.server.ReplicaFetcherThread - [ReplicaFetcher replicaId=3, leaderId=2, fetcherId=0] Truncating partition t-12 with TruncationState(offset=0, completed=true)
2026-11-27 01:47:03.740 [x] INFO kafka.server.TierStateMachine - Updated the epoch cache from remote tier till offset: 9 with size: 1 for Topic: t; Partition: 12; Leader: Some(1); Replicas: 1,2; ISR: ; LeaderRecoveryState: RECOVERED
2026-11-27 01:47:04.640 [x] INFO kafka.cluster.Partition - [Partition t-12 broker=1] ISR updated to 1,2  and version updated to 3
""".splitlines()  # noqa: E501 - lines of a log are as long as they are


def test_instants_are_read_off_our_lines() -> None:
    said = read_lines("tierfetch", "t", OURS)
    assert said.up_s is not None
    assert said.replayed_s == said.up_s + 0.5
    assert said.settled_s == {1: said.up_s + 0.75}, "the first time counts"
    assert said.joined_s == {(1, 1): said.up_s + 1.75, (1, 2): said.up_s + 3.75}


def test_instants_are_read_off_kafkas_lines() -> None:
    said = read_lines("kafka", "t", KAFKAS)
    assert said.up_s is not None
    assert said.replayed_s == pytest.approx(said.up_s + 3.253)
    assert said.asked_s == {0: pytest.approx(said.up_s + 8.502), 12: pytest.approx(said.up_s + 8.502)}
    assert said.settled_s == {12: pytest.approx(said.up_s + 8.526)}
    assert said.rebuilt_s == {12: pytest.approx(said.up_s + 8.626)}
    assert said.joined_s == {(12, 1): pytest.approx(said.up_s + 9.526), (12, 2): pytest.approx(said.up_s + 9.526)}


def test_metrics_of_a_later_leader_epoch_are_not_those_of_the_move() -> None:
    said = read_lines("tierfetch", "t", OURS)
    waits = "tierfetch_replica_wait_seconds_total"
    first = "tierfetch_replica_first_fetch_timestamp_seconds"
    labels = {"topic": "t", "partition": "1"}
    samples = [(waits, {**labels, "reason": each}, 0.5) for each in ("tier", "throttle", "append")]
    add_metrics(said, "t", Metrics([*samples, (first, labels, 100.0), (first, {"topic": "u", "partition": "2"}, 1.0)]))
    assert said.asked_s == {1: 100.0}
    whole = trace_of(said, 1, joined_s=101.0)
    assert (whole.asked_s, whole.tier_s, whole.throttle_s, whole.append_s) == (100.0, 0.5, 0.5, 0.5)
    later = trace_of(said, 1, joined_s=99.0)
    assert (later.asked_s, later.tier_s, later.throttle_s, later.append_s) == (None, None, None, None)

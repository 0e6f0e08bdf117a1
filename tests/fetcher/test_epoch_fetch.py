"""The leader's decision table as Apache Kafka 4.3.0 answers it, and the convergence of truncation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tierfetch.fetcher.core.epoch_fetch import (
    QUORUM_RULES,
    DivergingEpoch,
    FetchIsolation,
    FetchPosition,
    LeaderView,
    ReadRemote,
    Refuse,
    Serve,
    ServeEmpty,
    Truncation,
    check_divergence,
    check_leader_epoch,
    end_offset_for_leader_epoch,
    truncation_for,
    validate_fetch,
)
from tierfetch.log.core import EpochEnd
from tierfetch.protocol.errors import ErrorCode
from tierfetch.tests.fetcher.model_log import ModelLog, epochs_of, model_log

FOLLOWER = 2


def leader_view() -> LeaderView:
    """Epochs 0 [0, 40), 3 [40, 90), 5 [90, 100); the log starts at 10, its local part at 30; leader epoch 5."""
    view = model_log((0, 0), (3, 40), (5, 90), end=100).view()
    return replace(view, log_start_offset=10, local_log_start_offset=30, high_watermark=95, followers={FOLLOWER: 70})


def follower_at(offset: int, **changes: Any) -> FetchPosition:
    position = FetchPosition(fetch_offset=offset, replica_id=FOLLOWER, broker_epoch=70, current_leader_epoch=5)
    return replace(position, **changes)


JAVA_LEADER_TABLE = {
    "stale broker epoch": (follower_at(50, broker_epoch=69), ErrorCode.not_leader_or_follower),
    "broker epoch -1": (follower_at(50, broker_epoch=-1), Serve(100)),
    "broker epoch higher than known": (follower_at(50, broker_epoch=71), Serve(100)),
    "replica not in the assignment": (follower_at(50, replica_id=9), ErrorCode.unknown_leader_epoch),
    "the leader's own id": (follower_at(50, replica_id=1), ErrorCode.unknown_leader_epoch),
    "leader epoch -1": (follower_at(50, current_leader_epoch=-1), Serve(100)),
    "leader epoch from the future": (follower_at(50, current_leader_epoch=6), ErrorCode.unknown_leader_epoch),
    "leader epoch too low": (follower_at(50, current_leader_epoch=4), ErrorCode.fenced_leader_epoch),
    "above the end, no last fetched epoch": (follower_at(101), ErrorCode.offset_out_of_range),
    "above the end, a known one": (follower_at(101, last_fetched_epoch=5), DivergingEpoch(5, 100)),
    "unknown last fetched epoch": (follower_at(50, last_fetched_epoch=6), ErrorCode.offset_out_of_range),
    "unassigned replica without a leader epoch": (
        follower_at(50, replica_id=9, current_leader_epoch=-1),
        ErrorCode.not_leader_or_follower,
    ),
}


@pytest.mark.parametrize("name", JAVA_LEADER_TABLE)
def test_answers_a_follower_as_a_java_leader_does(name: str) -> None:
    position, expected = JAVA_LEADER_TABLE[name]
    decision = validate_fetch(leader_view(), position)
    if isinstance(expected, ErrorCode):
        assert isinstance(decision, Refuse)
        assert decision.error is expected
    else:
        assert decision == expected


@pytest.mark.parametrize(
    ("offset", "last_fetched_epoch", "expected"),
    [
        (50, 3, Serve(100)),
        (90, 3, Serve(100)),
        (91, 3, DivergingEpoch(3, 90)),
        (100, 5, ServeEmpty()),
        (45, 2, DivergingEpoch(0, 40)),
        (10, 2, DivergingEpoch(0, 40)),
        (200, 2, DivergingEpoch(0, 40)),
    ],
)
def test_diverging_epoch_is_checked_before_the_log_end(
    offset: int, last_fetched_epoch: int, expected: Serve | DivergingEpoch | ServeEmpty
) -> None:
    assert validate_fetch(leader_view(), follower_at(offset, last_fetched_epoch=last_fetched_epoch)) == expected


@pytest.mark.parametrize("last_fetched_epoch", [-1, 0, 2, 3, 5, 9])
def test_F4_below_the_log_start_a_follower_is_out_of_range_whatever_its_epoch(last_fetched_epoch: int) -> None:
    """Its epochs of that range have left this log: a divergence would only send it round once more."""
    decision = validate_fetch(leader_view(), follower_at(9, last_fetched_epoch=last_fetched_epoch))
    assert isinstance(decision, Refuse)
    assert decision.error is ErrorCode.offset_out_of_range


@pytest.mark.parametrize(
    ("offset", "error"),
    [
        (9, ErrorCode.offset_out_of_range),
        (10, ErrorCode.offset_moved_to_tiered_storage),
        (29, ErrorCode.offset_moved_to_tiered_storage),
        (30, None),
        (100, None),
        (101, ErrorCode.offset_out_of_range),
    ],
)
def test_F4_a_follower_below_the_log_start_and_below_the_local_start(offset: int, error: ErrorCode | None) -> None:
    decision = validate_fetch(leader_view(), follower_at(offset))
    assert (decision.error if isinstance(decision, Refuse) else None) is error


@pytest.mark.parametrize(
    ("offset", "isolation", "expected"),
    [
        (10, FetchIsolation.HIGH_WATERMARK, ReadRemote(30)),
        (30, FetchIsolation.HIGH_WATERMARK, Serve(95)),
        (30, FetchIsolation.TXN_COMMITTED, Serve(60)),
        (60, FetchIsolation.TXN_COMMITTED, ServeEmpty()),
    ],
)
def test_a_consumer_reads_the_tier_and_never_sees_error_109(
    offset: int, isolation: FetchIsolation, expected: Serve | ServeEmpty | ReadRemote
) -> None:
    view = replace(leader_view(), last_stable_offset=60)
    assert validate_fetch(view, FetchPosition(fetch_offset=offset, isolation=isolation)) == expected


def test_replica_0_is_a_follower() -> None:
    view = replace(leader_view(), followers={0: -1})
    decision = validate_fetch(view, follower_at(10, replica_id=0))
    assert isinstance(decision, Refuse)
    assert decision.error is ErrorCode.offset_moved_to_tiered_storage


@pytest.mark.parametrize("answer", [EpochEnd(-1, -1), EpochEnd(-1, 5), EpochEnd(3, -1)])
def test_an_answer_without_epoch_or_end_truncates_nothing(answer: EpochEnd) -> None:
    assert truncation_for(answer, epochs_of((0, 0), (3, 5)), 10) is None


@pytest.mark.parametrize("offset", [95, 97, 100])
def test_E5_between_high_watermark_and_log_end_a_consumer_gets_nothing(offset: int) -> None:
    position = FetchPosition(fetch_offset=offset, isolation=FetchIsolation.HIGH_WATERMARK)
    assert validate_fetch(leader_view(), position) == ServeEmpty()


def test_E5_beyond_the_log_end_a_consumer_gets_an_error() -> None:
    position = FetchPosition(fetch_offset=101, isolation=FetchIsolation.HIGH_WATERMARK)
    decision = validate_fetch(leader_view(), position)
    assert isinstance(decision, Refuse)
    assert decision.error is ErrorCode.offset_out_of_range


def test_bootstrap_rule_5_a_high_watermark_below_the_local_start_is_never_looked_up_locally() -> None:
    thin_leader = replace(leader_view(), local_log_start_offset=100, high_watermark=20, last_stable_offset=15)
    at = {
        offset: validate_fetch(thin_leader, FetchPosition(fetch_offset=offset, isolation=FetchIsolation.HIGH_WATERMARK))
        for offset in (12, 20, 99)
    }
    assert at == {12: ReadRemote(20), 20: ServeEmpty(), 99: ServeEmpty()}
    committed = FetchPosition(fetch_offset=15, isolation=FetchIsolation.TXN_COMMITTED)
    assert validate_fetch(thin_leader, committed) == ServeEmpty()


@given(
    st.lists(st.integers(0, 60), min_size=5, max_size=5).map(sorted),
    st.integers(1, 3),
    st.integers(0, 61),
    st.sampled_from(FetchIsolation),
)
def test_bootstrap_rule_12_each_offset_is_read_from_its_own_tier_and_no_other(
    ends: list[int], local_start_index: int, offset: int, isolation: FetchIsolation
) -> None:
    local_start = ends.pop(local_start_index)
    log_start, last_stable, high_watermark, log_end = ends
    view = replace(
        leader_view(),
        log_start_offset=log_start,
        last_stable_offset=last_stable,
        high_watermark=high_watermark,
        local_log_start_offset=local_start,
        log_end_offset=log_end,
    )
    visible_end = view.end_visible_to(isolation)
    match validate_fetch(view, FetchPosition(fetch_offset=offset, isolation=isolation)):
        case Serve(max_offset):
            assert local_start <= offset < max_offset == visible_end
        case ReadRemote(max_offset):
            assert log_start <= offset < max_offset <= min(local_start, visible_end)
        case ServeEmpty():
            assert max(log_start, visible_end) <= offset <= log_end
        case Refuse(error):
            assert error is ErrorCode.offset_out_of_range
            assert not log_start <= offset <= log_end


ANY_EPOCH = st.one_of(st.integers(-3, 8), st.sampled_from((-(2**31), 2**31 - 1)))
ANY_OFFSET = st.one_of(st.integers(-3, 110), st.sampled_from((-(2**63), 2**63 - 1)))


@given(
    follows=st.booleans(),
    is_empty=st.booleans(),
    position=st.builds(
        FetchPosition,
        fetch_offset=ANY_OFFSET,
        current_leader_epoch=st.sampled_from((-1, 5)),  # any other is refused at once
        last_fetched_epoch=ANY_EPOCH,
        broker_epoch=st.sampled_from((-1, 70)),
        isolation=st.sampled_from(FetchIsolation),
    ),
)
@example(follows=True, is_empty=False, position=FetchPosition(fetch_offset=50, last_fetched_epoch=-2))
@example(follows=True, is_empty=True, position=FetchPosition(fetch_offset=0, last_fetched_epoch=-2))
def test_every_position_that_a_peer_can_send_is_decided(position: FetchPosition, follows: bool, is_empty: bool) -> None:
    """Epochs and offsets are as they came; a decision that names an epoch below 0 makes Java followers spin."""
    view = leader_view()
    if is_empty:
        view = replace(model_log(end=0).view(), leader_epoch=5, followers={FOLLOWER: 70})
    validate_fetch(view, replace(position, replica_id=FOLLOWER if follows else -1))


def test_diverging_epoch_minus_one_cannot_be_built() -> None:
    with pytest.raises(AssertionError, match="spin"):
        DivergingEpoch(-1, -1)


class TestQuorumRules:
    def test_unknown_higher_epoch_diverges_to_the_end(self) -> None:
        epochs = epochs_of((1, 0), (3, 40))
        assert check_divergence(epochs, 50, 10, 7, QUORUM_RULES) == DivergingEpoch(3, 50)

    def test_leader_epoch_is_mandatory(self) -> None:
        refusal = check_leader_epoch(3, -1, QUORUM_RULES)
        assert refusal is not None
        assert refusal.error is ErrorCode.invalid_request

    def test_an_empty_follower_is_valid_at_offset_0(self) -> None:
        assert check_divergence(epochs_of((1, 0)), 5, 0, 0, QUORUM_RULES) is None


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (5, EpochEnd(5, 100)),
        (4, EpochEnd(3, 90)),
        (3, EpochEnd(3, 90)),
        (0, EpochEnd(0, 40)),
        (6, EpochEnd(-1, -1)),
        (-1, EpochEnd(-1, -1)),
        (-2, EpochEnd(-2, 0)),  # as Kafka answers: below all
    ],
)
def test_E2_offset_for_leader_epoch(requested: int, expected: EpochEnd) -> None:
    assert end_offset_for_leader_epoch(leader_view(), 5, requested) == expected


def test_E2_below_all_known_epochs_is_the_first_start() -> None:
    view = model_log((2, 30), (4, 60), start=30, end=80).view()
    assert end_offset_for_leader_epoch(view, -1, 1) == EpochEnd(1, 30)


@pytest.mark.parametrize(("current", "error"), [(6, "unknown_leader_epoch"), (4, "fenced_leader_epoch")])
def test_E2_is_fenced_by_the_leader_epoch(current: int, error: str) -> None:
    refusal = end_offset_for_leader_epoch(leader_view(), current, 5)
    assert isinstance(refusal, Refuse)
    assert refusal.error is ErrorCode[error]


# --- the follower ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (EpochEnd(3, 60), Truncation(60, is_complete=True)),
        (EpochEnd(3, 95), Truncation(90, is_complete=True)),
        (EpochEnd(2, 60), Truncation(40, is_complete=False)),
        (EpochEnd(5, 300), Truncation(100, is_complete=True)),
        (EpochEnd(6, 70), Truncation(70, is_complete=True)),
        (EpochEnd(-1, -1), None),
    ],
)
def test_E3_truncation_point(answer: EpochEnd, expected: Truncation | None) -> None:
    assert truncation_for(answer, epochs_of((0, 0), (3, 40), (5, 90)), 100) == expected


def converge(leader: ModelLog, follower: ModelLog) -> int:
    """Fetch and truncate until the leader serves; returns the number of truncations."""
    leader.followers = {FOLLOWER: -1}
    for truncations in range(1000):
        decision = validate_fetch(
            leader.view(),
            FetchPosition(
                fetch_offset=follower.log_end_offset,
                current_leader_epoch=leader.leader_epoch,
                last_fetched_epoch=follower.epochs.latest_epoch,
                replica_id=FOLLOWER,
            ),
        )
        if not isinstance(decision, DivergingEpoch):
            assert isinstance(decision, Serve | ServeEmpty), decision
            return truncations
        truncation = truncation_for(
            EpochEnd(decision.epoch, decision.end_offset), follower.epochs, follower.log_end_offset
        )
        assert truncation is not None
        follower.truncate_to(truncation.offset)
    raise AssertionError("truncation does not converge")


def common_prefix(left: ModelLog, right: ModelLog) -> int:
    length = 0
    for one, other in zip(left.records, right.records, strict=False):
        if one != other:
            break
        length += 1
    return length


@st.composite
def histories(draw: st.DrawFn) -> tuple[ModelLog, ModelLog]:
    """Two replicas after unclean elections: each term one of them leads, appends, and the other may copy a part."""
    replicas = (ModelLog(), ModelLog())
    epoch = 0
    for _ in range(draw(st.integers(1, 8))):
        leader = replicas[draw(st.integers(0, 1))]
        follower = replicas[0] if leader is replicas[1] else replicas[1]
        epoch += draw(st.integers(1, 2))
        leader.lead(epoch)
        leader.append(epoch, draw(st.integers(0, 4)))
        if draw(st.booleans()):
            converge(leader, follower)
            for record in leader.records[follower.log_end_offset :][: draw(st.integers(0, 5))]:
                follower.append(record)
        crashed = replicas[draw(st.integers(0, 1))]
        crashed.truncate_to(draw(st.integers(max(0, crashed.log_end_offset - 3), crashed.log_end_offset)))
    return replicas


@given(histories())
def test_E3_rounds_are_bounded_and_end_at_the_longest_common_prefix(replicas: tuple[ModelLog, ModelLog]) -> None:
    leader, follower = replicas
    leader.lead(max(leader.epochs.latest_epoch, follower.epochs.latest_epoch) + 1)
    expected = common_prefix(leader, follower)
    epochs = len(follower.epochs.entries)

    rounds = converge(leader, follower)

    assert rounds <= epochs
    assert follower.log_end_offset == expected
    assert follower.records == leader.records[:expected]


class TestE4Scenario1:
    """The follower has m2, has not heard that it is committed, and restarts."""

    def replicas(self) -> tuple[ModelLog, ModelLog]:
        leader, follower = model_log((0, 0), end=2), model_log((0, 0), end=2)
        follower.high_watermark = 1
        return leader, follower

    def test_E4_scenario_1_a_restarted_follower_keeps_what_lies_above_its_high_watermark(self) -> None:
        leader, follower = self.replicas()
        assert converge(leader, follower) == 0
        assert follower.log_end_offset == 2

    def test_E4_scenario_1_the_follower_then_leads_and_nothing_is_lost(self) -> None:
        old_leader, follower = self.replicas()
        converge(old_leader, follower)
        follower.lead(1)
        assert converge(follower, old_leader) == 0
        assert (follower.records, old_leader.records) == ([0, 0], [0, 0])

    def test_E4_scenario_1_the_leader_restarts_before_it_answers(self) -> None:
        old_leader, follower = self.replicas()
        follower.lead(1)
        follower.append(1)
        old_leader.truncate_to(1)
        assert converge(follower, old_leader) == 0
        assert follower.records == [0, 0, 1]
        assert old_leader.records == follower.records[:1]


def test_E4_scenario_2_both_crash_and_the_logs_never_diverge() -> None:
    a, b = model_log((0, 0), end=2), model_log((0, 0), end=2)
    b.truncate_to(1)
    b.lead(1)
    b.append(1)
    assert a.log_end_offset == b.log_end_offset, "the same length, other records: only epochs can tell"

    converge(b, a)

    assert a.records == [0]
    a.append(1)
    assert a.records == b.records

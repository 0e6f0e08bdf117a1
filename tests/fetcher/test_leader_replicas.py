"""High watermark, caught-up times and ISR changes of a led partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.fetcher.core.leader_replicas import FollowerFetch, LeaderReplicas

LAG_MS = 1_000


def led(*, isr: tuple[int, ...] = (1, 2, 3), min_isr: int = 1, epoch_start: int = 0, now_ms: int = 0) -> LeaderReplicas:
    return LeaderReplicas(
        leader_id=1,
        epoch_start_offset=epoch_start,
        replicas=(1, 2, 3),
        isr=isr,
        partition_epoch=10,
        min_insync_replicas=min_isr,
        lag_time_max_ms=LAG_MS,
        now_ms=now_ms,
    )


def fetch(replicas: LeaderReplicas, replica_id: int, offset: int, *, leader_end: int, now_ms: int) -> None:
    assert replicas.record_fetch(replica_id, FollowerFetch(offset), leader_end, now_ms)


class TestHighWatermark:
    def test_C7_is_the_minimum_over_the_committed_isr(self) -> None:
        replicas = led()
        fetch(replicas, 2, 80, leader_end=100, now_ms=1)
        assert replicas.high_watermark(100, 1) == -1, "replica 3 has not fetched under this leader epoch"
        fetch(replicas, 3, 60, leader_end=100, now_ms=2)
        assert replicas.high_watermark(100, 2) == 60

    def test_C7_a_laggard_outside_the_isr_does_not_hold_it_back(self) -> None:
        replicas = led(isr=(1, 2))
        fetch(replicas, 2, 100, leader_end=100, now_ms=1)
        fetch(replicas, 3, 5, leader_end=100, now_ms=2)
        assert replicas.high_watermark(100, 2) == 100

    def test_C7_a_pending_addition_counts_already(self) -> None:
        replicas = led(isr=(1, 2))
        fetch(replicas, 2, 100, leader_end=100, now_ms=1)
        fetch(replicas, 3, 50, leader_end=100, now_ms=2)
        replicas.begin_change(frozenset({1, 2, 3}))
        assert replicas.high_watermark(100, 5_000) == 50

    def test_C7_a_pending_removal_still_counts(self) -> None:
        replicas = led()
        fetch(replicas, 2, 100, leader_end=100, now_ms=1)
        fetch(replicas, 3, 50, leader_end=100, now_ms=2)
        replicas.begin_change(frozenset({1, 2}))
        assert replicas.high_watermark(100, 5_000) == 50
        assert replicas.commit_isr({1, 2}, 11)
        assert replicas.high_watermark(100, 5_000) == 100

    def test_C7_a_caught_up_eligible_replica_counts_before_it_is_proposed(self) -> None:
        replicas = led(isr=(1, 2))
        fetch(replicas, 2, 110, leader_end=110, now_ms=1)
        fetch(replicas, 3, 100, leader_end=100, now_ms=2)
        assert replicas.high_watermark(110, 3) == 100
        replicas.set_eligible({2: 7})
        assert replicas.high_watermark(110, 3) == 110, "a fenced replica cannot join, so nobody waits for it"

    def test_C7_frozen_below_min_isr(self) -> None:
        replicas = led(isr=(1,), min_isr=2)
        assert replicas.is_under_min_isr
        assert replicas.high_watermark(100, 1) is None

    def test_C7_min_isr_above_the_number_of_replicas_asks_for_all_of_them(self) -> None:
        replicas = led(min_isr=9)
        assert not replicas.is_under_min_isr
        assert replicas.commit_isr({1, 2}, 11)
        assert replicas.is_under_min_isr

    def test_C7_a_single_replica_commits_by_itself(self) -> None:
        replicas = led(isr=(1,))
        replicas.assign((1,), 0)
        assert replicas.high_watermark(100, 1) == 100


class TestCaughtUp:
    def test_C7_a_follower_that_keeps_pace_behind_a_moving_end_is_caught_up(self) -> None:
        replicas = led()
        for step in range(50):
            fetch(replicas, 2, 100 * step, leader_end=100 * (step + 1), now_ms=500 * step)
            fetch(replicas, 3, 100 * (step + 1), leader_end=100 * (step + 1), now_ms=500 * step)
        assert replicas.shrunk_isr(5_000, 25_000) is None

    def test_C7_a_follower_that_falls_behind_leaves_after_the_lag_time(self) -> None:
        replicas = led()
        fetch(replicas, 2, 100, leader_end=100, now_ms=100)
        for step in range(1, 20):
            fetch(replicas, 2, 100 + step, leader_end=100 + 50 * step, now_ms=100 + 100 * step)
        fetch(replicas, 3, 2_000, leader_end=2_000, now_ms=2_000)
        assert replicas.shrunk_isr(2_000, 100 + LAG_MS) is None
        assert replicas.shrunk_isr(2_000, 201 + LAG_MS) == frozenset({1, 3})

    def test_C7_silence_at_the_leaders_end_is_no_lag(self) -> None:
        replicas = led()
        fetch(replicas, 2, 100, leader_end=100, now_ms=0)
        fetch(replicas, 3, 100, leader_end=100, now_ms=0)
        assert replicas.shrunk_isr(100, 10**9) is None

    def test_C7_a_new_leader_gives_its_isr_the_whole_lag_time(self) -> None:
        replicas = led(now_ms=5_000)
        assert replicas.shrunk_isr(100, 5_000 + LAG_MS) is None
        assert replicas.shrunk_isr(100, 5_001 + LAG_MS) == frozenset({1})

    def test_C9_a_fetch_of_an_earlier_incarnation_is_not_noted(self) -> None:
        replicas = led()
        assert replicas.record_fetch(2, FollowerFetch(50, broker_epoch=8), 100, 1)
        assert not replicas.record_fetch(2, FollowerFetch(100, broker_epoch=7), 100, 2)
        assert replicas.followers[2].log_end_offset == 50


class TestIsrChanges:
    @pytest.mark.parametrize(
        ("end", "high_watermark", "epoch_start", "joins"),
        [(100, 100, 0, True), (100, 90, 100, True), (99, 100, 0, False), (99, 90, 100, False)],
    )
    def test_C7_joins_at_the_high_watermark_and_the_start_of_the_epoch(
        self, end: int, high_watermark: int, epoch_start: int, joins: bool
    ) -> None:
        replicas = led(isr=(1, 2), epoch_start=epoch_start)
        fetch(replicas, 3, end, leader_end=200, now_ms=1)
        assert replicas.expanded_isr(3, high_watermark, 0) == (frozenset({1, 2, 3}) if joins else None)

    @pytest.mark.parametrize(("log_start_offset", "joins"), [(-1, True), (4, False), (5, True), (6, True)])
    def test_who_has_not_heard_of_the_log_start_does_not_join(self, log_start_offset: int, joins: bool) -> None:
        """-1: of an old version, which does not tell its own."""
        replicas = led(isr=(1, 2))
        assert replicas.record_fetch(3, FollowerFetch(100, log_start_offset), 100, 1)
        assert replicas.expanded_isr(3, 100, 5) == (frozenset({1, 2, 3}) if joins else None)

    def test_C7_a_member_does_not_join_again(self) -> None:
        replicas = led()
        fetch(replicas, 3, 100, leader_end=100, now_ms=1)
        assert replicas.expanded_isr(3, 50, 0) is None

    def test_C9_a_new_leader_takes_no_position_from_an_incarnation_before_the_registered_one(self) -> None:
        replicas = led()
        replicas.set_eligible({2: 8})
        assert not replicas.record_fetch(2, FollowerFetch(100, broker_epoch=7), 100, 1)
        assert replicas.followers[2].log_end_offset == -1
        assert replicas.record_fetch(2, FollowerFetch(50, broker_epoch=8), 100, 2)
        assert replicas.record_fetch(2, FollowerFetch(60, broker_epoch=9), 100, 3), "the image of this leader is behind"

    def test_C9_a_broker_epoch_other_than_the_registered_one_may_not_join(self) -> None:
        replicas = led(isr=(1, 2))
        replicas.set_eligible({3: 8})
        replicas.record_fetch(3, FollowerFetch(100, broker_epoch=7), 100, 1)
        assert replicas.expanded_isr(3, 100, 0) is None
        replicas.record_fetch(3, FollowerFetch(100, broker_epoch=8), 100, 2)
        assert replicas.expanded_isr(3, 100, 0) == frozenset({1, 2, 3})

    def test_one_change_at_a_time(self) -> None:
        replicas = led(isr=(1, 2))
        fetch(replicas, 3, 100, leader_end=100, now_ms=1)
        replicas.begin_change(frozenset({1, 2, 3}))
        assert replicas.shrunk_isr(100, 10**9) is None
        assert replicas.expanded_isr(3, 0, 0) is None
        with pytest.raises(AssertionError, match="must wait"):
            replicas.begin_change(frozenset({1}))
        replicas.abandon_change()
        assert replicas.isr == {1, 2}
        assert replicas.expanded_isr(3, 0, 0) == frozenset({1, 2, 3})

    def test_C7_what_was_decided_at_an_older_partition_epoch_is_ignored(self) -> None:
        replicas = led()
        assert not replicas.commit_isr({1}, 9)
        assert replicas.isr == {1, 2, 3}

    def test_the_leader_never_leaves_its_own_isr(self) -> None:
        with pytest.raises(AssertionError, match="leave its own ISR"):
            led().begin_change(frozenset({2, 3}))


def test_every_fetch_of_the_present_incarnation_counts_and_none_of_an_earlier_one() -> None:
    replicas = led()
    for offset in (10, 20):
        assert replicas.record_fetch(2, FollowerFetch(offset, broker_epoch=5), 100, 1)
    assert not replicas.record_fetch(2, FollowerFetch(0, broker_epoch=0), 100, 1)
    assert replicas.followers[2].log_end_offset == 20


def test_a_member_that_fetches_below_the_high_watermark_leaves_unless_it_asked_before_it_was_connected_again() -> None:
    def position(offset: int, connection_id: int) -> frozenset[int] | None:
        assert replicas.record_fetch(2, FollowerFetch(offset, connection_id=connection_id), 100, 1)
        return replicas.isr_without_shorter(2, 100)

    replicas, without = led(), frozenset({1, 3})
    assert position(100, 7) is None
    assert position(99, 7) == without
    assert position(100, 8) is None
    assert position(90, 7) is None, "sent over the connection that was cut"
    assert position(99, 8) == without
    assert position(99, 9) == without, "its position, however it asks"


def test_a_late_proof_does_not_take_back_that_a_follower_was_caught_up() -> None:
    replicas = led(isr=(1, 2))
    fetch(replicas, 2, 100, leader_end=100, now_ms=400)
    fetch(replicas, 2, 100, leader_end=200, now_ms=300)
    fetch(replicas, 2, 150, leader_end=200, now_ms=500)
    assert replicas.followers[2].last_caught_up_time_ms == 400


def test_an_isr_is_committed_again_at_the_same_partition_epoch() -> None:
    replicas = led(isr=(1, 2))
    replicas.begin_change(frozenset({1}))
    assert not replicas.commit_isr({1}, 9)
    assert replicas.pending_isr is not None
    assert replicas.commit_isr({1, 2}, 10)
    assert replicas.pending_isr is None


def test_a_replica_that_leaves_the_assignment_is_forgotten_and_one_that_comes_begins_unknown() -> None:
    replicas = led(isr=(1, 2))
    fetch(replicas, 2, 100, leader_end=100, now_ms=1)
    replicas.assign((1, 2, 4), 5)
    assert sorted(replicas.followers) == [2, 4]
    assert replicas.followers[2].log_end_offset == 100
    assert replicas.followers[4].last_caught_up_time_ms is None


def test_bootstrap_rule_8_expiry_learns_which_log_start_the_isr_has_fetched() -> None:
    replicas = led(isr=(1, 2))
    assert replicas.lowest_log_start(70, replicas.isr) == -1
    replicas.record_fetch(2, FollowerFetch(100, log_start_offset=40), 100, 1)
    replicas.record_fetch(3, FollowerFetch(100, log_start_offset=10), 100, 1)
    assert replicas.lowest_log_start(70, replicas.isr) == 40
    replicas.record_fetch(2, FollowerFetch(100, log_start_offset=70), 100, 2)
    assert replicas.lowest_log_start(70, replicas.isr) == 70


def test_F11_a_follower_with_less_local_log_than_the_leader_is_thin_until_it_holds_enough() -> None:
    replicas = led()
    assert replicas.thin_followers(50) == frozenset(), "absent means full"
    replicas.record_fetch(2, FollowerFetch(100, local_log_start_offset=90), 100, 1)
    replicas.record_fetch(3, FollowerFetch(100, local_log_start_offset=50), 100, 1)
    assert replicas.thin_followers(50) == {2}
    assert replicas.thin_followers(95) == frozenset()
    replicas.record_fetch(2, FollowerFetch(100), 100, 2)
    assert replicas.thin_followers(50) == frozenset()


@given(
    st.lists(
        st.tuples(st.sampled_from([2, 3]), st.integers(0, 30), st.integers(0, 5), st.integers(0, 800)), max_size=40
    )
)
def test_C7_no_member_ever_lies_below_the_high_watermark(steps: list[tuple[int, int, int, int]]) -> None:
    replicas = led(isr=(1, 2))
    leader_end = now_ms = high_watermark = 0

    def advance() -> None:
        nonlocal high_watermark
        high_watermark = max(high_watermark, replicas.high_watermark(leader_end, now_ms) or 0)
        for member in replicas.maximal_isr - {1}:
            assert high_watermark <= max(0, replicas.followers[member].log_end_offset)

    for replica_id, lag, appended, elapsed_ms in steps:
        leader_end += appended
        now_ms += elapsed_ms
        offset = max(0, leader_end - lag, replicas.followers[replica_id].log_end_offset)
        fetch(replicas, replica_id, offset, leader_end=leader_end, now_ms=now_ms)
        advance()
        for change in (
            replicas.expanded_isr(replica_id, high_watermark, 0),
            replicas.shrunk_isr(leader_end, now_ms),
        ):
            if change is not None:
                replicas.begin_change(change)
                advance()
                replicas.commit_isr(change, replicas.partition_epoch + 1)
                advance()

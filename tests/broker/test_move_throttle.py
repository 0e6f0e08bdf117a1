"""The rate at which replicas are copied between log directories."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tierfetch.broker.core.move_throttle import MoveThrottle


def test_D4_nothing_is_copied_before_the_turn_before_is_paid_off() -> None:
    throttle = MoveThrottle(lambda: 100)
    assert throttle.may_copy(0.0)
    throttle.copied(250)
    assert [throttle.may_copy(now_s) for now_s in (0.5, 2.0, 2.5, 2.6)] == [False, False, True, True]


def test_D4_a_rate_that_is_changed_holds_from_then_on() -> None:
    rates = [1]
    throttle = MoveThrottle(lambda: rates[0])
    throttle.copied(1_000)
    assert not throttle.may_copy(1.0)
    rates[0] = 1_000
    assert throttle.may_copy(2.0)


@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 1_000)), max_size=50),
    st.integers(1, 1_000),
)
def test_D4_no_more_than_the_rate_and_one_turn_is_copied(turns: list[tuple[float, int]], rate: int) -> None:
    throttle, now_s, total = MoveThrottle(lambda: rate), 0.0, 0
    for pause_s, size in turns:
        now_s += pause_s
        if throttle.may_copy(now_s):
            assert total <= rate * now_s + 1e-6
            throttle.copied(size)
            total += size

"""The copy quota as a value of time."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.rlm.core.quota import TokenBucket
from tierfetch.rlm.rate_limit import RateLimit

pytestmark = pytest.mark.virtual_time


def test_a_second_of_quota_may_go_at_once_and_debt_holds_up_the_next() -> None:
    bucket = TokenBucket(100, now_s=0)
    assert bucket.take(100, 0) == 0
    assert bucket.take(250, 0) == 0
    assert bucket.take(1, 0) == 2.5
    assert bucket.take(0, 1) == 1.51
    assert bucket.take(50, 3) == 0


def test_unused_quota_is_kept_for_one_second_only() -> None:
    bucket = TokenBucket(100, now_s=0)
    assert bucket.take(100, 1000) == 0
    assert bucket.take(300, 1000) == 0
    assert bucket.take(0, 1000) == 3


def test_quota_has_what_leaves_no_debt() -> None:
    bucket = TokenBucket(100, now_s=0)
    assert bucket.has(100, 0)
    assert not bucket.has(101, 1000)
    bucket.take(150, 1000)
    assert not bucket.has(1, 1000)
    assert not bucket.has(0, 1000.25)
    assert bucket.has(25, 1000.75)
    assert not bucket.has(26, 1000.75)
    assert bucket.take(25, 1000.75) == 0


@given(st.integers(1, 1000), st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 3)), max_size=30))
def test_rate_is_kept_over_any_time(rate: int, takes: list[tuple[int, float]]) -> None:
    """What began to move by any moment is at most the rate times the time, a second's worth, and one take more."""
    bucket = TokenBucket(rate, now_s=0)
    now_s, begun = 0.0, 0
    for count, pause_s in takes:
        now_s += pause_s
        begins_s = now_s + bucket.take(count, now_s)
        assert begun <= rate * (begins_s + 1) + 1e-6
        begun += count


async def test_waits_follow_a_rate_that_changes() -> None:
    rate = 10
    quota = RateLimit(lambda: rate)
    loop = asyncio.get_running_loop()
    await quota.acquire(1_010)
    waiting = asyncio.create_task(quota.acquire(0))
    began_s = loop.time()
    await asyncio.sleep(9.5)
    rate = 1_000
    await waiting
    assert loop.time() - began_s == pytest.approx(10.9)
    assert not quota.has(100)
    await asyncio.sleep(1)
    assert quota.has(1_000)


async def test_copies_wait_for_the_quota_that_they_share() -> None:
    quota = RateLimit(1000)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await quota.acquire(1010)
    await quota.acquire(5)
    assert loop.time() - began_s >= 0.009

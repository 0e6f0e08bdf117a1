"""A pipe is never idle while something that is there waits, and what is there only later holds up nothing before it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.sim.machine import pipe as pipe_module
from tierfetch.sim.machine.pipe import TIMES_MAX, Pipe

MONTH_S = 30 * 24 * 3600

ASKED = st.lists(st.tuples(st.sampled_from([0, 0, 1, 3]), st.sampled_from([0, 1, 5, 20]), st.integers(1, 7)))
"""How long after the one before it is asked, how long until the bytes are there, how many they are."""


def slots_of(asked: list[tuple[int, int, int]]) -> list[int]:
    """Return when each is through where a byte takes the first free second after its arrival: the slow way."""
    taken: set[int] = set()
    now, ends = 0, []
    for wait, until_there, size in asked:
        now += wait
        slot = now + until_there
        for _ in range(size):
            while slot in taken:
                slot += 1
            taken.add(slot)
        ends.append(slot + 1)
    return ends


def ends_of(pipe: Pipe, asked: list[tuple[int, int, int]]) -> list[float]:
    """Return when each is through, and see that no time is kept of what is over."""
    now, ends = 0, []
    for wait, until_there, size in asked:
        now += wait
        ends.append(pipe.passed_s(now, now + until_there, size))
        assert len(pipe._begins_s) == len(pipe._ends_s) <= sum(end > now for end in ends)
    return ends


@given(ASKED)
def test_bytes_take_what_is_free_from_their_arrival_on(asked: list[tuple[int, int, int]]) -> None:
    assert ends_of(Pipe(1.0), asked) == slots_of(asked)


@given(ASKED)
def test_a_pipe_with_few_times_lets_nothing_pass_earlier(asked: list[tuple[int, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipe_module, "TIMES_MAX", 2)
        pipe = Pipe(1.0)
        ends = ends_of(pipe, asked)
    assert len(pipe._begins_s) <= 2
    assert all(end >= exact for end, exact in zip(ends, slots_of(asked), strict=True))


def test_packets_of_a_slow_sender_hold_up_nobody() -> None:
    pipe = Pipe(100.0)
    slow = [pipe.passed_s(0, 1 + number, 10) for number in range(3)]
    assert slow == pytest.approx([1.1, 2.1, 3.1])
    assert pipe.passed_s(0, 0, 100) == pytest.approx(1.0)
    assert pipe.passed_s(0, 0, 100) == pytest.approx(2.2), "from 1.1 to 2.0, and what is left after the second packet"


def test_what_is_over_is_forgotten() -> None:
    pipe = Pipe(1.0)
    for second in range(1_000):
        pipe.passed_s(2 * second, 2 * second, 1)
    assert len(pipe._begins_s) == 1


def test_the_times_of_a_month_do_not_add_up() -> None:
    pipe, rng, now_s, most = Pipe(1.25e9), Random(1), 0.0, 0
    while now_s < MONTH_S:
        now_s += rng.choice((0.0, 0.0001, 60.0, 300.0))
        there_s = now_s + rng.choice((0.0002, 0.02))
        assert pipe.passed_s(now_s, there_s, 1_250) == pytest.approx(there_s + 1e-6, abs=1e-4)
        most = max(most, len(pipe._begins_s))
    assert most < 100, "what is over is forgotten"


def test_times_beyond_the_limit_become_one() -> None:
    pipe = Pipe(1.0)
    for number in range(TIMES_MAX + 10):
        assert pipe.passed_s(0, 10 * number, 1) == 10 * number + 1, "what comes after all others waits for none"
    assert len(pipe._begins_s) == TIMES_MAX
    assert pipe.passed_s(0, 5, 1) == 6, "what is free before the last one is still known"
    assert pipe.passed_s(0, 10 * TIMES_MAX + 5, 1) == 10 * (TIMES_MAX + 9) + 2, "what is not waits for the last"
    pipe.passed_s(20 * TIMES_MAX, 20 * TIMES_MAX, 1)
    assert len(pipe._begins_s) == 1

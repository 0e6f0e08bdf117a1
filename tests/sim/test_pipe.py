"""A pipe is never idle while something that is there waits, and what is there only later holds up nothing before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.sim.machine.pipe import Pipe

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


@given(ASKED)
def test_bytes_take_what_is_free_from_their_arrival_on(asked: list[tuple[int, int, int]]) -> None:
    pipe, now, ends = Pipe(1.0), 0, []
    for wait, until_there, size in asked:
        now += wait
        ends.append(pipe.passed_s(now, now + until_there, size))
    assert ends == slots_of(asked)


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

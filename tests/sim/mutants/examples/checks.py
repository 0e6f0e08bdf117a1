"""Tests of the example. They are collected where they are named alone."""

from __future__ import annotations

from tierfetch.tests.sim.mutants.examples.mutated.product import absolute, sum_up_to


def test_absolute() -> None:
    assert [absolute(number) for number in (-2, 3)] == [2, 3]


def test_sum() -> None:
    assert sum_up_to(4) == 6


def test_of_something_else() -> None:
    assert absolute(7) == 7

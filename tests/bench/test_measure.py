"""Figures say what they hide."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tierfetch.bench.measure import Figure, cpu_seconds, groups


def figure(*values: float) -> Figure:
    return Figure("b", "c", "s", "q", "MB/s", list(values))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5.0], [[5.0]]),
        ([110.0, 560.0, 120.0, 540.0], [[110.0, 120.0], [540.0, 560.0]]),
        ([500.0, 110.0, 510.0, 505.0], [[110.0, 500.0, 505.0, 510.0]]),
        ([100.0, 140.0, 190.0, 260.0], [[100.0, 140.0, 190.0, 260.0]]),
        ([0.0, 0.0, 1.0, 1.0], [[0.0, 0.0], [1.0, 1.0]]),
    ],
)
def test_values_in_two_places_are_groups_and_a_single_outlier_is_none(
    values: list[float], expected: list[list[float]]
) -> None:
    assert groups(values) == expected


def test_a_figure_in_groups_shows_every_value() -> None:
    assert figure(1.0, 2.0, 1.1, 2.1).spread() == "1.00 / 1.55 / 2.10 MB/s\nin groups: 1.00, 1.10 | 2.00, 2.10"
    assert figure(1.0, 1.1).spread() == "1.00 / 1.05 / 1.10 MB/s"


def test_the_cpu_time_of_a_process_is_what_it_says_itself() -> None:
    before_s = time.process_time()
    assert before_s <= cpu_seconds([os.getpid()]) <= time.process_time()


def test_the_cpu_time_of_another_process_counts() -> None:
    code = "import sys, time\nwhile time.process_time() < 0.05: pass\nprint(flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert cpu_seconds([child.pid]) >= 0.05
        child.communicate()

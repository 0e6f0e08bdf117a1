"""Every benchmark has the function that its name stands for, and brings its own imports alone."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from tierfetch.bench.__main__ import BENCHMARKS, benchmark


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_takes_what_all_of_them_take(name: str) -> None:
    assert len(inspect.signature(benchmark(name)).parameters) == 5


def test_no_benchmark_pays_for_the_imports_of_another() -> None:
    program = "import sys, tierfetch.bench.__main__ as bench; bench.benchmark('produce'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"numpy", "tierfetch.sim", "tierfetch.bench.planner"} & set(done.stdout.split())

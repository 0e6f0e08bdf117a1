"""The pytest marker that runs a test with many seeds, and says how to repeat the one that failed.

    @pytest.mark.tierfetch_seeds(20)
    def test_worker(seed):
        simulated(worker, seed=seed, ...)

| what                           | which seeds                                                   |
|--------------------------------|---------------------------------------------------------------|
| tierfetch_seeds(20)            | 1 to 20                                                       |
| tierfetch_seeds(20, start=100) | 100 to 119                                                    |
| --tierfetch-seeds 1000         | so many, whatever the markers say                             |
| --tierfetch-seed 17            | this one alone                                                |
"""

from __future__ import annotations

import os

import pytest

MARKER = "tierfetch_seeds"
ARGUMENT = "seed"


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("tierfetch", "simulated applications (tierfetch)")
    group.addoption(
        "--tierfetch-seed", type=int, metavar="SEED", help="run tests marked tierfetch_seeds with this seed"
    )
    group.addoption("--tierfetch-seeds", type=int, metavar="N", help="run tests marked tierfetch_seeds with N seeds")


def seeds_of(marker: pytest.Mark, where: str, only: int | None, count: int | None) -> range:
    """Return the seeds of a marked test. pytest.UsageError for a marker that names none."""
    if only is not None:
        return range(only, only + 1)
    start = marker.kwargs.get("start", 1)
    number = count if count is not None else marker.args[0] if marker.args else marker.kwargs.get("count", 10)
    is_number = all(isinstance(each, int) for each in (number, start))
    if len(marker.args) > 1 or marker.kwargs.keys() - {"start", "count"} or not is_number or number < 1:
        raise pytest.UsageError(
            f"{where}: @pytest.mark.{MARKER}(20) or ({MARKER}(20, start=100)): the number of seeds, 1 at least"
        )
    return range(start, start + number)


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Give a marked test its seeds."""
    marker = metafunc.definition.get_closest_marker(MARKER)
    if marker is None:
        return
    where = metafunc.definition.nodeid
    if ARGUMENT not in metafunc.fixturenames:
        raise pytest.UsageError(f"{where}: a test marked {MARKER} takes the argument {ARGUMENT}")
    option = metafunc.config.getoption
    seeds = seeds_of(marker, where, option("--tierfetch-seed"), option("--tierfetch-seeds"))
    metafunc.parametrize(ARGUMENT, seeds, ids=[f"seed{seed}" for seed in seeds])


def explain(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add the command that repeats a failure."""
    callspec = getattr(item, "callspec", None)
    if item.get_closest_marker(MARKER) is None or callspec is None or not report.failed or report.when != "call":
        return
    seed, hash_seed = callspec.params[ARGUMENT], os.environ.get("PYTHONHASHSEED")
    prefix = f"PYTHONHASHSEED={hash_seed} " if hash_seed not in (None, "", "random") else ""
    test = item.nodeid.partition("[")[0]
    report.sections.append(("repeat it with", f"{prefix}pytest '{test}' --tierfetch-seed {seed}"))

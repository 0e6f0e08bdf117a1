"""The suites of CI, in the order in which they run: the fast and general ones first, which always do. On a machine that
takes twice as long the last ones are left out, and the summary says so: they decide where they run.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

TOTAL_LIMIT_S: Final = 85 * 60
"""Nothing runs beyond this. CI itself ends after 90 minutes, and would then show no summary."""
AIM_S: Final = 84 * 60
"""A suite that may be left out is not begun if it could end after this: on a slow machine the last ones are."""

SEEDS: Final = 60
"""The simulation's seeds that decide, from 1 on, or as many as begin within `SEEDS_S`. Whatever changes the order of
events makes other runs of them.
"""
SEEDS_S: Final = 360

FRESH_SEEDS: Final = 100
"""So many seeds from a random start, or as many as begin within `FRESH_LIMIT_S`. One that fails is a bug to be found,
but not one of the change that is tested: these report."""
FRESH_LIMIT_S: Final = 240

MUTANTS_ARGS: Final = "--minutes 10 --jobs 2 --seeds 20 --seeds-each 8 --tests-s 20"
MUTANTS_LIMIT_S: Final = 13 * 60
"""A sample of mutants by a seed of its own: so many as begin within ten minutes, what reaches them recorded first."""


@dataclass(frozen=True)
class Suite:
    """A command that passes or fails as a whole, or, with `runs_tests`, one that runs pytest."""

    name: str
    command: tuple[str, ...]
    limit_s: float
    """The time after which the suite is stopped, and failed."""
    runs_tests: bool = True
    tests_min: int = 1
    """Fewer tests that pass fail the suite: one that collects nothing decides nothing. Of a size that says "most"."""
    may_skip: bool = False
    """Whether a test that skips is only listed. Elsewhere it fails the suite: what it needs is missing here."""
    decides: bool = True
    """Whether CI is red where this suite is. Others report."""
    needs_time: bool = False
    """Whether it is begun only if its whole limit is left of `AIM_S`, and left out otherwise: that does not fail CI."""


def make(target: str, limit_s: float, tests_min: int, *, may_skip: bool = False, needs_time: bool = False) -> Suite:
    """Return the suite of a `make` target that runs pytest."""
    command = ("make", "--no-print-directory", f"test-{target}" if target != "test" else target)
    return Suite(target, command, limit_s, tests_min=tests_min, may_skip=may_skip, needs_time=needs_time)


def simulate(name: str, limit_s: float, *, decides: bool = True, needs_time: bool = False, **variables: int) -> Suite:
    """Return a suite of simulated seeds, which shows the command that repeats one that fails."""
    command = ("make", "--no-print-directory", "simulate", *(f"{key}={value}" for key, value in variables.items()))
    return Suite(name, command, limit_s, runs_tests=False, decides=decides, needs_time=needs_time)


def suites(rng: Random) -> tuple[Suite, ...]:
    """Return all suites. The first fresh seed is drawn here, so that the summary can name it."""
    return (
        Suite("check", ("make", "--no-print-directory", "check"), 18 * 60, runs_tests=False),
        make("test", 26 * 60, 12_000, may_skip=True),
        make("commands", 15 * 60, 80),
        make("faults", 20 * 60, 55),
        make("abuse", 20 * 60, 70),
        make("interop", 25 * 60, 80),
        make("simulated", 15 * 60, 40),
        simulate("simulate", SEEDS_S + 60, needs_time=True, SIM_SEEDS=SEEDS, SIM_SECONDS=SEEDS_S, SIM_START=1),
        make("exhaustive", 6 * 60, 28, needs_time=True),
        make("spark", 12 * 60, 90, needs_time=True),
        make("secure", 15 * 60, 75, needs_time=True),
        make("planted", 20 * 60, 70, needs_time=True),
        simulate(
            "fresh-seeds",
            FRESH_LIMIT_S + 60,
            SIM_SEEDS=FRESH_SEEDS,
            SIM_SECONDS=FRESH_LIMIT_S,
            SIM_START=rng.randrange(10**9),
            decides=False,
        ),
        Suite(
            "mutants",
            ("make", "--no-print-directory", "mutants", f"MUTANTS_ARGS={MUTANTS_ARGS} --seed {rng.randrange(10**9)}"),
            MUTANTS_LIMIT_S,
            runs_tests=False,
            decides=False,
            needs_time=True,
        ),
        make("widest", 15 * 60, 2, needs_time=True),
    )

"""The suites of CI, in the order in which they run: the fast and general ones first, which decide."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

TOTAL_LIMIT_S: Final = 80 * 60
"""Nothing runs beyond this. CI itself ends after 90 minutes, and would then show no summary."""

SEEDS: Final = 160
"""What the simulation runs: so many seeds from a random start, or as many as begin within `SEEDS_LIMIT_S`."""
SEEDS_LIMIT_S: Final = 300


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
    """Whether CI is red where this suite is. One that does not yet decide only reports, as its row says."""


def make(
    target: str, limit_s: float, tests_min: int, *variables: str, may_skip: bool = False, decides: bool = True
) -> Suite:
    """Return the suite of a `make` target that runs pytest."""
    command = ("make", "--no-print-directory", f"test-{target}" if target != "test" else target, *variables)
    return Suite(target, command, limit_s, tests_min=tests_min, may_skip=may_skip, decides=decides)


def suites(rng: Random) -> tuple[Suite, ...]:
    """Return all suites. The simulation's first seed is drawn here, so that the summary can name it."""
    seeds = (f"SIM_SEEDS={SEEDS}", f"SIM_SECONDS={SEEDS_LIMIT_S}", f"SIM_START={rng.randrange(10**9)}")
    return (
        Suite("check", ("make", "--no-print-directory", "check"), 15 * 60, runs_tests=False),
        make("test", 20 * 60, 6500, may_skip=True),
        make("faults", 15 * 60, 40),
        make("abuse", 10 * 60, 30),
        make("interop", 25 * 60, 80),
        make("spark", 20 * 60, 90),
        make("secure", 20 * 60, 60),
        make("planted", 12 * 60, 70),
        make("exhaustive", 12 * 60, 2, decides=False),
        Suite(
            "simulate", ("make", "--no-print-directory", "simulate", *seeds), 15 * 60, runs_tests=False, decides=False
        ),
    )

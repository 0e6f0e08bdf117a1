"""Shares with Wilson's confidence intervals, the table, and the list of survivors. Pure.

What is counted are mutants of a sample that nobody chose, without those that are marked as equivalent. A share of the
sample stands for that of all mutants, within the interval: 95 times of 100 it contains the true one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from .record import CONVICTED, DUE, Side, Verdict

Z: Final = 1.959964
"""Of a normal distribution: 95 % are within so many standard deviations."""


@dataclass(frozen=True, slots=True)
class Share:
    """`part` of `whole`."""

    part: int
    whole: int

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval: sound for small numbers too, and at 0 and 1."""
        if self.whole == 0:
            return 0.0, 1.0
        share, number = self.part / self.whole, self.whole
        middle = (share + Z * Z / (2 * number)) / (1 + Z * Z / number)
        spread = Z / (1 + Z * Z / number) * math.sqrt(share * (1 - share) / number + Z * Z / (4 * number * number))
        return max(0.0, middle - spread), min(1.0, middle + spread)

    def __str__(self) -> str:
        if self.whole == 0:
            return "none"
        low, high = self.interval
        return f"{self.part} of {self.whole}: {self.part / self.whole:.0%} ({low:.0%} to {high:.0%})"


@dataclass(frozen=True, slots=True)
class Figures:
    """What a sample came to."""

    judged: int
    equivalent: int
    reached: Share
    """By seeds or tests, of all that were judged."""
    reached_by_sim: Share
    """Of all that the simulator was asked about: unit tests may be asked later."""
    sim_of_its_own: Share
    """Convicted by the simulator, of those that it reaches."""
    sim: Share
    """Convicted by the simulator, of those that anything reaches, as are the following."""
    unit: Share
    either: Share
    neither: Share
    hung: int

    def rows(self) -> list[tuple[str, str]]:
        """Return the lines of the table."""
        return [
            ("judged", f"{self.judged}, and {self.equivalent} marked as equivalent"),
            ("reached", str(self.reached)),
            ("reached by the simulator", str(self.reached_by_sim)),
            ("of these convicted by the simulator", str(self.sim_of_its_own)),
            ("of all reached: convicted by the simulator", str(self.sim)),
            ("  by unit tests", str(self.unit)),
            ("  by one or the other", str(self.either)),
            ("  by neither", str(self.neither)),
            ("convicted by a limit of time (hung)", str(self.hung)),
        ]


def figures_of(verdicts: Sequence[Verdict], equivalent: Iterable[str] = ()) -> Figures:
    """Return the figures of what is judged of a sample."""
    marked = set(equivalent)
    known = [each for each in verdicts if not each.is_due]
    judged = [each for each in known if each.id not in marked]
    reached = [each for each in judged if each.is_reached]
    asked = [each for each in verdicts if each.simulator != DUE and each.id not in marked]
    by_sim = [each for each in asked if each.simulator.verdict != "unreached"]

    def of_reached(number: int) -> Share:
        return Share(number, len(reached))

    convicted = sum(each.is_convicted for each in reached)
    return Figures(
        judged=len(judged),
        equivalent=len(known) - len(judged),
        reached=Share(len(reached), len(judged)),
        reached_by_sim=Share(len(by_sim), len(asked)),
        sim_of_its_own=Share(sum(each.simulator.verdict in CONVICTED for each in by_sim), len(by_sim)),
        sim=of_reached(sum(each.simulator.verdict in CONVICTED for each in reached)),
        unit=of_reached(sum(each.unit_tests.verdict in CONVICTED for each in reached)),
        either=of_reached(convicted),
        neither=of_reached(len(reached) - convicted),
        hung=sum("hung" in (each.simulator.verdict, each.unit_tests.verdict) for each in judged),
    )


def survivors(verdicts: Sequence[Verdict], equivalent: Iterable[str] = ()) -> list[Verdict]:
    """Return what was reached and not convicted, nor marked, in the order of files."""
    marked = set(equivalent)
    return sorted(
        (each for each in verdicts if _has_survived(each) and each.id not in marked),
        key=lambda each: each.id,
    )


def _has_survived(verdict: Verdict) -> bool:
    return verdict.is_reached and not verdict.is_convicted and not verdict.is_due


def survivor_lines(verdict: Verdict) -> list[str]:
    """Return what is shown of one: where it is, which sides passed over it, and the change."""
    simulator, unit_tests = _passed_by(verdict.simulator, "seeds"), _passed_by(verdict.unit_tests, "tests")
    return [
        f"{verdict.file}:{verdict.line} {verdict.id}",
        f"  {verdict.digest}; simulator: {simulator}; unit tests: {unit_tests}",
        *(f"    {line}" for line in verdict.change),
    ]


def _passed_by(side: Side, name: str) -> str:
    if side.verdict == "unreached":
        return "unreached"
    return f"{side.ran} {name} pass" + (f" of {side.reached_by}" if side.ran < side.reached_by else "")


def grouped(verdicts: Iterable[Verdict], name_of: Callable[[Verdict], str]) -> list[tuple[str, Figures]]:
    """Return the figures of each group of verdicts, in the order of the groups' names."""
    groups: dict[str, list[Verdict]] = {}
    for each in verdicts:
        groups.setdefault(name_of(each), []).append(each)
    return [(name, figures_of(group)) for name, group in sorted(groups.items())]

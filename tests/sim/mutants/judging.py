"""One mutant against the seeds, and against the tests, that reach it: a verdict.

Both are asked, each until the first failure, in a process of its own that loads the mutated module. The cheapest seeds
are run first, and of the tests those that reach least beside: the order costs or saves time alone. No more than
`seeds_max` seeds are run, and tests for no more than `tests_cpu_s`; a side that ended so without a failure is `cut`,
and counts as one that did not convict.

| verdict of a side | meaning                                                              |
|-------------------|----------------------------------------------------------------------|
| unreached         | nothing of it runs the statement                                     |
| convicted         | a seed or a test failed, or the module could not be imported         |
| hung              | convicted, by a limit: an endless loop, or a wait that does not end  |
| died              | convicted: the process ended in the middle                           |
| survived, cut     | all passed, or all that were run                                     |
"""

from __future__ import annotations

import ast
import importlib
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from .coverage import Reach
from .generate import Mutant, diff_of, mutated
from .importing import rewritten
from .processes import Ending, Limits, Program, run
from .programs import run_seeds, run_tests
from .record import DUE, SIDES, Side, Verdict

PRELOADED: Final = (
    "aiofiles",
    "boto3",
    "click",
    "cramjam",
    "crc32c",
    "cryptography.x509",
    "fsspec",
    "h11",
    "lz4.frame",
    "prometheus_client",
    "pydantic",
    "yaml",
    "rich.progress",
    "rich.table",
    "scramp",
    "zstandard",
    "pytest",
    "pytest_asyncio.plugin",
    "pytest_timeout",
    "tierfetch.protocol",
    "tierfetch.protocol.messages",
)
"""What mutants do not change: imported once, before the forks."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is spent on one mutant."""

    seeds_max: int = 20
    tests_cpu_s: float = 90.0
    limits: Limits = field(default_factory=Limits)


@dataclass(slots=True)
class Court:
    """What is known of the product at a commit, and of what reaches it."""

    sources: Mapping[str, str]
    defaults: Mapping[str, Set[str]]
    seeds: Sequence[Reach]
    tests: Sequence[Reach]
    effort: Effort = field(default_factory=Effort)
    commit: str = ""
    known: Mapping[str, Verdict] = field(default_factory=dict)
    """What sides have said before, by the mutant's id: only those that are due are asked."""
    asks: Collection[str] = tuple(SIDES)

    def judge(self, mutant: Mutant) -> Verdict:
        """Run what reaches the mutant."""
        source = self.sources[mutant.file]
        tree = mutated(source, mutant, self.defaults)
        known = self.known.get(mutant.id)
        simulator, sim_s = (DUE, 0.0) if known is None else (known.simulator, 0.0)
        unit_tests, unit_s = (DUE, 0.0) if known is None else (known.unit_tests, 0.0)
        if simulator == DUE and "simulator" in self.asks:
            simulator, sim_s = self._ask(mutant, tree, self.seeds_for(mutant), _seeds_program, self.effort.seeds_max)
        if unit_tests == DUE and "unit_tests" in self.asks:
            unit_tests, unit_s = self._ask(mutant, tree, self.tests_for(mutant), run_tests, None)
        return Verdict(
            file=mutant.file,
            function=mutant.function,
            line=mutant.line,
            operator=mutant.operator,
            ordinal=mutant.ordinal,
            digest=mutant.digest,
            change=tuple(diff_of(source, mutant, self.defaults)),
            simulator=_with_judge(simulator),
            unit_tests=unit_tests,
            cpu_s=round(sim_s + unit_s + (known.cpu_s if known is not None else 0.0), 1),
            commit=self.commit,
            sample=0 if known is None else known.sample,
        )

    def seeds_for(self, mutant: Mutant) -> list[Reach]:
        """Return the seeds that reach it, the cheapest first."""
        return sorted(_reaching(self.seeds, mutant), key=lambda each: each.cpu_s)

    def tests_for(self, mutant: Mutant) -> list[Reach]:
        """Return the tests that reach it: those that reach least beside it first, for those are about it."""
        return sorted(_reaching(self.tests, mutant), key=_breadth)

    def _ask(
        self, mutant: Mutant, tree: ast.Module, reaching: list[Reach], program: _Run, count_max: int | None
    ) -> tuple[Side, float]:
        if not reaching:
            return Side("unreached"), 0.0
        chosen = reaching[:count_max]
        known = {each.name: each.cpu_s for each in chosen}
        limits = Limits(
            **{name: getattr(self.effort.limits, name) for name in LIMITS_KEPT},
            known_cpu_s=known,
            total_cpu_s=self.effort.tests_cpu_s if count_max is None else float("inf"),
        )
        ending = run(_with_mutant(mutant, tree, program, list(known)), limits)
        return _side(ending, len(reaching)), ending.cpu_s


LIMITS_KEPT: Final = ("step_cpu_s", "factor", "silent_s", "memory_bytes")

_Run = Callable[[list[str], Callable[[dict[str, Any]], None], Path], None]


def _seeds_program(names: list[str], say: Callable[[dict[str, Any]], None], _: Path) -> None:
    run_seeds([int(name.removeprefix("seed ")) for name in names], say)


def _with_mutant(mutant: Mutant, tree: ast.Module, run_names: _Run, names: list[str]) -> Program:
    def program(say: Callable[[dict[str, Any]], None], directory: Path) -> None:
        with rewritten([mutant.file], lambda file, source: tree):
            run_names(names, say, directory)

    return program


def _reaching(reaches: Sequence[Reach], mutant: Mutant) -> list[Reach]:
    return [each for each in reaches if each.reaches(mutant.file, mutant.statement_line)]


def _breadth(reach: Reach) -> float:
    return sum(bits.bit_count() for bits in reach.lines.values()) * (0.1 + reach.cpu_s)


def _side(ending: Ending, reached_by: int) -> Side:
    ran = sum("end" in line for line in ending.lines)
    failed = next((line for line in ending.lines if line.get("failure") is not None), None)
    if failed is not None:
        verdict = "hung" if failed["failure"].startswith("Failed: Timeout") else "convicted"
        return Side(verdict, failed["end"], reason=failed["failure"], ran=ran, reached_by=reached_by)
    if ending.kind in ("busy", "silent"):
        return Side("hung", ending.step or "", reason=f"{ending.kind} beyond its limit", ran=ran, reached_by=reached_by)
    if ending.kind == "died":
        reason = f"ended with status {ending.status}"
        return Side("died", ending.step or "", reason=reason, ran=ran, reached_by=reached_by)
    return Side("survived" if ran == reached_by else "cut", ran=ran, reached_by=reached_by)


def _with_judge(simulator: Side) -> Side:
    """Name the invariant, or the kind of anomaly, that a seed's failure begins with."""
    if simulator.verdict != "convicted":
        return simulator
    return replace(simulator, judge=simulator.reason.partition(":")[0])


def preload() -> None:
    """Import what every fork needs and no mutant changes."""
    for name in PRELOADED:
        with suppress(ImportError):
            importlib.import_module(name)


def lane(court: Court, mutants: Sequence[Mutant], record: Path, deadline_s: float) -> None:
    """Judge mutants until the deadline, and append a line for each."""
    for mutant in mutants:
        if time.monotonic() > deadline_s:
            return
        line = court.judge(mutant).to_json() + "\n"
        descriptor = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line.encode())  # one write: lanes append to the same file
        finally:
            os.close(descriptor)

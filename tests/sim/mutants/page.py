"""The page of a sample, `docs/mutants.md`: what it came to, written from its record alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from .equivalent import Mark
from .figures import Figures, figures_of, grouped, survivor_lines, survivors
from .record import CONVICTED, DUE, Verdict


class Settings(Protocol):
    """The options of the command that the page states."""

    sample: int
    seed: int
    seeds: int
    seeds_each: int
    tests_s: float


def page(record: Iterable[Verdict], settings: Settings, marks: Sequence[Mark]) -> str:
    """Return the text of the page."""
    verdicts = [each for each in record if each.sample == settings.seed]
    digests = {each.id: each.digest for each in verdicts}
    holding = [mark for mark in marks if digests.get(mark.id) == mark.digest]
    equivalent = {mark.id for mark in holding}
    counted = [each for each in verdicts if each.id not in equivalent]
    survived = survivors(counted)
    by_tests = [each for each in counted if each.convicted_by == ["unit tests"] and _is_in_simulation(each)]
    blocks = [
        _head(settings, verdicts),
        ["| of the sample | share (95 % interval) |", "|---|---|", *_rows(figures_of(verdicts, equivalent))],
        ["## By folder", "", *_table("folder", grouped(counted, lambda each: each.file.partition("/")[0]))],
        ["## By operator", "", *_table("operator", grouped(counted, lambda each: each.operator))],
        ["## Which judges convict", "", *_judges(counted)],
        ["## Convicted by neither", "", *(_survivors(survived) or _none(counted))],
        ["## In the simulation, and convicted by unit tests alone", "", *(_work_list(by_tests) or _none(counted))],
        ["## Marked as equivalent", "", *_marks(holding)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _head(settings: Settings, verdicts: Sequence[Verdict]) -> list[str]:
    judged, asked = sum(not each.is_due for each in verdicts), sum(each.simulator != DUE for each in verdicts)
    return [
        "# Mutants",
        "",
        "How much of what could go wrong in the product would be noticed? A program makes small mistakes in it, one at",
        "a time: a boundary moved, a call or an `await` dropped, a stale value, a lock not taken, an exception",
        "swallowed (`tests/sim/mutants/operators.py` lists them). Each is run against the seeds of the",
        "[simulation](simulation.md) and the unit tests that reach it. Nobody chose the mutants: a seed drew them from",
        "all. So a share of the sample stands for that of all mutants within its interval (Wilson's, 95 %).",
        "",
        f"**{judged} of a sample of {settings.sample}**, drawn by seed {settings.seed}, are judged; the simulator was",
        f"asked about {asked} so far. A mutant is given at most {settings.seeds_each} of the seeds 1 to",
        f"{settings.seeds}, and {settings.tests_s:.0f} CPU seconds of unit tests: more would convict more.",
        "The record is `tests/sim/mutants/record.jsonl`, which any machine continues; this page is written from it:",
        "",
        f"    python -m tierfetch.tests.sim.mutants --seed {settings.seed} --seeds {settings.seeds} \\",
        f"        --seeds-each {settings.seeds_each} --tests-s {settings.tests_s:.0f} \\",
        "        --record tests/sim/mutants/record.jsonl --page docs/mutants.md --jobs 2 --minutes 60",
        "",
        "The goal: of those reached the simulator convicts 70 %, with unit tests together 95 %.",
    ]


def _rows(figures: Figures) -> list[str]:
    return [f"| {name.strip()} | {share} |" for name, share in figures.rows()]


def _table(title: str, groups: Iterable[tuple[str, Figures]]) -> list[str]:
    rows = [
        f"| {name} | {each.reached_by_sim} | {each.sim_of_its_own} | {each.unit} | {each.either} |"
        for name, each in groups
    ]
    head = f"| {title} | in the simulation | convicted by it | of all reached: by unit tests | by one or the other |"
    return [head, "|---|---|---|---|---|", *rows]


def _judges(verdicts: Iterable[Verdict]) -> list[str]:
    """Return how many the simulator convicted by what."""
    counts: dict[str, int] = {}
    for each in verdicts:
        if each.simulator.verdict in CONVICTED:
            name = each.simulator.judge or each.simulator.verdict
            counts[name] = counts.get(name, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ["| invariant, anomaly or exception | mutants |", "|---|---|", *(f"| {name} | {n} |" for name, n in ordered)]


def _survivors(verdicts: Sequence[Verdict]) -> list[str]:
    blocks = [["```diff", *survivor_lines(each), "```"] for each in verdicts]
    return "\n\n".join("\n".join(block) for block in blocks).splitlines()


def _is_in_simulation(verdict: Verdict) -> bool:
    return verdict.simulator.verdict != "unreached"


def _work_list(verdicts: Iterable[Verdict]) -> list[str]:
    """Return what a judge may learn to see."""
    return [
        f"- `{each.file}`, `{each.function}`: {each.operator} (line {each.line}), reached by "
        f"{each.simulator.reached_by} seeds"
        for each in sorted(verdicts, key=lambda each: each.id)
    ]


def _none(verdicts: Sequence[Verdict]) -> list[str]:
    """Return that none of those is found which both sides have judged: where these are few, that says little."""
    return [f"None of the {sum(not each.is_due for each in verdicts)} that both sides have judged."]


def _marks(marks: Sequence[Mark]) -> list[str]:
    return [f"- `{mark.id}`: {mark.reason}" for mark in sorted(marks, key=lambda mark: mark.id)] or ["None."]

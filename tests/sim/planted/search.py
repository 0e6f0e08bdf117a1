"""`python -m tierfetch.tests.sim.planted.search [--again]`: looks for the seed that finds each planted bug.

Writes `known.json` after each, and at the end the table `docs/planted-bugs.md`. Bugs that are known are looked for only
with `--again`; with parts of a name, a file or a scenario, only those; with `--up-to=N` within N seeds. Exits with 1 if
one was not found within these, by default `SEEDS_MAX`.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from functools import cache, partial
from pathlib import Path

from tierfetch.sim.chance import derived
from tierfetch.sim.governed_options import GovernedOptions
from tierfetch.sim.quorum import QuorumOptions
from tierfetch.sim.runner import run_seed
from tierfetch.tests.sim.planted import (
    controller_bugs,
    fetcher_bugs,
    log_bugs,
    quorum_bugs,
    quorum_core_bugs,
    rlm_bugs,
)
from tierfetch.tests.sim.planted.registry import BUGS, Finding, PlantedBug, known_findings, write_findings

SEEDS_MAX = 200
FAULTS_ENOUGH = 6
OTHERS_WEIGHT = 0.2
"""Of faults that a bug which needs quiet does not need: many leave it no time."""
TABLE_FILE = Path(__file__).parents[3] / "docs" / "planted-bugs.md"
MODULES = (quorum_core_bugs, quorum_bugs, log_bugs, fetcher_bugs, rlm_bugs, controller_bugs)
OPTIONS = {"governed": GovernedOptions, "quorum": QuorumOptions}

SHOWN_BY_A_TEST = "Found by a model checker, a model of the controller or a transcript, not by the seeds tried so far:"
NOT_FOUND = "Planted, and not found in the seeds that were tried so far:"

_HEAD = """# Planted bugs

The simulator must be able to fail. Each of these bugs replaces one function of the production code by one with a
mistake that a reviewer could overlook (`tests/sim/planted`); the table says which of the first 200 seeds finds it, and
by which invariant or checker. Seeds whose faults suit the bug are tried first; a seed counts only if it finds nothing
without the bug. Made by `make search-planted`; `make test-planted` plants each again at its seed.

| bug | in | scenario | found by seed | seeds tried | invariant or checker |
|---|---|---|---|---|---|
"""


def look_for(bug: PlantedBug, seeds_max: int) -> Finding | None:
    for tried, seed in enumerate(promising_seeds(bug)[:seeds_max], 1):
        with bug.plant():
            report = run_seed(seed, bug.scenario)
        if report.has_failed and passes_without_bugs(seed, bug.scenario):
            return Finding(seed, tried, found_by(report.failures[0]))
        reason = "that fails without it, too" if report.has_failed else ""
        print(f"{bug.name}: not by seed {seed} {reason}", flush=True)  # noqa: T201
    return None


def promising_seeds(bug: PlantedBug) -> list[int]:
    """The seeds up to `SEEDS_MAX`, those first that have most of what the bug needs; of equals the cheapest."""
    return sorted(range(1, SEEDS_MAX + 1), key=lambda seed: (-_promise(bug, seed), seed))


def _promise(bug: PlantedBug, seed: int) -> float:
    chance = partial(derived, seed)
    options = OPTIONS[bug.scenario].drawn(chance)
    schedule = options.schedule(chance)
    counts = Counter(fault.kind for fault in schedule.faults)
    matches = sum(getattr(options, name) in values for name, values in bug.options.items())
    load = getattr(options, "partitions", 1) * 100 / options.gap_ms
    others = sum(number for kind, number in counts.items() if bug.needs_quiet and kind not in bug.faults)
    wanted = sum(min(counts[kind], FAULTS_ENOUGH) for kind in bug.faults) - OTHERS_WEIGHT * others
    return wanted + FAULTS_ENOUGH * matches - load


@cache
def passes_without_bugs(seed: int, scenario: str) -> bool:
    return not run_seed(seed, scenario).has_failed


def found_by(failure: str) -> str:
    """The invariant or the kind of anomaly that a line of a report begins with."""
    return failure.partition(":")[0]


def write_table(findings: dict[str, Finding]) -> None:
    rows = [
        f"| {bug.name} | `{bug.file}` | {bug.scenario} | {found.seed} | {found.seeds_tried} | {found.found_by} |"
        for bug in sorted(BUGS.values(), key=lambda bug: (bug.scenario, bug.file, bug.name))
        if (found := findings.get(bug.name)) is not None
    ]
    left = [bug for bug in sorted(BUGS.values(), key=lambda bug: bug.name) if bug.name not in findings]
    shown = [f"* {bug.name} (`{bug.file}`): `{bug.shown_by}`" for bug in left if bug.shown_by is not None]
    missed = [f"* {bug.name} (`{bug.file}`)" for bug in left if bug.shown_by is None]
    tail = [*_section(SHOWN_BY_A_TEST, shown), *_section(NOT_FOUND, missed)]
    TABLE_FILE.write_text(_HEAD + "\n".join([*rows, *tail]) + "\n")


def _section(title: str, items: list[str]) -> list[str]:
    return ["", title, "", *items] if items else []


def main(arguments: list[str]) -> int:
    findings = known_findings()
    is_again = "--again" in arguments
    limits = [int(argument.removeprefix("--up-to=")) for argument in arguments if argument.startswith("--up-to=")]
    seeds_max = limits[0] if limits else SEEDS_MAX
    parts = [argument for argument in arguments if not argument.startswith("--")]
    missed = []
    for bug in BUGS.values():
        is_named = not parts or any(part in f"{bug.name} {bug.file} {bug.scenario}" for part in parts)
        if not is_named or (bug.name in findings and not is_again):
            continue
        began_s = time.perf_counter()
        found = look_for(bug, seeds_max)
        print(f"{bug.name}: {found} in {time.perf_counter() - began_s:.0f} s", flush=True)  # noqa: T201
        if found is None:
            missed.append(bug.name)
            continue
        findings = known_findings() | {bug.name: found}
        write_findings(findings)
    write_table(known_findings())
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m tierfetch.tests.sim.planted.search [--again] [--jobs=N] [--up-to=N] [--table] [part ...]`: looks for the
seed that finds each planted bug.

| option      | effect                                                                                          |
|-------------|-------------------------------------------------------------------------------------------------|
| (none)      | bugs that no seed is known for are looked for                                                   |
| `--again`   | the others, too, at the seed that is known first: it stays if it finds the bug still            |
| `--jobs=N`  | so many bugs at a time, a process each                                                          |
| `--up-to=N` | no more than N seeds each, of `SEEDS_MAX`                                                       |
| `--table`   | nothing is looked for                                                                           |
| part ...    | only bugs with one of these in their name, file or scenario                                     |

Writes `known.json` after each, and at the end the table `docs/planted-bugs.md`, whatever ended the search: it goes on
where it was. Exits with 1 if a bug was not found.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path

from tierfetch.sim.faults.schedule import SCENE_KINDS, FaultKind
from tierfetch.sim.machine.chance import derived
from tierfetch.sim.scenarios.cluster_options import ClusterOptions
from tierfetch.sim.scenarios.quorum import QuorumOptions
from tierfetch.sim.scenarios.runner import run_seed
from tierfetch.tests.sim.planted import (
    broker_bugs,
    controller_bugs,
    coordinator_bugs,
    fetcher_bugs,
    hardware_bugs,
    log_bugs,
    look_bugs,
    operation_bugs,
    outside_bugs,
    quorum_bugs,
    quorum_core_bugs,
    retention_bugs,
    rlm_bugs,
    share_bugs,
    snapshot_bugs,
    unclean_bugs,
    voter_bugs,
)
from tierfetch.tests.sim.planted.registry import BUGS, Finding, PlantedBug, known_findings, write_findings

SEEDS_MAX = 200
NO_FIT = (TypeError, AttributeError, NameError)
FAULTS_ENOUGH = 6
OTHERS_WEIGHT = 0.2
"""Of faults that a bug which needs quiet does not need: many leave it no time."""
TABLE_FILE = Path(__file__).parents[3] / "docs" / "planted-bugs.md"
MODULES = (
    *(quorum_core_bugs, quorum_bugs, log_bugs, fetcher_bugs, rlm_bugs),
    *(retention_bugs, broker_bugs, controller_bugs, coordinator_bugs, hardware_bugs, outside_bugs, operation_bugs),
    *(share_bugs, snapshot_bugs, unclean_bugs, voter_bugs, look_bugs),
)
OPTIONS = {
    "cluster": ClusterOptions.drawn,
    "quorum": QuorumOptions.drawn,
    "shares": ClusterOptions.with_sharers,
    "workers": ClusterOptions.with_workers,
}

SHOWN_BY_A_TEST = "Found by a model checker, a model, a transcript or a test of brokers, not by the seeds tried so far:"
NOT_FOUND = "Planted, and not found in the seeds that were tried so far:"

_HEAD = """# Planted bugs

The simulator must be able to fail. Each of these bugs replaces one function of the production code by one with a
mistake that a reviewer could overlook (`tests/sim/planted`); the table says which of the first 200 seeds finds it, and
by which invariant or checker. Seeds whose faults suit the bug are tried first; a seed counts only if it finds nothing
without the bug. Made by `make search-planted`; `make test-planted` plants each again at its seed.

| bug | in | scenario | found by seed | seeds tried | invariant or checker |
|---|---|---|---|---|---|
"""


def look_for(bug: PlantedBug, seeds_max: int, known: Finding | None = None) -> Finding | None:
    """The one that is `known` if that seed finds the bug still, else the first of the promising ones that does."""
    if known is not None and (found := _found_at(bug, known.seed)) is not None:
        return replace(known, found_by=found)
    for tried, seed in enumerate(promising_seeds(bug)[:seeds_max], 1):
        if (found := _found_at(bug, seed)) is not None:
            return Finding(seed, tried, found)
    return None


def _found_at(bug: PlantedBug, seed: int) -> str | None:
    """By what the seed finds the bug; None if it does not, or fails without it, too."""
    with bug.plant():
        report = run_seed(seed, bug.scenario)
    is_found = report.has_failed and is_judged(report.failures[0])
    if is_found and passes_without_bugs(seed, bug.scenario):
        return found_by(report.failures[0])
    reason = "that fails without it, too" if is_found else ", ".join(report.failures[:1])
    print(f"{bug.name}: not by seed {seed} {reason}", flush=True)  # noqa: T201
    return None


def promising_seeds(bug: PlantedBug) -> list[int]:
    """The seeds up to `SEEDS_MAX`, those first that have most of what the bug needs; of equals the cheapest."""
    return sorted(range(1, SEEDS_MAX + 1), key=lambda seed: (-_promise(bug, seed), seed))


def _promise(bug: PlantedBug, seed: int) -> float:
    chance = partial(derived, seed)
    options = OPTIONS[bug.scenario](chance)
    schedule = options.schedule(chance)
    counts = Counter(fault.kind for fault in schedule.faults)
    matches = sum(getattr(options, name) in values for name, values in bug.options.items())
    load = getattr(options, "partitions", 1) * 100 / options.gap_ms
    others = sum(number for kind, number in counts.items() if bug.needs_quiet and kind not in bug.faults)
    wanted = sum(_weight(kind, counts[kind]) for kind in bug.faults) - OTHERS_WEIGHT * others
    return wanted + FAULTS_ENOUGH * matches - load


def _weight(kind: FaultKind, count: int) -> int:
    """Of a fault that comes in scenes, and lasts, one is enough."""
    return FAULTS_ENOUGH * min(count, 1) if kind in SCENE_KINDS else min(count, FAULTS_ENOUGH)


def is_judged(failure: str) -> bool:
    """Whether that says what the code did: a patch that does not fit the code any more fails in ways of its own."""
    return not any(error.__name__ in failure for error in NO_FIT)


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
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--up-to", type=int, default=SEEDS_MAX)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("parts", nargs="*")
    chosen = parser.parse_args(arguments)
    findings = {name: finding for name, finding in known_findings().items() if name in BUGS}
    wanted = [
        bug.name
        for bug in BUGS.values()
        if not chosen.parts or any(part in f"{bug.name} {bug.file} {bug.scenario}" for part in chosen.parts)
        if chosen.again or bug.name not in findings
    ]
    is_whole = chosen.table or _search(wanted, findings, chosen.up_to, chosen.jobs)
    write_table(known_findings())
    return 0 if is_whole else 1


def _search(names: list[str], findings: dict[str, Finding], seeds_max: int, jobs: int) -> bool:
    """Whether all were found."""
    is_whole = True
    number = count(1)
    with ProcessPoolExecutor(jobs) as processes:
        searches = {processes.submit(_search_one, name, seeds_max, findings.get(name)): name for name in names}
        for search in as_completed(searches):
            name, found = searches[search], search.result()
            print(f"{next(number)}/{len(names)} {name}: {found}", flush=True)  # noqa: T201
            is_whole = is_whole and found is not None
            now = {each: finding for each, finding in known_findings().items() if each in BUGS and each != name}
            write_findings(now if found is None else now | {name: found})
    return is_whole


def _search_one(name: str, seeds_max: int, known: Finding | None) -> Finding | None:
    """Search for one bug. One that cannot be planted is not found, and stops no other search."""
    try:
        return look_for(BUGS[name], seeds_max, known)
    except AttributeError as error:
        print(f"{name} does not fit the code any more: {error}", flush=True)  # noqa: T201
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs seeds: one world each, from the scenario to a report; and shrinks the schedule of one that failed."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from ...protocol import KafkaError
from ..faults.schedule import Schedule
from ..faults.shrink import Shrunk, shrink_schedule
from ..judges.core.history import History
from ..judges.core.partition import InvariantViolationError
from ..machine.host import Stopped
from ..machine.world import World
from .cluster import ClusterScenario
from .cluster_options import ClusterOptions
from .quorum import QuorumScenario
from .report import RunReport, Tallies
from .workload import UnexpectedError

Sink = Callable[[str], None]
SHARES_EVERY: Final = 7
"""One of so many seeds runs `shares` if no scenario is named; of the others each third."""
LINES_MAX: Final = 30
"""The lines that a report has of what led up to its first failure."""
_FAULTS: Final = " faults       "
_PARTITION: Final = re.compile(r"\b[a-z_][\w.-]*-\d+\b(?<!broker-\d)(?<!controller-\d\d)")
_HOST: Final = re.compile(r"\b(?:broker|controller)-\d+\b")
HITS: Final = ("disk ", "rotten ", "store throttled", "half answer", "no bucket")
"""How the counters begin that a report names."""
OURS: Final = (AssertionError, AttributeError, IndexError, KeyError, NameError, TypeError)
"""Exceptions that no disk causes in a sound program."""


class Run(Protocol):
    """One run of a scenario in a world that was made for it."""

    schedule: Schedule
    history: History

    def run(self) -> None: ...

    def findings(self) -> list[str]:
        """What the judges found at the end, a line each."""

    def option_texts(self) -> dict[str, str]: ...

    def tallies(self) -> Tallies: ...


def with_workers(world: World, schedule: Schedule | None = None) -> ClusterScenario:
    """Return a cluster with a group of workers, and so with coordinators of groups and transactions."""
    return ClusterScenario(world, schedule, ClusterOptions.with_workers(world.rng))


def with_sharers(world: World, schedule: Schedule | None = None) -> ClusterScenario:
    """Return a cluster with a share group."""
    return ClusterScenario(world, schedule, ClusterOptions.with_sharers(world.rng))


SCENARIOS: Final[Mapping[str, Callable[[World, Schedule | None], Run]]] = {
    "cluster": ClusterScenario,
    "quorum": QuorumScenario,
    "shares": with_sharers,
    "workers": with_workers,
}


def scenario_of(seed: int) -> str:
    """The scenario that a seed runs if none is named."""
    if seed % SHARES_EVERY == SHARES_EVERY - 1:
        return "shares"
    others = sorted(SCENARIOS.keys() - {"shares"})
    return others[seed % len(others)]


def run_seed(
    seed: int,
    scenario: str | None = None,
    *,
    schedule: Schedule | None = None,
    sink: Sink | None = None,
    records_logs: bool = False,
    on_end: Callable[[Run], None] | None = None,
) -> RunReport:
    """One run, judged. `sink` gets its lines; `on_end` is called with the run once it is over."""
    name = scenario or scenario_of(seed)
    began_s = time.perf_counter()
    with World(seed, sink=sink, records_logs=records_logs) as world:
        run = SCENARIOS[name](world, schedule)
        failures = _failures(run)
        failures += [f"unexpected: {each.get('exception') or each['message']!r}" for each in _faults(world)]
        failures += [f"stopped by itself: {each.host}: {each.reason}" for each in _stopped(world)]
        for failure in failures:
            world.say("judge", failure)
        if on_end is not None:
            on_end(run)
        tallies = run.tallies()
        return RunReport(
            scenario=name,
            seed=seed,
            failures=tuple(failures),
            schedule=run.schedule,
            options=run.option_texts(),
            virtual_s=world.now_s,
            real_s=time.perf_counter() - began_s,
            events=world.loop.events,
            injected={**tallies.injected, **_hits(world)},
            changed=dict(tallies.changed),
            records_acknowledged=tallies.acknowledged,
            records_checked=tallies.checked,
            records_excused=tallies.excused,
            digest=world.digest(),
            leading_up=_leading_up(failures, world.recent),
        )


def _leading_up(failures: Sequence[str], lines: Iterable[str]) -> tuple[str, ...]:
    """The last lines about the partition that the first failure names, or else its hosts; and what went wrong then."""
    for pattern in (_PARTITION, _HOST):
        names = set(pattern.findall(failures[0])) if failures else set()
        found = [line for line in lines if _FAULTS in line or any(name in line for name in names)]
        if names and any(_FAULTS not in line for line in found):
            return tuple(found[-LINES_MAX:])
    return ()


def _faults(world: World) -> list[dict[str, object]]:
    """What was never awaited; but a process may end because its disk fails, and says so as its last word."""
    ends = {f"{name} failed" for name in world.hosts}
    return [
        each
        for each in world.loop.failures
        if not (each["message"] in ends and isinstance(each.get("exception"), OSError | KafkaError))
    ]


def _hits(world: World) -> dict[str, int]:
    """How often a disk, or the store, was at fault while such a fault lasted."""
    return {kind: number for kind, number in sorted(world.counters.items()) if kind.startswith(HITS)}


def _stopped(world: World) -> list[Stopped]:
    """Nodes that gave up although their disks did what they should, or for what no disk is to blame."""
    return [
        each
        for each in world.stopped
        if not each.is_disk_to_blame or any(f"{error.__name__}(" in each.reason for error in OURS)
    ]


def _failures(run: Run) -> list[str]:
    try:
        run.run()
    except (InvariantViolationError, UnexpectedError) as violation:
        return [str(violation)]
    except (Exception, asyncio.CancelledError) as fault:  # noqa: BLE001 - the supervisor of a run
        return [f"{type(fault).__name__}: {fault}"]
    return run.findings()


def shrink_failure(report: RunReport, *, runs_max: int) -> Shrunk | None:
    """The smallest schedule found with which the seed still fails; None if it does not fail again with its own."""
    return shrink_schedule(
        report.schedule,
        lambda schedule: run_seed(report.seed, report.scenario, schedule=schedule).has_failed,
        runs_max=runs_max,
    )

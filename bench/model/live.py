"""Scenarios on real brokers: what `stage` declares.

A topic that is done with is deleted while the next one is filled, and its end is waited for after that; the last one
goes with its cluster.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

from tierfetch.cli.model.calibrate import measured_machine
from tierfetch.model import Calibrations, MachineRates, System
from tierfetch.planning import PlanFile

from .failing import fail_over
from .forecast import captured, failover_forecast, forecast, rebalance_forecast
from .lab import Lab, running
from .moving import move, planned
from .replacement import load, replace
from .scenario import Kind, Scenario
from .stage import Foreseen, Stage
from .timing import Timing
from .topics import begin_deleting, prepared, wait_deleted

PROBE_BYTES: Final = 128_000_000


class LiveLabs:
    """Clusters of this machine, each in a directory of its own that is removed at its end."""

    def machine(self, scratch: Path) -> MachineRates:
        return measured_machine(scratch, PROBE_BYTES)

    @contextmanager
    def running(self, system: System, scenario: Scenario, machine: MachineRates) -> Iterator[Stage]:
        prefix = f"tierfetch-model-{system}-"
        with (
            tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as base,
            running(system, Path(base) / "cluster", scenario) as lab,
        ):
            yield LiveStage(lab, scenario, machine)


class LiveStage:
    """A scenario's lab."""

    def __init__(self, lab: Lab, scenario: Scenario, machine: MachineRates) -> None:
        self._lab = lab
        self._scenario = scenario
        self._machine = machine
        self._before: str | None = None
        """The topic that is done with."""

    @contextmanager
    def data(self, topic: str) -> Iterator[None]:
        before, self._before = self._before, topic
        if before is not None:
            begin_deleting(self._lab, self._scenario, before)
        prepared(self._lab, self._scenario, topic)
        if before is not None:
            wait_deleted(self._lab, before)
        yield

    def load(self, topic: str) -> AbstractContextManager[None]:
        return load(self._lab, self._scenario, topic)

    def foresee(self, topic: str, calibrations: Calibrations) -> Foreseen:
        lab, scenario = self._lab, self._scenario
        if scenario.kind.death is not None:
            return Foreseen(failover_forecast(scenario, lab.system, calibrations))
        inventory = captured(lab, scenario, topic, self._machine)
        if not scenario.kind.is_rebalance:
            return Foreseen(forecast(inventory, scenario.topic_names(topic), calibrations))
        found = planned(inventory, scenario, topic)
        return Foreseen(rebalance_forecast(found, calibrations), found.file.model_dump(mode="json", exclude_none=True))

    def run(self, topic: str, plan: Mapping[str, Any] | None, *, looks_at_disk: bool) -> Timing:
        match self._scenario.kind:
            case Kind.REPLACEMENT:
                return replace(self._lab, self._scenario, topic, looks_at_disk=looks_at_disk)
            case Kind.PROCESS | Kind.HOST:
                return fail_over(self._lab, self._scenario, topic)
            case _:
                assert plan is not None, self._scenario.name
                return move(self._lab, self._scenario, topic, PlanFile.model_validate(plan))

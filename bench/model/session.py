"""All scenarios of one system in turn: calibration, constants, predictions, runs. Writes as it goes.

Each has a cluster of its own: a wiped broker replays the metadata log, so on a cluster that many scenarios have used it
starts later than on the one that gave the constants. The first replacement of each cluster is not measured: its leader
has not done it before. A scenario that fails is recorded with its reason.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import click
from confluent_kafka import KafkaException
from rich.console import Console

from tierfetch.model import Calibrations, MachineRates, System
from tierfetch.protocol import OperatorError

from .failing import fail_over
from .fit import NEEDED, fitted, refitted, seen
from .forecast import captured, failover_forecast, forecast, rebalance_forecast
from .judge import judged
from .lab import Lab, running
from .moving import NeverMovedError, Planned, move, planned
from .record import Entry, Record
from .replacement import NeverJoinedError, load, prepared, replace
from .scenario import Kind, Scenario
from .spread import Series, spread_of
from .timing import Timing

FAILURES: Final = (TimeoutError, RuntimeError, OSError, KafkaException, OperatorError, click.ClickException)


class Session:
    """`console` shows progress; `record` keeps it."""

    def __init__(self, system: System, record: Record, machine: MachineRates, console: Console) -> None:
        self.system = system
        self.record = record
        self.machine = machine
        self.console = console
        self._topics = 0
        self._planned: Planned | None = None
        """What the scenario that is run moves, if it is a rebalance."""

    # --- scenarios --------------------------------------------------------------------------------------------------

    def calibrate(self, runs: int, scenarios: Sequence[Scenario]) -> None:
        """Run what is not in the record yet, and put the constants there. What failed stays as it was."""
        done = self.record.completed(runs)
        for scenario in scenarios:
            if (scenario.name, self.system) not in done:
                self._guarded(self.record.entry(scenario, self.system, is_test=False), runs)
        self.fit()

    def fit(self) -> None:
        entries = [entry for entry in self.record.calibration_runs if entry.system == self.system and entry.runs]
        found = {
            entry.scenario.name: seen(entry.scenario, [run for run in entry.runs if run is not None])
            for entry in entries
            if any(entry.runs)
        }
        known = self.record.calibrations or Calibrations.default()
        origin = f"python -m bench model, {self.record.machine}, {time.strftime('%Y-%m-%d')}"
        usual = known.systems[self.system]
        missing = [name for name in NEEDED if name not in found]
        if not missing:
            calibration = fitted(self.system, found, usual, origin)
            series = [Series(tuple(each.seconds), tuple(each.loads), each.first_s) for each in entries]
            spread = spread_of(series, calibration.spread, self.machine.cores, origin)
            calibration = calibration.model_copy(update={"spread": spread})
        elif len(missing) < len(NEEDED) or not found:
            names = ", ".join(missing)
            self.console.print(f"[red]{self.system}: {names} was not run: predictions use older constants[/]")
            return
        else:
            of_these = f"{usual.origin}; {', '.join(found)}: {origin}"
            calibration = refitted(usual, found).model_copy(update={"origin": of_these})
        systems = {**known.systems, self.system: calibration}
        self.record.calibrations = Calibrations(machine=self.machine, systems=systems)
        self.record.write()

    def test(self, scenarios: Sequence[Scenario], runs: int) -> None:
        done = self.record.completed(runs)
        for scenario in scenarios:
            if (scenario.name, self.system) not in done:
                self._guarded(self.record.entry(scenario, self.system, is_test=True), runs, predicts=True)

    # --- one of them ------------------------------------------------------------------------------------------------

    def _guarded(self, entry: Entry, runs: int, *, predicts: bool = False) -> None:
        try:
            with self._own_lab(entry.scenario) as lab:
                self._run(lab, entry, runs, predicts=predicts)
        except FAILURES as error:
            entry.failure = f"{type(error).__name__}: {error}"
            self.console.print(f"[red]{self.system}, {entry.scenario.name}: {entry.failure}[/]")
            self.record.write()

    @contextmanager
    def _own_lab(self, scenario: Scenario) -> Iterator[Lab]:
        prefix = f"tierfetch-model-{self.system}-"
        with (
            tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as base,
            running(self.system, Path(base) / "cluster", scenario) as lab,
        ):
            yield lab

    def _run(self, lab: Lab, entry: Entry, runs: int, *, predicts: bool) -> None:
        scenario = entry.scenario
        began = time.monotonic()
        if not scenario.grows:
            with self._prepared(lab, scenario) as topic, load(lab, scenario, topic):
                if predicts:
                    self._predict(lab, entry, topic)
                self._warm_up(lab, entry, topic)
                for _ in range(runs):
                    self._measure(lab, entry, topic, looks_at_disk=not predicts)
        else:
            if predicts or scenario.kind.is_rebalance:
                with self._prepared(lab, scenario) as topic, load(lab, scenario, topic):
                    self._predict(lab, entry, topic, is_kept=predicts)
            with self._prepared(lab, scenario) as topic:
                self._warm_up(lab, entry, topic)
            for _ in range(runs):
                with self._prepared(lab, scenario) as topic:
                    self._measure(lab, entry, topic, looks_at_disk=not predicts)
        self._tell(entry, time.monotonic() - began)

    @contextmanager
    def _prepared(self, lab: Lab, scenario: Scenario) -> Iterator[str]:
        """A topic that was never there before."""
        self._topics += 1
        topic = f"scenario{self._topics}"
        with prepared(lab, scenario, topic):
            yield topic

    def _predict(self, lab: Lab, entry: Entry, topic: str, *, is_kept: bool = True) -> None:
        """Into the record, unless it is a calibration: that needs the plan of its moves alone."""
        calibrations = self.record.calibrations or Calibrations.default()
        if entry.scenario.kind.is_rebalance:
            self._planned = planned(captured(lab, entry.scenario, self.machine), entry.scenario, topic)
            if is_kept:
                self.record.predict(entry, rebalance_forecast(self._planned, calibrations))
            return
        if entry.scenario.kind is not Kind.REPLACEMENT:
            self.record.predict(entry, failover_forecast(entry.scenario, self.system, calibrations))
            return
        inventory = captured(lab, entry.scenario, self.machine)
        self.record.predict(entry, forecast(inventory, topic, calibrations))

    def _warm_up(self, lab: Lab, entry: Entry, topic: str) -> None:
        """Once, which is kept apart: a leader's JVM is slow until it has done the same before."""
        with suppress(NeverJoinedError, NeverMovedError):
            entry.first_s = self._run_once(lab, entry, topic).start_to_isr_s

    def _measure(self, lab: Lab, entry: Entry, topic: str, *, looks_at_disk: bool) -> None:
        try:
            self.record.measure(entry, self._run_once(lab, entry, topic, looks_at_disk=looks_at_disk))
        except (NeverJoinedError, NeverMovedError):
            self.record.measure(entry, None)

    def _run_once(self, lab: Lab, entry: Entry, topic: str, *, looks_at_disk: bool = False) -> Timing:
        if entry.scenario.kind.is_rebalance:
            assert self._planned is not None, entry.scenario.name
            return move(lab, entry.scenario, topic, self._planned.file)
        if entry.scenario.kind is not Kind.REPLACEMENT:
            return fail_over(lab, entry.scenario, topic)
        return replace(lab, entry.scenario, topic, looks_at_disk=looks_at_disk)

    def _tell(self, entry: Entry, took_s: float) -> None:
        seconds = " ".join(f"{each:.2f}" for each in entry.seconds)
        line = f"{self.system}, {entry.scenario.name}: {seconds} s"
        if entry.forecast is not None:
            found = judged(entry.forecast.start_to_isr_s, entry.seconds, 1)
            within = f"{entry.forecast.low_s:.2f} to {entry.forecast.high_s:.2f}"
            line += (
                f"; predicted {found.predicted_s:.2f} s ({within}), error {found.error:+.0%}, spread {found.spread:.0%}"
            )
        self.console.print(f"{line} [dim]({took_s:.0f} s in all)[/]", highlight=False)

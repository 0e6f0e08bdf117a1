"""All scenarios of one system in turn: calibration, constants, predictions, runs. Writes as it goes.

Each has a cluster of its own: a wiped broker replays the metadata log, so on a cluster that many scenarios have used it
starts later than on the one that gave the constants. The first replacement of each cluster is not measured: its leader
has not done it before. A scenario that fails is recorded with its reason.

    begun        ends as                          what another process does with it
    -----------  -------------------------------  ------------------------------------------------------------------
    not at all   no entry                         all of it
    predicted    an entry without runs            all of it, the prediction too: nothing was measured yet
    run          an entry with some runs          a new cluster, data and a first run; then the runs that are missing
    failed       an entry with its reason         the same, but only when the session is continued
    whole        an entry with all runs           nothing
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import click
from confluent_kafka import KafkaException
from rich.console import Console

from tierfetch.model import Calibrations, MachineRates, System
from tierfetch.protocol import OperatorError

from .budget import Step
from .fit import NEEDED, fitted, refitted, seen
from .judge import judged
from .moving import NeverMovedError
from .progress import Left, about, left
from .record import Entry, Record
from .replacement import NeverJoinedError
from .scenario import Scenario
from .spread import Series, spread_of
from .stage import Labs, Stage
from .timing import Timing

FAILURES: Final = (
    TimeoutError,
    RuntimeError,
    OSError,
    subprocess.SubprocessError,
    KafkaException,
    OperatorError,
    click.ClickException,
)


class Session:
    """`console` shows progress; `record` keeps it; `labs` has the clusters."""

    def __init__(self, system: System, record: Record, machine: MachineRates, console: Console, labs: Labs) -> None:
        self.system = system
        self.record = record
        self.machine = machine
        self.console = console
        self._labs = labs
        self._topics = 0

    # --- scenarios --------------------------------------------------------------------------------------------------

    def calibrate(self, runs: int, scenarios: Sequence[Scenario]) -> None:
        """Run what is not in the record yet, and put the constants there. What failed stays as it was."""
        for scenario in self._not_completed(scenarios, runs):
            self._guarded(self.record.entry(scenario, self.system, is_test=False), runs)
        self.fit()

    def fit(self) -> None:
        tried = [entry for entry in self.record.calibration_runs if entry.system == self.system]
        entries = [entry for entry in tried if entry.runs]
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
            names = missing if found else [each.scenario.name for each in tried]
            self.console.print(
                f"[red]{self.system}: {', '.join(names)} was not run: predictions use older constants[/]"
            )
            return
        else:
            of_these = f"{usual.origin}; {', '.join(found)}: {origin}"
            calibration = refitted(usual, found).model_copy(update={"origin": of_these})
        systems = {**known.systems, self.system: calibration}
        self.record.calibrations = Calibrations(machine=self.machine, systems=systems)
        self.record.write()

    @property
    def is_tested(self) -> bool:
        """Whether any test scenario was run: the constants stay what they are from then on."""
        return any(entry.runs for entry in self.record.tests if entry.system == self.system)

    def test(self, scenarios: Sequence[Scenario], runs: int) -> None:
        for scenario in self._not_completed(scenarios, runs):
            self._guarded(self.record.entry(scenario, self.system, is_test=True), runs, predicts=True)

    def _not_completed(self, scenarios: Sequence[Scenario], runs: int) -> list[Scenario]:
        done = self.record.completed(runs)
        return [each for each in scenarios if (each.name, self.system) not in done]

    # --- one of them ------------------------------------------------------------------------------------------------

    def _guarded(self, entry: Entry, runs: int, *, predicts: bool = False) -> None:
        began = time.monotonic()
        expected_s = sum(self._left(entry, runs).seconds.values())
        self.console.print(f"[dim]{self.system}, {entry.scenario.text}: {about(expected_s)}[/]", highlight=False)
        try:
            with self._own_stage(entry) as stage:
                self._run(stage, entry, runs, predicts=predicts)
        except FAILURES as error:
            entry.failure = f"{type(error).__name__}: {error}"
            self.console.print(f"[red]{self.system}, {entry.scenario.name}: {entry.failure}[/]")
            self.record.write()
            return
        self._tell(entry, time.monotonic() - began)

    def _left(self, entry: Entry, runs: int) -> Left:
        return left([*self.record.calibration_runs, *self.record.tests], self.system, {entry.scenario: runs})

    @contextmanager
    def _own_stage(self, entry: Entry) -> Iterator[Stage]:
        with ExitStack() as stack:
            with self._spending(entry, Step.START):
                stage = stack.enter_context(self._labs.running(self.system, entry.scenario, self.machine))
            yield stage
            with self._spending(entry, Step.END):
                stack.close()

    @contextmanager
    def _spending(self, entry: Entry, step: Step) -> Iterator[None]:
        """Note how long the block takes, whether it ends well or not."""
        began = time.monotonic()
        try:
            yield
        finally:
            entry.spent_s[step] = entry.spent_s.get(step, 0.0) + time.monotonic() - began

    def _run(self, stage: Stage, entry: Entry, runs: int, *, predicts: bool) -> None:
        """What is missing of it."""
        if not entry.scenario.grows:
            with self._data(stage, entry) as topic, stage.load(topic):
                self._foresee(stage, entry, topic, predicts=predicts)
                self._warm_up(stage, entry, topic)
                while len(entry.runs) < runs:
                    self._measure(stage, entry, topic, looks_at_disk=not predicts)
            return
        with self._data(stage, entry) as topic:
            with stage.load(topic):
                self._foresee(stage, entry, topic, predicts=predicts)
            self._warm_up(stage, entry, topic)
        while len(entry.runs) < runs:
            with self._data(stage, entry) as topic:
                self._measure(stage, entry, topic, looks_at_disk=not predicts)

    @contextmanager
    def _data(self, stage: Stage, entry: Entry) -> Iterator[str]:
        """A topic that was never there before."""
        self._topics += 1
        topic = f"scenario{self._topics}"
        with ExitStack() as stack:
            with self._spending(entry, Step.DATA):
                stack.enter_context(stage.data(topic))
            yield topic

    def _foresee(self, stage: Stage, entry: Entry, topic: str, *, predicts: bool) -> None:
        """Into the record, before the first run; of a calibration only what it moves."""
        if entry.runs or not (predicts or entry.scenario.kind.is_rebalance):
            return
        with self._spending(entry, Step.PREDICTION):
            found = stage.foresee(topic, self.record.calibrations or Calibrations.default())
        self.record.predict(entry, found.forecast if predicts else None, found.plan)

    def _warm_up(self, stage: Stage, entry: Entry, topic: str) -> None:
        """Once in each cluster, which is kept apart: a leader's JVM is slow until it has done the same before."""
        with suppress(NeverJoinedError, NeverMovedError), self._spending(entry, Step.FIRST):
            took_s = stage.run(topic, entry.plan, looks_at_disk=False).start_to_isr_s
            entry.first_s = took_s if entry.first_s is None else entry.first_s

    def _measure(self, stage: Stage, entry: Entry, topic: str, *, looks_at_disk: bool) -> None:
        timing: Timing | None = None
        with suppress(NeverJoinedError, NeverMovedError), self._spending(entry, Step.RUNS):
            timing = stage.run(topic, entry.plan, looks_at_disk=looks_at_disk)
        self.record.measure(entry, timing)

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

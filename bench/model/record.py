"""The JSON document of a session: what was predicted, before what was measured; rewritten after every run.

A session that is cut off keeps all of it, and another process continues there, with the next run of a scenario that was
begun: `completed` are those of which none is missing.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from tierfetch.model import Calibrations, MachineRates, System

from ..measure import commit, machine
from .forecast import Forecast
from .scenario import Scenario
from .timing import Timing


@dataclass(slots=True)
class Entry:
    """One scenario of one system; `predicted_at` and `runs` in unix seconds and order. `failure`: why it was cut."""

    scenario: Scenario
    system: System
    predicted_at: float | None = None
    forecast: Forecast | None = None
    runs: list[Timing | None] = field(default_factory=list)
    """None: it never joined."""
    loads: list[float] = field(default_factory=list)
    first_s: float | None = None
    """The run before those that are measured."""
    failure: str = ""
    plan: Mapping[str, Any] | None = None
    """What a rebalance moves, as the file of a plan has it: each of its runs moves the same."""
    spent_s: dict[str, float] = field(default_factory=dict)
    """Seconds by step (`progress.Step`), of all attempts."""

    @property
    def seconds(self) -> list[float]:
        return [math.inf if run is None else run.start_to_isr_s for run in self.runs]


class Record:
    """Everything of a session, in its file from the first moment on."""

    def __init__(self, path: Path, command: str) -> None:
        self.path = path
        self.command = command
        self.commit = commit()
        self.machine = machine()
        self.began_at = time.time()
        self.calibrations: Calibrations | None = None
        self.calibration_runs: list[Entry] = []
        self.tests: list[Entry] = []
        self.seed: int | None = None
        """That the tests were drawn from; None: they were chosen."""
        self.rates: MachineRates | None = None
        """What the machine can do, as it was measured when the session began."""
        self.is_finished = False
        """Whether everything was run, or failed."""

    def entry(self, scenario: Scenario, system: System, *, is_test: bool) -> Entry:
        """Return the scenario's: that which was begun, with its prediction and runs, or a new one."""
        entries = self.tests if is_test else self.calibration_runs
        for entry in entries:
            if (entry.scenario.name, entry.system) == (scenario.name, system):
                entry.failure = ""
                return entry
        entries.append(Entry(scenario, system))
        return entries[-1]

    def continued(self) -> None:
        """Another process continues it; the commit of its code is added where that is another one."""
        self.is_finished = False
        if commit() not in self.commit.split(", then "):
            self.commit += f", then {commit()}"

    def predict(self, entry: Entry, forecast: Forecast | None, plan: Mapping[str, Any] | None = None) -> None:
        """Into the file, before anything is measured. None of a calibration, which is not predicted."""
        assert not entry.runs, f"{entry.scenario.name} was run already"
        entry.forecast, entry.plan = forecast, plan
        entry.predicted_at = None if forecast is None else time.time()
        self.write()

    def measure(self, entry: Entry, timing: Timing | None) -> None:
        entry.runs.append(timing)
        entry.loads.append(os.getloadavg()[0])
        self.write()

    def write(self) -> None:
        """At once or not at all: a reader never sees half of it."""
        document = {
            "command": self.command,
            "commit": self.commit,
            "machine": self.machine,
            "began_at": self.began_at,
            "seed": self.seed,
            "is_finished": self.is_finished,
            "rates": None if self.rates is None else self.rates.model_dump(mode="json"),
            "calibrations": None if self.calibrations is None else self.calibrations.model_dump(mode="json"),
            "calibration_runs": [_plain(asdict(entry)) for entry in self.calibration_runs],
            "tests": [_plain(asdict(entry)) for entry in self.tests],
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")
        new.replace(self.path)

    @classmethod
    def read(cls, path: Path) -> Self:
        """OSError; ValueError or KeyError for a file that is none."""
        document = json.loads(path.read_text())
        record = cls(path, document["command"])
        record.commit, record.machine = document["commit"], document["machine"]
        record.began_at = document["began_at"]
        record.seed = document.get("seed")
        record.is_finished = document.get("is_finished", True)
        if document.get("rates") is not None:
            record.rates = MachineRates.model_validate(document["rates"])
        if document["calibrations"] is not None:
            record.calibrations = Calibrations.model_validate(document["calibrations"])
        record.calibration_runs = [_entry(each) for each in document["calibration_runs"]]
        record.tests = [_entry(each) for each in document["tests"]]
        return record

    def completed(self, runs: int) -> set[tuple[str, System]]:
        """Names and systems of the scenarios, of either kind, with so many runs."""
        return {
            (entry.scenario.name, entry.system)
            for entry in (*self.calibration_runs, *self.tests)
            if len(entry.runs) >= runs
        }


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: it has no infinity."""
    if isinstance(value, float) and math.isinf(value):
        return "never"
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def _entry(document: Mapping[str, Any]) -> Entry:
    forecast = document["forecast"]
    return Entry(
        scenario=Scenario.of(document["scenario"]),
        system=document["system"],
        predicted_at=document["predicted_at"],
        forecast=None if forecast is None else Forecast(**{key: _number(each) for key, each in forecast.items()}),
        first_s=_number(document.get("first_s")),
        runs=[None if run is None else Timing(**run) for run in document["runs"]],
        loads=document["loads"],
        failure=document["failure"],
        plan=document.get("plan"),
        spent_s=document.get("spent_s") or {},
    )


def _number(value: Any) -> Any:
    return math.inf if value == "never" else value

"""The JSON document of a session: what was predicted, before what was measured; rewritten after every run.

A session that is cut off keeps all of it, and another one continues from there: `completed` is what it need not repeat.
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

from tierfetch.model import Calibrations, System

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

    def entry(self, scenario: Scenario, system: System, *, is_test: bool) -> Entry:
        entry = Entry(scenario, system)
        (self.tests if is_test else self.calibration_runs).append(entry)
        return entry

    def predict(self, entry: Entry, forecast: Forecast) -> None:
        """Into the file, before anything is measured."""
        assert not entry.runs, f"{entry.scenario.name} was run already"
        entry.forecast, entry.predicted_at = forecast, time.time()
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

    def forget_unfinished(self, calibration_runs: int, runs: int) -> None:
        """What is begun is begun again."""
        self.calibration_runs = [entry for entry in self.calibration_runs if len(entry.runs) >= calibration_runs]
        self.tests = [entry for entry in self.tests if len(entry.runs) >= runs]


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
    )


def _number(value: Any) -> Any:
    return math.inf if value == "never" else value

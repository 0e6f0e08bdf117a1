"""What a session runs its scenarios on: clusters of its own, one for each. A port; `live` has the real ones.

Labs     starts them, and knows the machine
Stage    one that runs: data of a scenario, its load, a prediction, one run after the other
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tierfetch.model import Calibrations, MachineRates, System

from .forecast import Forecast
from .scenario import Scenario
from .timing import Timing


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What is known of a scenario before its first run. `plan`: the JSON of what a rebalance moves."""

    forecast: Forecast | None
    plan: Mapping[str, Any] | None = None


class Stage(Protocol):
    """The cluster of one scenario."""

    def data(self, topic: str) -> AbstractContextManager[None]:
        """The topic with its data, at rest; what was there before is deleted."""
        ...

    def load(self, topic: str) -> AbstractContextManager[None]:
        """Producers, if the scenario has any."""
        ...

    def foresee(self, topic: str, calibrations: Calibrations) -> Foreseen:
        """Predict what comes."""
        ...

    def run(self, topic: str, plan: Mapping[str, Any] | None, *, looks_at_disk: bool) -> Timing:
        """Do it once. NeverJoinedError or NeverMovedError where it has no end."""
        ...


class Labs(Protocol):
    """Starts stages, one at a time."""

    def machine(self, scratch: Path) -> MachineRates:
        """Measure what the machine can do, in this directory."""
        ...

    def running(self, system: System, scenario: Scenario, machine: MachineRates) -> AbstractContextManager[Stage]:
        """A new cluster as long as the block lasts."""
        ...

"""Clusters of a session that take no time, and at which a session may be stopped at any step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierfetch.bench.model.forecast import Forecast
from tierfetch.bench.model.moving import NeverMovedError
from tierfetch.bench.model.scenario import Scenario
from tierfetch.bench.model.stage import Foreseen
from tierfetch.bench.model.timing import Timing
from tierfetch.model.calibration import Calibrations, MachineRates, System

MACHINE = MachineRates(
    cores=2,
    loopback_bytes_per_s=1e9,
    disk_read_bytes_per_s=1e9,
    disk_write_bytes_per_s=1e9,
    fsync_s=0.001,
    crc_bytes_per_s=1e9,
)


def timing(seconds: float) -> Timing:
    return Timing(
        start_to_isr_s=seconds,
        first_data_s=0.0,
        all_data_s=0.0,
        fenced_s=0.0,
        copied_bytes=0,
        leader_cpu_s=0.0,
        follower_cpu_s=0.0,
    )


@dataclass
class FakeLabs:
    """`steps` of all clusters, in order; `before` is called with the number of each, and may stop the session there."""

    before: Callable[[int], None] = lambda _: None
    steps: list[tuple[str, str]] = field(default_factory=list)
    open_clusters: int = 0
    runs: int = 0
    foreseen: int = 0
    hopeless: frozenset[str] = frozenset()
    """Scenarios whose runs never end."""
    machines: int = 0

    def step(self, what: str, scenario: Scenario) -> None:
        self.before(len(self.steps))
        self.steps.append((what, scenario.name))

    def machine(self, scratch: Path) -> MachineRates:
        self.machines += 1
        return MACHINE

    @contextmanager
    def running(self, system: System, scenario: Scenario, machine: MachineRates) -> Iterator[FakeStage]:
        assert machine == MACHINE
        self.step("start", scenario)
        assert not self.open_clusters, "two at once would share two cores"
        self.open_clusters += 1
        try:
            yield FakeStage(self, scenario)
        finally:
            self.open_clusters -= 1


@dataclass
class FakeStage:
    labs: FakeLabs
    scenario: Scenario
    topics: list[str] = field(default_factory=list)
    is_loaded: bool = False
    has_run: bool = False

    @contextmanager
    def data(self, topic: str) -> Iterator[None]:
        self.labs.step("data", self.scenario)
        assert topic not in self.topics
        self.topics.append(topic)
        yield

    @contextmanager
    def load(self, topic: str) -> Iterator[None]:
        assert topic == self.topics[-1]
        self.is_loaded = True
        yield
        self.is_loaded = False

    def foresee(self, topic: str, calibrations: Calibrations) -> Foreseen:
        """Each time another prediction, and another plan."""
        self.labs.step("foresee", self.scenario)
        assert self.is_loaded
        assert not self.has_run
        self.labs.foreseen += 1
        plan = {"version": 1, "number": self.labs.foreseen} if self.scenario.kind.is_rebalance else None
        return Foreseen(Forecast(float(self.labs.foreseen), 0.0), plan)

    def run(self, topic: str, plan: Mapping[str, Any] | None, *, looks_at_disk: bool) -> Timing:
        self.labs.step("run" if self.has_run else "first run", self.scenario)
        assert topic == self.topics[-1]
        assert (plan is not None) == self.scenario.kind.is_rebalance
        assert self.is_loaded == (not self.scenario.grows)
        self.has_run = True
        self.labs.runs += 1
        if self.scenario.name in self.labs.hopeless:
            raise NeverMovedError("never")
        return timing(float(self.labs.runs))

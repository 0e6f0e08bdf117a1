"""How a run becomes a report, whatever it ends with; scenarios are faked."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tierfetch.log.disk import Disk
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.sim.faults.schedule import Fault, FaultKind, Schedule, UnfitScheduleError
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios import runner
from tierfetch.sim.scenarios.report import REPORTS, Tallies

CRASH = Fault(100, FaultKind.PROCESS_CRASH, ("broker-1",), 50)


class FakeRun:
    """Ends with `error`, or finds `found`; fails with CRASH in its schedule if told nothing."""

    error: BaseException | None = None
    unawaited: Exception | None = None

    def __init__(self, world: World, schedule: Schedule | None) -> None:
        self.world = world
        self.schedule = schedule or Schedule(1_000, (CRASH, Fault(200, FaultKind.PAUSE, ("broker-2",), 50)))

    def run(self) -> None:
        self.world.run(asyncio.sleep(3))
        if self.unawaited is not None:
            self.world.host("broker-1")
            self.world.loop.call_exception_handler({"message": "broker-1 failed", "exception": self.unawaited})
        if self.error is not None:
            raise self.error

    def findings(self) -> list[str]:
        return ["lost write: t-0"] if CRASH in self.schedule.faults else []

    def option_texts(self) -> dict[str, str]:
        return {"partitions": "1"}

    def tallies(self) -> Tallies:
        return Tallies({"pause": 1}, 3, 2, 1)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeRun]:
    run = type("Fake", (FakeRun,), {})
    monkeypatch.setattr(runner, "SCENARIOS", {"fake": run})
    return run


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InvariantViolationError("no divergence", "t-0: node 2"), "no divergence: t-0: node 2"),
        (KeyError("x"), "KeyError: 'x'"),
        (asyncio.CancelledError("why"), "CancelledError: why"),
    ],
)
def test_whatever_a_run_ends_with_is_a_line(fake: type[FakeRun], error: BaseException, line: str) -> None:
    fake.error = error
    assert runner.run_seed(1).failures == (line,)


def test_what_is_found_at_the_end(fake: type[FakeRun]) -> None:
    report = runner.run_seed(1)
    assert report.failures == ("lost write: t-0",)
    assert (report.scenario, report.virtual_s, report.injected) == ("fake", 3.0, {"pause": 1})
    assert (report.records_acknowledged, report.records_checked, report.records_excused) == (3, 2, 1)
    assert REPORTS.validate_json(REPORTS.dump_json([report])) == [report]


@pytest.mark.parametrize(
    ("error", "is_a_fault"),
    [(KafkaError(ErrorCode.kafka_storage_error, "the disk is full"), False), (AssertionError("ours"), True)],
)
def test_a_process_may_end_because_its_disk_fails(fake: type[FakeRun], error: Exception, is_a_fault: bool) -> None:
    fake.unawaited = error
    report = runner.run_seed(1, schedule=Schedule(1_000))
    assert report.has_failed is is_a_fault


@pytest.mark.parametrize("scenario", ["cluster", "quorum"])
def test_a_schedule_for_other_nodes_does_not_pass(scenario: str) -> None:
    with pytest.raises(UnfitScheduleError, match="broker-7"):
        runner.run_seed(1, scenario, schedule=Schedule(1_000, (Fault(100, FaultKind.PAUSE, ("broker-7",), 50),)))


@pytest.mark.parametrize(
    ("failure", "lines"),
    [
        ("committed never lost: side-1-0: node 2 ends at 4", ["leads side-1-0", "begin pause", "side-1-0 is cut"]),
        ("busy when idle: broker-2: 900 events", ["begin pause", "broker-2"]),
        ("KeyError: 'x'", []),
    ],
    ids=["a partition", "a host", "neither"],
)
def test_a_report_says_what_led_up_to_its_failure(
    monkeypatch: pytest.MonkeyPatch, failure: str, lines: list[str]
) -> None:
    class Run(FakeRun):
        def run(self) -> None:
            self.world.run(asyncio.sleep(1))
            for host, text in (
                ("broker-1", "leads side-1-0"),
                ("faults", "begin pause"),
                ("broker-2", "leads side-1-1"),
                ("broker-1", "side-1-0 is cut"),
            ):
                self.world.record(host, text)

        def findings(self) -> list[str]:
            return [failure]

    monkeypatch.setattr(runner, "SCENARIOS", {"fake": Run})
    found = runner.run_seed(1).leading_up
    assert len(found) == len(lines)
    assert all(text in line for text, line in zip(lines, found, strict=True))


@pytest.mark.slow
def test_a_failure_is_shrunk_to_what_matters(fake: type[FakeRun]) -> None:
    shrunk = runner.shrink_failure(runner.run_seed(1), runs_max=20)
    assert shrunk is not None
    assert [fault.kind for fault in shrunk.schedule.faults] == [FaultKind.PROCESS_CRASH]


class Quitter:
    """Ends when it is told to, once it has tried its disk."""

    def __init__(self, disk: Disk, reason: str) -> None:
        self._disk = disk
        self.reason = reason

    async def __aenter__(self) -> Quitter:
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def give_up(self) -> None:
        with suppress(OSError):
            await self._disk.make_directory(Path("/data"))
        self.failed.set_result(self.reason)


@pytest.mark.parametrize(
    ("reason", "is_disk_broken", "is_excused"),
    [
        ("the log failed", False, False),
        ("the log failed", True, True),
        ("internal error in quorum-log: AssertionError('x'); restart the node", True, False),
    ],
)
def test_a_node_that_gives_up_on_a_sound_disk_fails_its_run(
    monkeypatch: pytest.MonkeyPatch, reason: str, is_disk_broken: bool, is_excused: bool
) -> None:
    class Run(FakeRun):
        def run(self) -> None:
            self.world.run(self._run())

        async def _run(self) -> None:
            host = self.world.host("broker-1")
            await host.start(lambda machine: Quitter(machine.disk, reason))
            await asyncio.sleep(1)
            host.disk_faults.error_share = float(is_disk_broken)
            await host.node.give_up()
            await asyncio.sleep(1)

        def findings(self) -> list[str]:
            return []

    monkeypatch.setattr(runner, "SCENARIOS", {"fake": Run})
    report = runner.run_seed(1, "fake")
    assert report.failures == (() if is_excused else (f"stopped by itself: broker-1: {reason}",))
    assert report.injected.get("disk make_directory failed", 0) == is_disk_broken

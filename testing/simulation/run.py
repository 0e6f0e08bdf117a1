"""`simulated` runs an application in a simulated cluster with one seed, and explains what fails.

    run the seed -> it passes: `SimulatedRun`
                 -> it fails: run it again with ever fewer faults (sim/faults/shrink.py)
                    -> `SimulatedFailure`, an AssertionError: what failed and where, the faults that are left, the last
                       lines of that run's trace, and the call that repeats it

Everything that a run depends on is in its seed, its faults and the application; the run of a failure is compared with
its repetition (`digest`), and a difference is reported as a failure of its own.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from ...light_dataclass import dataclass
from ...protocol import InternalError, OperatorError
from ...sim.faults import KINDS, Schedule, kinds_named, shrink_schedule
from ...sim.machine import World
from ...sim.scenarios import ApplicationFailedError, ApplicationScenario, ClusterFailedError, Place, Play
from .client import repeatable_client
from .node import SimulatedNode

Application = Callable[[SimulatedNode], Coroutine[Any, Any, object]]
Faults = Schedule | Collection[str] | None

SHRINK_RUNS: Final = 25
LINES_SHOWN: Final = 12
LINES_KEPT: Final = 2_000
LINE_CHARACTERS_MAX: Final = 160
QUIET: Final = ("metadata ",)
"""How lines begin that a failure does not show: there are too many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """What one run was. Times in seconds, of the world and of this process; `digest` is the same for runs that were the
    same in every event; `starts` says how often each host of the application was started, `injected` how often each
    fault happened.
    """

    seed: int
    schedule: Schedule
    virtual_s: float
    cpu_s: float
    events: int
    digest: str
    starts: dict[str, int]
    injected: dict[str, int]
    lines: tuple[str, ...]
    """The last lines of the trace."""
    failure: str | None = None
    """What failed, in one line; None if nothing did."""
    where: str = ""
    """The trace of the exception that failed."""


class SimulatedFailure(AssertionError):
    """The application failed with this seed; the message explains it. `schedule` has the faults that are left."""

    def __init__(self, run: SimulatedRun, text: str) -> None:
        super().__init__(text)
        self.run = run
        self.schedule = run.schedule


def simulated(
    application: Application,
    *,
    seed: int,
    faults: Faults = None,
    topics: Mapping[str, int] | None = None,
    topic_configs: Mapping[str, str] | None = None,
    instances: int = 1,
    drive: Application | None = None,
    check: Application | None = None,
    faults_s: float = 30.0,
    settle_s: float = 30.0,
    limit_s: float = 600.0,
    shrinks: bool = True,
    sink: Callable[[str], None] | None = None,
) -> SimulatedRun:
    """Run `application` on so many simulated hosts, under the faults of a seed; raise SimulatedFailure if it, `drive`
    or `check` raises anything but an error of Kafka or of the system.

    The application is killed and started again at any time: what it keeps is in Kafka and on `node.disk`. `topics` are
    made before, with these numbers of partitions. `drive` runs beside it from the beginning, and is only cut off at
    times. `check` runs when the faults are over, `drive` has ended and `settle_s` have passed; without one every
    instance must return by itself. `faults`: names of kinds to draw from, () for none, or a `Schedule`. Times are
    virtual.
    """
    play = Play(
        application=_role(application),
        topics=dict(topics or {}),
        instances=instances,
        drive=None if drive is None else _role(drive),
        check=None if check is None else _role(check),
        may_exit=_may_exit,
        kinds=KINDS if faults is None or isinstance(faults, Schedule) else kinds_named(faults),
        faults_s=faults_s,
        settle_s=settle_s,
        limit_s=limit_s,
        topic_configs=dict(topic_configs or {}),
    )
    _check(play, faults)
    run = run_once(play, seed, faults if isinstance(faults, Schedule) else None, sink)
    if run.failure is None:
        return run
    raise _explained(play, run, shrinks=shrinks)


def run_once(
    play: Play, seed: int, schedule: Schedule | None = None, sink: Callable[[str], None] | None = None
) -> SimulatedRun:
    """Run a play once, and say what failed."""
    began_s = time.process_time()
    lines: deque[str] = deque(maxlen=LINES_KEPT)

    def keep(line: str) -> None:
        lines.append(line)
        if sink is not None:
            sink(line)

    with World(seed, sink=keep) as world:
        scenario = ApplicationScenario(world, play, schedule)
        failure, where = _outcome(scenario)
        if failure is not None:
            world.say("judge", failure)
        return SimulatedRun(
            seed=seed,
            schedule=scenario.schedule,
            virtual_s=world.now_s,
            cpu_s=time.process_time() - began_s,
            events=world.loop.events,
            digest=world.digest(),
            starts=dict(scenario.starts),
            injected=dict(scenario.injector.injected),
            lines=tuple(lines),
            failure=failure,
            where=where,
        )


def _outcome(scenario: ApplicationScenario) -> tuple[str | None, str]:
    """Run it; return what failed and where, or None."""
    failure, where = None, ""
    try:
        with repeatable_client():
            scenario.run()
    except ApplicationFailedError as failed:
        failure, where = str(failed), _trace(failed.error)
    except ClusterFailedError as violation:
        failure = f"the cluster failed, not the application; please report it: {violation}"
    except InternalError as error:
        failure = f"{type(error).__name__}: {error}"
    refused = scenario.world.loop.refused
    if refused:  # whatever else failed is a consequence
        return refused[0], where
    ours = scenario.cluster_failures()
    if ours:
        return f"the cluster failed, not the application; please report it: {ours[0]}", where
    return failure, where


def _explained(play: Play, run: SimulatedRun, *, shrinks: bool) -> SimulatedFailure:
    """Return the failure with as few faults as were found to suffice."""
    runs: dict[Schedule, SimulatedRun] = {}

    def fails(schedule: Schedule) -> bool:
        again = runs[schedule] = run_once(play, run.seed, schedule)
        return again.failure is not None

    shrunk = shrink_schedule(run.schedule, fails, runs_max=SHRINK_RUNS) if shrinks and run.schedule.faults else None
    if shrinks and run.schedule.faults and runs[run.schedule].digest != run.digest:
        return SimulatedFailure(
            run,
            f"seed {run.seed}: {run.failure}\n{run.where}"
            "It ran differently when it was repeated: the application depends on more than its seed. Look for "
            "state that outlives a run (globals, files, caches), and for sets of objects that hash by address.",
        )
    smallest = run if shrunk is None else runs[shrunk.schedule]
    return SimulatedFailure(smallest, _text(run, smallest, 0 if shrunk is None else shrunk.runs))


def _text(run: SimulatedRun, smallest: SimulatedRun, runs: int) -> str:
    faults = smallest.schedule.faults
    count = f"{len(faults)} of its {len(run.schedule.faults)} faults (found in {runs} runs)" if runs else "its faults"
    shown = [line for line in smallest.lines if not line[14:].startswith(QUIET)][-LINES_SHOWN:]
    parts = [
        f"seed {run.seed}: {smallest.failure}",
        smallest.where.rstrip(),
        f"with {count}:" if faults else "without any fault:",
        *(f"  {fault}" for fault in faults),
        "the last that happened (virtual seconds, host):",
        *(f"  {line[:LINE_CHARACTERS_MAX]}" for line in shown),
        f"repeat it: simulated(..., seed={run.seed}" + (f", faults={_call(smallest.schedule)})" if runs else ")"),
    ]
    return "\n".join(part for part in parts if part)


def _call(schedule: Schedule) -> str:
    text = "".join(line.strip() for line in schedule.to_json().splitlines())
    return f"Schedule.from_json('{text}')"


def _trace(error: BaseException) -> str:
    """Return where an error was raised, from the application's own first line on."""
    frames = traceback.extract_tb(error.__traceback__)
    package = str(Path(__file__).resolve().parents[2] / "sim")
    own = [frame for frame in frames if not frame.filename.startswith(package)]
    return "".join(traceback.format_list(own)) + "".join(traceback.format_exception_only(error))


def _role(application: Application) -> Callable[[Place], Coroutine[Any, Any, object]]:
    return partial(_play_role, application)


async def _play_role(application: Application, place: Place) -> object:
    return await application(SimulatedNode(place))


def _may_exit(error: BaseException) -> bool:
    """Whether an application may end with this: its supervisor starts it again."""
    from aiokafka.errors import KafkaError

    return isinstance(error, KafkaError | OSError | TimeoutError)


def _check(play: Play, faults: Faults) -> None:
    """Raise OperatorError for what cannot be run."""
    try:
        import aiokafka  # noqa: F401
    except ImportError as error:
        raise OperatorError("simulated applications use aiokafka, which is missing: pip install aiokafka") from error
    if play.instances < 1:
        raise OperatorError(f"instances is {play.instances}: an application runs on one host at least")
    bad = {name: count for name, count in play.topics.items() if count < 1}
    if bad:
        raise OperatorError(f"topics {bad}: a topic has one partition at least")
    if isinstance(faults, Schedule):
        kinds_named({str(fault.kind) for fault in faults.faults})
    elif play.faults_s < 5:
        raise OperatorError(f"faults_s is {play.faults_s}: give faults 5 virtual seconds at least, or faults=()")

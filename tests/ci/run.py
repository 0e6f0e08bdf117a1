"""Runs the suites one after the other, each within its limit, and prints what they came to.

    for each suite: run it -> read its report -> run what failed once more, alone -> judge
    print the table; the exit status is 1 if anything is red

A suite that is stopped gets an interrupt first, so that pytest ends its fixtures (brokers run in sessions of their own
and would stay), and is killed with its process group if that does not help.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from .exit_status import PLUGIN, STATUS_VARIABLE
from .report import read_report
from .suites import Suite
from .verdict import Ending, Outcome, judge, not_begun, summary, to_run_again

GRACE_S: Final = 30.0
AGAIN_LIMIT_S: Final = 15 * 60


@dataclass(frozen=True)
class Place:
    """Where suites run."""

    root: Path
    pytest: tuple[str, ...]
    """The command that runs tests again."""
    total_limit_s: float
    aim_s: float
    """A suite that needs time is begun only if it ends before this, at the latest."""
    grace_s: float = GRACE_S


def run_suites(suites: Sequence[Suite], place: Place) -> int:
    """Run them all, print the summary, and return the exit status."""
    began_s = time.monotonic()
    outcomes: list[Outcome] = []
    for suite in suites:
        spent_s = time.monotonic() - began_s
        left_s = place.total_limit_s - spent_s
        say(f"\n=== {suite.name}: {' '.join(suite.command)}\n")
        if left_s <= 0 or (suite.needs_time and spent_s + suite.limit_s > place.aim_s):
            outcomes.append(not_begun(suite))
            continue
        outcomes.append(run_suite(replace(suite, limit_s=min(suite.limit_s, left_s)), place))
    say("\n" + "\n".join(summary(outcomes, time.monotonic() - began_s)) + "\n")
    return int(any(outcome.is_red and outcome.decides for outcome in outcomes))


def run_suite(suite: Suite, place: Place) -> Outcome:
    """Run one suite, and what failed of it once more."""
    began_s = time.monotonic()
    ending = attempt(suite.command, suite.limit_s, place)
    passed_again = set[str]()
    for test in to_run_again(ending):
        left_s = min(AGAIN_LIMIT_S, began_s + suite.limit_s - time.monotonic())
        say(f"\n=== {suite.name}, again: {test}\n")
        again = attempt((*place.pytest, "-m", "", "--timeout", f"{AGAIN_LIMIT_S}", test), left_s, place)
        if again.status == 0 and again.report is not None and test in again.report.passed:
            passed_again.add(test)
    ending = replace(ending, seconds=time.monotonic() - began_s)
    return judge(suite, ending, frozenset(passed_again))


def attempt(command: Sequence[str], limit_s: float, place: Place) -> Ending:
    """Run a command, with pytest below it told where to leave its report."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tierfetch-ci-") as name:
        report, pytest_status = Path(name, "report.xml"), Path(name, "status")
        # The second -q leaves out pytest's closing line: the only one is at the end, and counts everything once.
        options = f"{os.environ.get('PYTEST_ADDOPTS', '')} -q -p {PLUGIN} --junitxml={shlex.quote(str(report))}"
        environment = {**os.environ, "PYTEST_ADDOPTS": options, STATUS_VARIABLE: str(pytest_status)}
        status = run_within(command, limit_s, place, environment)
        return Ending(
            seconds=time.monotonic() - began_s,
            status=status,
            pytest_status=int(pytest_status.read_text()) if pytest_status.exists() else None,
            report=read_report(report, lambda path: (place.root / path).is_file()),
        )


def run_within(command: Sequence[str], limit_s: float, place: Place, environment: Mapping[str, str]) -> int | None:
    """Return the exit status of a command, or None if it was stopped after `limit_s` seconds."""
    running = subprocess.Popen(
        command, cwd=place.root, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return running.wait(max(0.0, limit_s))
    except subprocess.TimeoutExpired:
        say(f"\n=== stopped after {limit_s:.0f} seconds\n")
        return None
    finally:
        end_group(running, place.grace_s)


def end_group(leader: subprocess.Popen[bytes], grace_s: float) -> None:
    """End what is left of a process group: all of it at a time limit, else what was started and not waited for."""
    for number in (signal.SIGINT, signal.SIGKILL):
        deadline_s = time.monotonic() + grace_s
        try:
            os.killpg(leader.pid, number)
            while time.monotonic() < deadline_s:
                leader.poll()
                os.killpg(leader.pid, 0)
                time.sleep(0.05)
        except ProcessLookupError:
            return


def say(text: str) -> None:
    """Print at once: the suites write to the same output."""
    sys.stdout.write(text)
    sys.stdout.flush()

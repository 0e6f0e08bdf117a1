"""How a suite ended, decided from what its runs left; and the table of all of them. No I/O here.

A suite is red if a test failed and failed again, or if there is a complaint about the suite as a whole: it took too
long, it ended otherwise than by its tests, it ran too few of them, or it skipped what CI is there to run. A test that
passes when run again, alone, is flaky: the suite stays green, and the test is named at the end as the bug that it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from .report import Report
from .suites import Suite

AGAIN_MAX: Final = 10
"""More failures than this are no accident, and are not run again."""
_PYTEST_STATUS = {
    2: "a module could not be collected, or it was interrupted",
    3: "an internal error",
    4: "a usage error",
    5: "no tests",
}


@dataclass(frozen=True)
class Ending:
    """How the first run of a suite ended. Statuses are None where it had to be stopped, or left none."""

    seconds: float
    status: int | None = None
    """Of the command."""
    pytest_status: int | None = None
    report: Report | None = None


@dataclass(frozen=True)
class Outcome:
    """A row of the table."""

    name: str
    seconds: float
    passed: int = 0
    """Flaky ones included."""
    failed: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    reasons: dict[str, str] = field(default_factory=dict)
    """Why tests failed the first time, as far as that is known."""
    skipped: dict[str, str] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()
    decides: bool = True

    @property
    def is_red(self) -> bool:
        return bool(self.failed or self.complaints)

    @property
    def failures(self) -> int:
        """A complaint counts as a failure: nothing red adds up to "0 failed"."""
        return len(self.failed) + len(self.complaints)


def to_run_again(ending: Ending) -> list[str]:
    """Return the failed tests that get a second chance, in order: none if there are many, or the suite was stopped."""
    if ending.status is None or ending.report is None or len(ending.report.failed) > AGAIN_MAX:
        return []
    return sorted(ending.report.failed)


def not_begun(suite: Suite) -> Outcome:
    """Return the row of a suite for which no time, or not enough of it, was left."""
    reason = "not begun: the time for all suites was over"
    if suite.needs_time:
        return Outcome(suite.name, 0.0, skipped={suite.name: reason})
    return Outcome(suite.name, 0.0, complaints=(reason,), decides=suite.decides)


def judge(suite: Suite, ending: Ending, passed_again: frozenset[str] = frozenset()) -> Outcome:
    """Return the row of a suite; `passed_again` are those of `to_run_again` that passed the second time."""
    if not suite.runs_tests:
        complaints = _command_complaints(suite, ending)
        return Outcome(
            suite.name, ending.seconds, passed=0 if complaints else 1, complaints=complaints, decides=suite.decides
        )
    report = ending.report or Report(frozenset(), {}, {})
    flaky = report.failed.keys() & passed_again
    passed = len(report.passed) + len(flaky)
    return Outcome(
        suite.name,
        ending.seconds,
        passed,
        failed=tuple(sorted(report.failed.keys() - flaky)),
        flaky=tuple(sorted(flaky)),
        reasons=report.failed,
        skipped=report.skipped,
        complaints=tuple(_test_complaints(suite, ending, report)),
        decides=suite.decides,
    )


def _command_complaints(suite: Suite, ending: Ending) -> tuple[str, ...]:
    if ending.status is None:
        return (f"stopped after its limit of {suite.limit_s:.0f} s",)
    return (f"`{' '.join(suite.command)}` ended with status {ending.status}",) if ending.status else ()


def _test_complaints(suite: Suite, ending: Ending, report: Report) -> list[str]:
    if ending.status is None:
        return list(_command_complaints(suite, ending))
    if ending.report is None or ending.pytest_status is None:
        return [f"no report: `{' '.join(suite.command)}` ended with status {ending.status}"]
    found: list[str] = []
    if ending.pytest_status != int(bool(report.failed)):
        why = _PYTEST_STATUS.get(ending.pytest_status, f"{len(report.failed)} failures in its report")
        found.append(f"pytest ended with status {ending.pytest_status}: {why}")
    elif ending.status != 0 and not report.failed:
        found.append(f"`{' '.join(suite.command)}` ended with status {ending.status}, though all tests passed")
    if (ran := len(report.passed) + len(report.failed)) < suite.tests_min:
        found.append(f"{ran} tests ran where at least {suite.tests_min} are expected")
    if not suite.may_skip:
        found += [f"skipped here: {test}: {reason}" for test, reason in sorted(report.skipped.items())[:AGAIN_MAX]]
    return found


_ROW: Final = "{:<12}{:>8}{:>8}{:>8}{:>9}{:>9}"


def summary(outcomes: Sequence[Outcome], seconds: float) -> list[str]:
    """Return the lines that end a run of CI. The last one is in pytest's words, for programs that read them."""
    passed = sum(one.passed for one in outcomes)
    failed = sum(one.failures for one in outcomes)
    flaky = sum(len(one.flaky) for one in outcomes)
    skipped = sum(len(one.skipped) for one in outcomes)
    return [
        _ROW.format("suite", "passed", "failed", "flaky", "skipped", "minutes"),
        *(
            _ROW.format(one.name, one.passed, one.failures, len(one.flaky), len(one.skipped), f"{one.seconds / 60:.1f}")
            + (("  FAILED" if one.decides else "  failed, only reports") if one.is_red else "")
            for one in outcomes
        ),
        _ROW.format("all", passed, failed, flaky, skipped, f"{seconds / 60:.1f}"),
        "",
        *(line for one in outcomes for line in _details(one)),
        f"{passed} passed, {failed} failed, {skipped} skipped",
    ]


def _details(outcome: Outcome) -> list[str]:
    name = outcome.name
    return [
        *(f"skipped in {name}: {reason}" for reason in sorted(set(outcome.skipped.values()))),
        *_with_reasons(outcome, f"FLAKY in {name} (failed, then passed alone: a bug to be found)", outcome.flaky),
        *_with_reasons(outcome, f"FAILED in {name}", outcome.failed),
        *(f"FAILED {name}: {complaint}" for complaint in outcome.complaints),
    ]


def _with_reasons(outcome: Outcome, what: str, tests: Sequence[str]) -> Iterator[str]:
    """Yield a line for each test, and below it why it failed."""
    for test in tests:
        yield f"{what}: {test}"
        if reason := outcome.reasons.get(test):
            yield f"    {reason}"

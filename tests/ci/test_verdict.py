"""What makes a suite red, what makes a test flaky, and what the summary says."""

from __future__ import annotations

import pytest

from tierfetch.tests.ci.report import Report
from tierfetch.tests.ci.suites import Suite
from tierfetch.tests.ci.verdict import AGAIN_MAX, Ending, Outcome, judge, not_begun, summary, to_run_again

SUITE = Suite("some", ("make", "test-some"), 600.0, tests_min=2)
COMMAND = Suite("check", ("make", "check"), 600.0, runs_tests=False)


def report(passed: str = "ab", failed: str = "", skipped: str = "") -> Report:
    return Report(frozenset(passed), dict.fromkeys(failed, "too late"), dict.fromkeys(skipped, "no Java"))


def ended(status: int = 0, **tests: str) -> Ending:
    """How make and pytest end when tests pass or fail."""
    return Ending(60.0, status=2 if status else 0, pytest_status=status, report=report(**tests))


def test_tests_that_pass_make_a_green_suite() -> None:
    assert judge(SUITE, ended()) == Outcome("some", 60.0, passed=2)


def test_a_test_that_fails_twice_makes_it_red() -> None:
    outcome = judge(SUITE, ended(1, failed="cd"), frozenset("d"))
    assert (outcome.passed, outcome.failed, outcome.flaky, outcome.complaints) == (3, ("c",), ("d",), ())
    assert outcome.is_red


def test_a_test_that_passes_when_run_again_is_flaky_and_leaves_it_green() -> None:
    outcome = judge(SUITE, ended(1, failed="c"), frozenset("c"))
    assert (outcome.passed, outcome.failed, outcome.flaky) == (3, (), ("c",))
    assert not outcome.is_red


def test_only_what_failed_can_be_flaky() -> None:
    assert judge(SUITE, ended(), frozenset("c")).flaky == ()


@pytest.mark.parametrize(
    ("ending", "complaint"),
    [
        (Ending(600.0), "stopped after its limit of 600 s"),
        (Ending(600.0, report=report()), "stopped after its limit of 600 s"),
        (Ending(1.0, status=2), "no report: `make test-some` ended with status 2"),
        (Ending(1.0, status=0, report=report()), "no report: `make test-some` ended with status 0"),
        (Ending(1.0, 2, 3, report()), "pytest ended with status 3: an internal error"),
        (Ending(1.0, 2, 1, report()), "pytest ended with status 1: 0 failures in its report"),
        (Ending(1.0, 0, 0, report(failed="c")), "pytest ended with status 0: 1 failures in its report"),
        (Ending(1.0, 2, 0, report()), "`make test-some` ended with status 2, though all tests passed"),
        (ended(passed="a"), "1 tests ran where at least 2 are expected"),
        (ended(skipped="e"), "skipped here: e: no Java"),
    ],
)
def test_a_suite_that_did_not_do_its_work_is_red(ending: Ending, complaint: str) -> None:
    outcome = judge(SUITE, ending)
    assert outcome.complaints == (complaint,)
    assert outcome.is_red


def test_no_second_chance_hides_an_internal_error() -> None:
    outcome = judge(SUITE, Ending(1.0, 2, 3, report(failed="c")), frozenset("c"))
    assert outcome.complaints == ("pytest ended with status 3: an internal error",)


def test_a_suite_that_collects_nothing_is_red() -> None:
    outcome = judge(SUITE, Ending(1.0, 2, 5, report(passed="")))
    assert outcome.complaints == (
        "pytest ended with status 5: no tests",
        "0 tests ran where at least 2 are expected",
    )


def test_a_suite_that_may_skip_lists_what_it_skipped() -> None:
    outcome = judge(Suite("test", ("make",), 1.0, may_skip=True), ended(skipped="e"))
    assert (outcome.skipped, outcome.is_red) == ({"e": "no Java"}, False)


@pytest.mark.parametrize(("status", "passed", "failures"), [(0, 1, 0), (2, 0, 1), (None, 0, 1)])
def test_a_command_counts_as_one(status: int | None, passed: int, failures: int) -> None:
    outcome = judge(COMMAND, Ending(1.0, status))
    assert (outcome.passed, outcome.failures) == (passed, failures)


@pytest.mark.parametrize(
    ("ending", "again"),
    [
        (ended(1, failed="dc"), ["c", "d"]),
        (ended(), []),
        (Ending(600.0, report=report(failed="c")), []),
        (Ending(1.0, 2), []),
        (Ending(1.0, 2, 1, Report(frozenset(), dict.fromkeys(map(str, range(AGAIN_MAX + 1)), ""), {})), []),
    ],
    ids=["failures", "none", "stopped", "no report", "too many"],
)
def test_what_is_run_again(ending: Ending, again: list[str]) -> None:
    assert to_run_again(ending) == again


def test_the_summary() -> None:
    outcomes = [
        Outcome("check", 60.0, passed=1),
        Outcome(
            "test", 330.0, passed=8000, flaky=("t::sometimes",), skipped={"t::x": "no openssl", "t::y": "no openssl"}
        ),
        Outcome("faults", 120.0, passed=19, failed=("t::always",), reasons={"t::always": "too late"}),
        Outcome("spark", 60.0, failed=("t::slow",), decides=False),
        not_begun(SUITE),
    ]
    assert summary(outcomes, 510.0) == [
        "suite         passed  failed   flaky  skipped  minutes",
        "check              1       0       0        0      1.0",
        "test            8000       0       1        2      5.5",
        "faults            19       1       0        0      2.0  FAILED",
        "spark              0       1       0        0      1.0  failed, only reports",
        "some               0       1       0        0      0.0  FAILED",
        "all             8020       3       1        2      8.5",
        "",
        "skipped in test: no openssl",
        "FLAKY in test (failed, then passed alone: a bug to be found): t::sometimes",
        "FAILED in faults: t::always",
        "    too late",
        "FAILED in spark: t::slow",
        "FAILED some: not begun: the time for all suites was over",
        "8020 passed, 3 failed, 2 skipped",
    ]

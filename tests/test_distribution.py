"""How tests are spread over workers, and what is printed of a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierfetch.tests.distribution import SEARCHES, SLOW_FOLDER, BySlowTest, FailuresAtOnce, in_order, scope_of
from tierfetch.tests.process.conftest import SUITES


@pytest.mark.parametrize(
    ("nodeid", "scope"),
    [
        ("tests/log/test_index.py::TestLookup::test_empty[a::b]", "tests/log/test_index.py"),
        ("tests/process/test_tier.py::test_any", "tests/process/test_tier.py"),
        ("tests/process/test_groups.py::test_any[a::b]", "tests/process/test_groups.py::test_any[a::b]"),
    ],
    ids=["a unit test", "processes that a module shares", "processes of a test's own"],
)
def test_what_goes_to_a_worker_as_one_piece(nodeid: str, scope: str) -> None:
    assert (Path(__file__).parent.parent / nodeid.split("::")[0]).exists()
    assert scope_of(nodeid) == scope


@pytest.mark.parametrize("name", SUITES)
def test_what_stays_in_make_test_of_a_suite_of_processes_is_there(name: str) -> None:
    text = (Path(__file__).parent.parent / SLOW_FOLDER / name).read_text()
    assert {test for test in SUITES[name].stay if f"def {test}(" not in text} == set()


def test_what_is_quick_comes_first_then_processes_between_searches() -> None:
    sim = [f"tests/sim/test_{name}.py::t{number}" for name in ("host", "world") for number in (1, 2)]
    processes = [f"tests/process/test_groups.py::t{number}" for number in (1, 2, 3, 4)]
    quick = ["tests/log/test_index.py::t"]
    assert in_order([*sim, *processes, *quick]) == [
        *quick, processes[0], *sim[:2], processes[1], processes[2], *sim[2:], processes[3],
    ]  # fmt: skip
    assert in_order(quick) == quick
    assert all((Path(__file__).parent.parent / path).exists() for path in SEARCHES)


def test_a_test_during_which_a_worker_died_is_not_given_to_the_next() -> None:
    scheduler = BySlowTest.__new__(BySlowTest)
    scheduler.assigned_work = {"dead": {"a": {"a::1": True}, "b": {"b::1": True, "b::2": False, "b::3": False}}}
    scheduler.workqueue = {}
    assert scheduler.remove_node("dead") == "b::2"
    assert scheduler.workqueue["b"] == {"b::1": True, "b::2": True, "b::3": False}

    scheduler.assigned_work = {"done": {"a": {"a::1": True}}}
    assert scheduler.remove_node("done") is None


class Terminal:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def ensure_newline(self) -> None:
        pass

    def write_line(self, line: str, **_: bool) -> None:
        self.lines.append(line)


def test_a_failure_is_printed_at_once_with_its_reason() -> None:
    terminal = Terminal()
    reporter = FailuresAtOnce(terminal)
    location = ("tests/t.py", 1, "test_t")
    text = ">   assert 1 == 2\nE   assert 1 == 2\nE    +  where\n\ntests/t.py:1: AssertionError"
    for outcome, longrepr in (("passed", None), ("failed", text)):
        report = pytest.TestReport("tests/t.py::test_t", location, {}, outcome, longrepr, "call")  # type: ignore[arg-type]
        reporter.pytest_runtest_logreport(report)
    assert terminal.lines == ["FAILED tests/t.py::test_t: assert 1 == 2"]

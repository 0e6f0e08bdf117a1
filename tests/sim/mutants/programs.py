"""What runs in a process of its own, and reports a line of JSON for each step: seeds of the simulator, unit tests.

    {"begin": "seed 17"}    {"end": "seed 17", "cpu_s": 0.9, "failure": null}    ...

A program ends with the first failure, unless it records. Nothing of the product is imported before a program begins:
then the import hook is in its place.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from .importing import Record

ROOT: Final = Path(__file__).resolve().parents[3]
PLAIN: Final = "--assert=plain"
"""Pytest rewrites the modules of an installed plugin, and so of the whole product, in the place of the import hook."""
Say = Callable[[dict[str, Any]], None]
REASON_CHARACTERS_MAX: Final = 200


def run_seeds(seeds: Sequence[int], say: Say, record: Record | None = None) -> None:
    """Run seeds of the simulator until one fails; all of them if lines are recorded."""
    from tierfetch.sim.scenarios.runner import run_seed

    for seed in seeds:
        with _step(f"seed {seed}", say, record) as failures:
            report = run_seed(seed)
            failures += list(report.failures)
        if failures and record is None:
            return


@contextlib.contextmanager
def _step(name: str, say: Say, record: Record | None) -> Iterator[list[str]]:
    """Report a step. What it adds to the list failed; an exception failed, too."""
    failures: list[str] = []
    began_s = time.process_time()
    say({"begin": name})
    if record is not None:
        record.take()
    try:
        yield failures
    except Exception as error:  # noqa: BLE001 - whatever a mutant raises convicts it
        failures.append(f"{type(error).__name__}: {error}")
    say(_ended(name, time.process_time() - began_s, failures[0] if failures else None, record))


def _ended(name: str, cpu_s: float, failure: str | None, record: Record | None) -> dict[str, Any]:
    reason = None if failure is None else _first_line(failure)
    line: dict[str, Any] = {"end": name, "cpu_s": round(cpu_s, 3), "failure": reason}
    return line if record is None else line | {"lines": record.take()}


def _first_line(failure: str) -> str:
    """Return the beginning of a failure, without the place of this checkout."""
    return (failure.strip().splitlines() or ["failed"])[0].replace(f"{ROOT}/", "")[:REASON_CHARACTERS_MAX]


def run_tests(tests: Sequence[str], say: Say, directory: Path) -> None:
    """Run unit tests in this order until one fails. `directory` gets what they write."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    _pytest([*files, "-x"], _Reporter(say, None, list(tests)), directory)


def record_tests(modules: Sequence[str], say: Say, directory: Path, record: Record) -> None:
    """Run the unit tests of some modules, and report for each which lines ran."""
    _pytest(list(modules), _Reporter(say, record, None), directory)


def _pytest(arguments: list[str], reporter: _Reporter, directory: Path) -> None:
    import hypothesis.configuration  # not before: it does not like what other modules do between this and its plugin

    os.chdir(ROOT)
    os.environ.pop("PYTEST_ADDOPTS", None)  # of a pytest, or of CI, that started all this
    hypothesis.configuration.set_hypothesis_home_dir(directory / "hypothesis")  # failures of mutants are not kept
    random.seed(0)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0"]
    options += [f"--basetemp={directory / 'tests'}", "--timeout=60", PLAIN]
    reporter.finish(pytest.main([*options, *arguments], plugins=[reporter]))


class _Reporter:
    """A plugin of pytest that reports each test, and selects those that are wanted, in their order."""

    def __init__(self, say: Say, record: Record | None, wanted: list[str] | None) -> None:
        self._say, self._record = say, record
        self._ranks = None if wanted is None else {test: rank for rank, test in enumerate(wanted)}
        self._failure: str | None = None
        self._began_s = 0.0
        self._is_skipped = False

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        yield
        if self._ranks is not None:
            ranks = self._ranks
            items[:] = sorted((each for each in items if each.nodeid in ranks), key=lambda each: ranks[each.nodeid])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._say(_ended("collection", 0.0, str(report.longrepr).strip().splitlines()[-1], None))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._failure, self._is_skipped = None, False
        self._began_s = time.process_time()
        self._say({"begin": nodeid})
        if self._record is not None:
            self._record.take()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._is_skipped = self._is_skipped or report.skipped
        if report.failed and self._failure is None:
            crash = getattr(report.longrepr, "reprcrash", None)
            self._failure = crash.message if crash is not None else str(report.longrepr)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        line = _ended(nodeid, time.process_time() - self._began_s, self._failure, self._record)
        self._say(line | {"skipped": True} if self._is_skipped else line)

    def finish(self, status: int) -> None:
        """Report a run that was not the tests' own success or failure; modules that are recorded may have no test."""
        if self._record is not None and status == pytest.ExitCode.NO_TESTS_COLLECTED:
            return
        if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            self._say(_ended("pytest", 0.0, f"pytest ended with {status!r}", None))

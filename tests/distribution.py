"""How `make test` spreads over workers, so that a failure shows early and no worker is left with a long file.

First comes what is quick, then what simulates and searches, mixed with tests of real processes: these mostly wait, and
leave the cores to the others. They go one by one where their module has no cluster of its own to share, all else by
file. So most tests end in the first minutes. A failure is printed at once, and again with its traceback at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling

ROOT: Final = Path(__file__).resolve().parent.parent
SEARCHES: Final = ("tests/sim/", "tests/quorum/", "tests/pipeline/", "tests/controller/test_model.py")
"""Of all tests that start no process a seventh, with three quarters of their time."""
SLOW_FOLDER: Final = "tests/process/"


class BySlowTest(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Files, and the tests of processes that can run on their own."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def remove_node(self, node: object) -> str | None:
        """Return the test during which a worker died. xdist would give it to the next worker, and to each in turn."""
        open_tests = ((unit, test) for unit in self.assigned_work[node].values() for test in unit if not unit[test])
        unit, died = next(open_tests, ({}, None))
        unit[died] = True
        super().remove_node(node)
        return died


def in_order(nodeids: Sequence[str]) -> list[str]:
    """Return tests in the order in which they run; those of a file stay together."""
    pieces = [list(piece) for _, piece in groupby(nodeids, scope_of)]
    stages: list[list[list[str]]] = [[], [], []]
    for piece in pieces:
        stages[stage_of(piece[0])].append(piece)
    quick, *others = stages
    mixed = sorted((number / len(stage), piece) for stage in others for number, piece in enumerate(stage))
    return [nodeid for piece in (*quick, *(piece for _, piece in mixed)) for nodeid in piece]


def stage_of(nodeid: str) -> int:
    """Return when a test runs: 0 if it is quick, 1 if it simulates or searches, 2 if it starts processes."""
    return 2 if nodeid.startswith(SLOW_FOLDER) else int(nodeid.startswith(SEARCHES))


def scope_of(nodeid: str) -> str:
    """Return what goes to a worker as one piece: a file, or a test that can run on its own."""
    path = nodeid.split("::", 1)[0]
    return nodeid if path.startswith(SLOW_FOLDER) and not shares_a_fixture(path) else path


@cache
def shares_a_fixture(path: str) -> bool:
    """Return whether the tests of a module share a fixture, which each worker would have to make for itself."""
    return 'scope="module"' in (ROOT / path).read_text()


class FailuresAtOnce:
    """Prints what failed as it is reported; workers have no terminal and print nothing."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            why = next((line[1:].strip() for line in report.longreprtext.splitlines() if line.startswith("E ")), "")
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED {report.nodeid}: {why}", red=True)

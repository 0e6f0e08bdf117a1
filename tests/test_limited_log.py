"""Lines that others cause: all are counted, few are written, and no module of a listener writes them in another way."""

from __future__ import annotations

import ast
import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.limited_log import LINES_MAX, PERIOD_S, SOURCE_LINES_MAX, Kind, LimitedLog, LineBudget, settle

pytestmark = pytest.mark.virtual_time
ROOT: Final = Path(__file__).parent.parent
LOGGER: Final = logging.getLogger(__name__)
KINDS: Final = tuple(Kind("a", level, message) for level in (20, 30) for message in ("x", "y"))


@given(
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.sampled_from("pqrs"), st.floats(-3, 30)),
        max_size=300,
    )
)
def test_every_line_is_written_or_counted_and_no_period_has_more_than_its_share(
    lines: list[tuple[Kind, str, float]],
) -> None:
    budget = LineBudget(period_s=10, lines_max=7)
    written: list[tuple[Kind, str, float]] = []
    counted: Counter[Kind] = Counter()
    now_s = 0.0
    for kind, source, passed_s in lines:
        now_s += passed_s  # a clock may go back
        counted.update(dict(budget.take_left_out(now_s)))
        if budget.admits(kind, source, now_s, source_lines_max=3):
            written.append((kind, source, now_s))
    counted.update(dict(budget.take_left_out(now_s + 10)))
    assert Counter(kind for kind, _, _ in lines) == Counter(kind for kind, _, _ in written) + counted
    if all(passed_s >= 0 for _, _, passed_s in lines):
        for kind, _, begin_s in written:
            near = [source for each, source, at_s in written if each == kind and 0 <= at_s - begin_s < 10]
            assert len(near) <= 2 * 7, "two periods share the time"
            assert all(count <= 2 * 3 for count in Counter(near).values())


def test_a_source_that_floods_leaves_room_for_the_others() -> None:
    budget, kind = LineBudget(), KINDS[0]
    assert sum(budget.admits(kind, "flood", 0) for _ in range(10_000)) == SOURCE_LINES_MAX
    assert budget.admits(kind, "honest", 1)
    assert sum(budget.admits(kind, f"host {number}", 2) for number in range(10_000)) == LINES_MAX - SOURCE_LINES_MAX - 1
    assert budget.admits(KINDS[1], "flood", 3), "a kind leaves room for the others"
    ((found, left_out),) = budget.take_left_out(PERIOD_S)
    assert (found, left_out) == (kind, 20_000 - LINES_MAX + 1)
    assert not budget.take_left_out(PERIOD_S + 1)


async def test_how_many_were_left_out_is_said_once_when_the_period_is_over(caplog: pytest.LogCaptureFixture) -> None:
    limited = LimitedLog(LOGGER)
    for number in range(10_000):
        limited.warning("peer", "connection %d is closed", number)
    assert [record.getMessage() for record in caplog.records] == [
        f"connection {number} is closed" for number in range(SOURCE_LINES_MAX)
    ]
    assert caplog.records[0].funcName == "test_how_many_were_left_out_is_said_once_when_the_period_is_over"
    settle()
    assert len(caplog.records) == SOURCE_LINES_MAX
    await asyncio.sleep(PERIOD_S)
    caplog.clear()
    settle()
    settle()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == "9980 more lines like this were left out within 10 s: connection %d is closed"
    limited.warning("peer", "connection %d is closed", 1)
    assert len(caplog.records) == 2


def test_outside_of_a_loop_every_line_is_written(caplog: pytest.LogCaptureFixture) -> None:
    limited = LimitedLog(LOGGER)
    for number in range(2 * LINES_MAX):
        limited.error("", "line %d", number, exc_info=ValueError("why"))
    assert len(caplog.records) == 2 * LINES_MAX
    assert "ValueError: why" in caplog.text


# Who has to use it.

SERVES_PEERS: Final = (
    "broker/coordinator",
    "broker/groups",
    "broker/handlers",
    "broker/http_endpoint.py",
    "broker/transactions",
    "controller/node.py",
    "protocol/authorization",
    "protocol/net",
    "quorum/handlers.py",
    "quorum/log_owner.py",
    "quorum/peers.py",
    "rlm/reader.py",
    "rlm/times.py",
)
OF_THIS_NODE: Final = {
    "broker/coordinator/log_writer.py": 1,
    "broker/coordinator/roles.py": 1,
    "broker/coordinator/shard.py": 2,
    "broker/coordinator/state_topic.py": 1,
    "broker/handlers/replica_selectors.py": 1,
    "broker/http_endpoint.py": 1,
    "controller/node.py": 3,
    "protocol/net/request_memory.py": 1,
    "protocol/net/server.py": 1,
    "quorum/log_owner.py": 1,
}
"""The lines of each file that no peer can cause, or that have a limit of their own (once, or once in a while)."""


def unlimited_lines(path: Path) -> Iterator[int]:
    """Return where a plain logger of the module writes a warning or an error."""
    tree = ast.parse(path.read_text())
    plain = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("logging.getLogger")
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="warning" | "error" | "exception")):
                if name in plain:
                    yield node.lineno


def test_what_serves_peers_writes_no_line_without_a_limit() -> None:
    found = {}
    for place in SERVES_PEERS:
        path = ROOT / place
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            lines = list(unlimited_lines(file))
            if lines:
                found[str(file.relative_to(ROOT))] = len(lines)
    assert found == OF_THIS_NODE

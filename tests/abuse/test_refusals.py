"""Refused ten thousand times: the log of a node stays readable, and says how much of it was left out."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from tierfetch.cli.local.cluster import SESSION, LocalCluster
from tierfetch.cli.local.nodes import LocalNodes
from tierfetch.cli.local.processes import poll
from tierfetch.limited_log import LINES_MAX, PERIOD_S
from tierfetch.protocol.api import ApiKey
from tierfetch.tests.abuse import attacks
from tierfetch.tests.abuse.attacks import connect, frame
from tierfetch.tests.process.clients import create_topic

TIMES: Final = 10_000
AT_ONCE: Final = 8
PERIODS_MAX: Final = 12
"""An attack takes less than so many periods."""
WAIT_S: Final = 3 * PERIOD_S


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("abuse"), (1,), controller_configs=SESSION) as cluster:
        create_topic(cluster.bootstrap_servers, "t", replicas=1)
        yield cluster


def refused(port: int, data: bytes) -> None:
    """Send it on a connection of its own, and wait until that is closed, or answered."""
    with contextlib.suppress(OSError), connect(port) as connection:
        connection.sendall(data)
        connection.recv(1 << 16)


REFUSED: Final[dict[str, Callable[[], bytes]]] = {
    "no such API": lambda: struct.pack(">ihhih", 10, 9_999, 0, 1, -1),
    "a request that is cut": lambda: frame(ApiKey.METADATA, 1, b"\0\0\0\x07"),
    "a frame of 2 GiB": lambda: struct.pack(">i", 2**31 - 1),
    "a negative size": lambda: struct.pack(">i", -5),
    "not Kafka": lambda: b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_ten_thousand_refusals_are_few_lines(cluster: LocalCluster, role: str) -> None:
    nodes: LocalNodes = cluster
    if role == "controller":
        assert cluster.quorum is not None
        nodes = cluster.quorum
    (node,) = nodes.nodes
    log = nodes.log_file(node)
    begin = log.stat().st_size
    sent = [make() for make in REFUSED.values()]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(lambda number: refused(nodes.port(node), sent[number % len(sent)]), range(TIMES)))

    def lines() -> list[str]:
        with log.open() as said:
            said.seek(begin)
            return said.read().splitlines()

    for _ in poll(WAIT_S, f"the end of a period: {lines()[-3:]}"):
        counted = [line for line in lines() if "more lines like this were left out" in line]
        written = [line for line in lines() if " is closed: " in line and line not in counted]
        left_out = sum(int(line.partition(" more lines like this")[0].rsplit(" ", 1)[1]) for line in counted)
        if len(written) + left_out >= TIMES:
            break
    assert len(written) + left_out == TIMES
    assert len(lines()) < PERIODS_MAX * LINES_MAX
    assert not [line for line in lines() if "Traceback" in line]
    assert attacks.answer(nodes.port(node), frame(ApiKey.API_VERSIONS, 0, b""))

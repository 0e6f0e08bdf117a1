"""`tierfetch log-dirs describe`: what each broker says of its disks, one of which may be offline or silent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner

from tierfetch.cli.admin.log_dirs import log_dirs
from tierfetch.cli.cluster_session import Admin, Cluster
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.base import Request
from tierfetch.protocol.messages.cluster import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tierfetch.protocol.net.client import Address, BrokerUnavailableError

BROKERS = {1: Address("one", 1), 2: Address("two", 2)}


def held(topic: str, index: int, size: int, lag: int = 0, **more: Any) -> DescribeLogDirsTopic:
    fields: dict[str, Any] = {"is_future_key": False} | more
    part = DescribeLogDirsPartition(partition_index=index, partition_size=size, offset_lag=lag, **fields)
    return DescribeLogDirsTopic(name=topic, partitions=(part,))


ANSWERS = {
    BROKERS[1]: (
        DescribeLogDirsResult(
            log_dir="/a", topics=(held("orders", 0, 2048), held("other", 3, 1)), total_bytes=10_240, usable_bytes=5_120
        ),
        DescribeLogDirsResult(log_dir="/b", topics=(held("orders", 0, 1024, 7, is_future_key=True),)),
        DescribeLogDirsResult(log_dir="/c", topics=(), error_code=ErrorCode.kafka_storage_error),
    )
}


@pytest.fixture(autouse=True)
def _cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two brokers, of which the second never answers."""

    async def cluster(_: Admin, __: Sequence[str] | None = None) -> Cluster:
        return Cluster(brokers=BROKERS, racks={}, topics=())

    async def send_to(_: Admin, address: Address, __: Request[DescribeLogDirsResponse]) -> DescribeLogDirsResponse:
        if address not in ANSWERS:
            raise BrokerUnavailableError(f"{address}: connection refused")
        return DescribeLogDirsResponse(results=ANSWERS[address])

    monkeypatch.setattr(Admin, "cluster", cluster)
    monkeypatch.setattr(Admin, "send_to", send_to)


def invoke(*arguments: str, code: int = 0) -> tuple[str, str]:
    done = CliRunner().invoke(log_dirs, ["describe", *arguments], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.replace("┃", "│").strip("│ ").split("│")]


def test_D4_directories_have_their_bytes_and_a_replica_that_moves_has_a_row() -> None:
    rows = [cells(line) for line in invoke("--broker", "1")[0].splitlines() if "/" in line]
    assert rows == [
        ["1", "/a", "online", "10.0 KiB", "5.0 KiB", "2", "2.0 KiB", "0"],
        ["1", "/b", "online", "?", "?", "0", "1.0 KiB", "1"],
        ["1", "/c", "offline", "?", "?", "0", "0 B", "0"],
        ["1", "/b", "orders", "0", "1.0 KiB", "7", "future"],
    ]


def test_D4_replicas_of_a_topic_have_a_row_each() -> None:
    rows = [cells(line) for line in invoke("--broker", "1", "--topic", "orders")[0].splitlines() if "orders" in line]
    assert rows == [
        ["1", "/a", "orders", "0", "2.0 KiB", "0", "current"],
        ["1", "/b", "orders", "0", "1.0 KiB", "7", "future"],
    ]


def test_D4_a_document_has_all_of_it() -> None:
    found = json.loads(invoke("--broker", "1", "--json")[0])
    assert [(row["broker"], row["directory"], row["error"]) for row in found] == [
        (1, "/a", None),
        (1, "/b", None),
        (1, "/c", "offline"),
    ]
    assert (found[0]["total_bytes"], found[0]["usable_bytes"], found[1]["usable_bytes"]) == (10_240, 5_120, None)
    assert found[1]["replicas"] == [
        {
            "topic": "orders",
            "partition": 0,
            "size_bytes": 1024,
            "offset_lag": 7,
            "future": True,
            "out_of_service": False,
        }
    ]


def test_D4_a_broker_that_does_not_answer_is_named_and_the_others_are_shown() -> None:
    said, errors = invoke(code=1)
    assert "/a" in said
    assert "broker 2: two:2: connection refused" in errors


def test_D4_a_broker_that_is_not_there_is_named() -> None:
    assert "broker 9: is not alive, or there is no such broker" in invoke("--broker", "9", code=1)[1]

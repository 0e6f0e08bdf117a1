"""`tierfetch transactions`: which open transactions hang, and the commands on a cluster with librdkafka's producers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tierfetch.cli.main import cli
from tierfetch.cli.transactions.hanging import NO_TRANSACTION, Described, Producer, hanging, old_open
from tierfetch.log.core import AppendOrigin
from tierfetch.protocol.topics import TopicPartition
from tierfetch.testing import InProcessCluster
from tierfetch.tests.broker.hosting import batch

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def producer(producer_id: int = 7, *, at: TopicPartition = A, last_ms: int = 0, start: int = 10) -> Producer:
    return Producer(
        partition=at,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=-1,
        last_sequence=0,
        last_timestamp_ms=last_ms,
        start_offset=start,
    )


def described(*partitions: TopicPartition) -> Described:
    return Described(
        transactional_id="pay",
        state="Ongoing",
        producer_id=7,
        producer_epoch=0,
        timeout_ms=60_000,
        start_ms=1,
        partitions=partitions,
    )


def test_only_what_is_open_and_old_is_looked_at() -> None:
    young, old, at_rest = producer(1, last_ms=401), producer(2, last_ms=399), producer(3, start=NO_TRANSACTION)
    assert old_open([young, old, at_rest], now_ms=1000, longer_than_ms=600) == [old]


@pytest.mark.parametrize(
    ("ids", "known", "hangs"),
    [
        ({}, {}, True),
        ({8: "other"}, {"other": described(A)}, True),
        ({7: "pay"}, {"pay": None}, True),
        ({7: "pay"}, {"pay": described()}, True),
        ({7: "pay"}, {"pay": described(B)}, True),
        ({7: "pay"}, {"pay": described(A, B)}, False),
        ({7: "pay"}, {}, False),
    ],
    ids=["no id", "another producer's id", "no transaction", "an empty one", "elsewhere", "in it", "not said"],
)
def test_P3_a_transaction_hangs_where_no_coordinator_has_it_in_this_partition(
    ids: dict[int, str], known: dict[str, Described | None], hangs: bool
) -> None:
    assert hanging([producer()], ids, known) == ([producer()] if hangs else [])


def invoke(cluster: InProcessCluster, *words: str) -> Result:
    return CliRunner().invoke(cli, ["transactions", *words, "--bootstrap", cluster.bootstrap])


def documents(cluster: InProcessCluster, *words: str) -> Any:
    result = invoke(cluster, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.slow
@pytest.mark.tierfetch(brokers=2, tier=None)
def test_an_open_transaction_is_shown_and_aborted(tierfetch_cluster: InProcessCluster) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("orders", 2)
    assert invoke(cluster, "list").stdout == "no transactional id\n"
    open_one = cluster.client("confluent").producer({"transactional.id": "pay-1"})
    open_one.init_transactions()
    open_one.begin_transaction()
    open_one.produce("orders", b"held", partition=1)
    open_one.flush()
    (row,) = documents(cluster, "list", "--state", "Ongoing", "--longer-than", "0")
    assert (row["transactional_id"], row["state"]) == ("pay-1", "Ongoing")
    assert documents(cluster, "list", "--state", "Empty") == []
    (found,) = documents(cluster, "describe", "pay-1")
    assert (found["state"], found["partitions"]) == ("Ongoing", ["orders-1"])
    assert found["open_for_s"] >= 0
    assert "partitions: orders-1" in invoke(cluster, "describe", "pay-1").stdout
    (known,) = documents(cluster, "producers", "orders")
    assert (known["partition"], known["producer_id"], known["open_since_offset"]) == (1, row["producer_id"], 0)
    assert invoke(cluster, "find-hanging", "--longest", "0").stdout == "no transaction hangs\n"

    assert documents(cluster, "abort", "--id", "pay-1", "--yes") == {
        "transactional_id": "pay-1",
        "state_before": "Ongoing",
        "aborted": True,
    }
    cluster.wait_until(
        lambda: documents(cluster, "producers", "orders")[0]["open_since_offset"] is None, "the abort marker"
    )
    assert [row["state"] for row in documents(cluster, "list")] != ["Ongoing"]
    again = invoke(cluster, "abort", "--id", "pay-1", "--yes")
    assert again.stdout == "pay-1 had nothing open\n"
    with pytest.raises(Exception, match=r"FENCED|fenced|newer instance|invalid epoch"):
        open_one.commit_transaction()
    unknown = invoke(cluster, "describe", "pay-2")
    assert (unknown.exit_code, "it was never used, or expired" in unknown.stderr) == (1, True)


@pytest.mark.slow
@pytest.mark.tierfetch(brokers=1, tier=None)
def test_P3_a_transaction_that_hangs_is_found_and_ended_in_its_partition(tierfetch_cluster: InProcessCluster) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("orders")
    records = batch(b"lost", producer_id=4711, sequence=0, transactional=True)

    def append(broker: Any, _: object) -> asyncio.Task[object]:
        partition = broker.hosted.find("orders", 0)
        return asyncio.ensure_future(partition.append(records, AppendOrigin.CLIENT, acks_all=False))

    cluster._on_leader("orders", 0, append)
    cluster.wait_until(lambda: documents(cluster, "producers", "orders") != [], "the producer at its leader")
    found = invoke(cluster, "find-hanging")
    assert found.exit_code == 1
    line = found.stdout.splitlines()[-1]
    assert line == "tierfetch transactions abort --topic orders --partition 0 --start-offset 0"
    wrong = invoke(cluster, "abort", "--topic", "orders", "--partition", "0", "--start-offset", "5", "--yes")
    assert (wrong.exit_code, "those open begin at: 0" in wrong.stderr) == (1, True)
    ended = invoke(cluster, *line.split()[2:], "--yes")
    assert (ended.exit_code, "producer 4711" in ended.stdout) == (0, True), ended.output
    cluster.wait_until(lambda: invoke(cluster, "find-hanging").exit_code == 0, "the abort marker")
    usage = invoke(cluster, "abort", "--topic", "orders", "--yes")
    assert usage.exit_code == 2

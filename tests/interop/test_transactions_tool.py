"""kafka-transactions.sh (KIP-664): list, describe, describe-producers, find-hanging, abort."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import confluent_kafka
import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.records import Record, build_batch
from tierfetch.tests.interop.clients import TIMEOUT_S, consume, create_topic
from tierfetch.tests.interop.conversation import Conversation
from tierfetch.tests.interop.java import kafka_tool
from tierfetch.tests.process.transactions import producer_of

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.plaintext]

TOOL = "org.apache.kafka.tools.TransactionsCommand"
HOUR_MS = 3_600_000
HANGING_ID, HANGING_EPOCH = 77, 5
UNVERIFIED = {
    "transaction.partition.verification.enable": "false",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""Else no batch opens a transaction that no coordinator knows."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), (1,), configs=UNVERIFIED) as running:
        yield running


def rows(cluster: LocalCluster, *words: str) -> list[dict[str, str]]:
    """What the tool prints in its table, by the names of its columns."""
    output = kafka_tool(TOOL, cluster.bootstrap_servers, *words)
    names, *lines = [line.rstrip().split("\t") for line in output.splitlines() if "\t" in line] or [[]]
    return [
        dict(zip([name.strip() for name in names], [cell.strip() for cell in line], strict=False)) for line in lines
    ]


async def hang(cluster: LocalCluster, topic: str) -> None:
    """Write, an hour ago, a batch of a transaction that no coordinator has."""
    records = build_batch(
        [Record(0, int(time.time() * 1000) - HOUR_MS, b"k", b"hanging")],
        base_offset=0,
        producer_id=HANGING_ID,
        producer_epoch=HANGING_EPOCH,
        base_sequence=0,
        is_transactional=True,
    )
    async with Conversation(cluster.port(1), topic) as talk:
        for _ in poll(TIMEOUT_S, f"{topic} to have a leader"):
            code, *_ = await talk.produce(records, transactional_id="nobody")
            if code not in {"unknown_topic_or_partition", "not_leader_or_follower"}:
                break
        assert code == "none"


def test_T2_an_open_transaction_is_listed_and_described(cluster: LocalCluster) -> None:
    servers = cluster.bootstrap_servers
    create_topic(servers, "open")
    producer = producer_of(servers, "pay-1")
    producer.begin_transaction()
    producer.produce("open", b"v", partition=0)
    producer.flush(TIMEOUT_S)
    (listed,) = [row for row in rows(cluster, "list") if row["TransactionalId"] == "pay-1"]
    assert (listed["TransactionState"], listed["Coordinator"]) == ("Ongoing", "1")
    (described,) = rows(cluster, "describe", "--transactional-id", "pay-1")
    assert (described["ProducerId"], described["TransactionState"]) == (listed["ProducerId"], "Ongoing")
    assert described["TopicPartitions"] == "open-0"
    (known,) = rows(cluster, "describe-producers", "--topic", "open", "--partition", "0")
    assert (known["ProducerId"], known["CurrentTransactionStartOffset"]) == (listed["ProducerId"], "0")
    assert rows(cluster, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "1") == []
    producer.abort_transaction(TIMEOUT_S)
    for _ in poll(TIMEOUT_S, "the transaction to have ended"):
        (described,) = rows(cluster, "describe", "--transactional-id", "pay-1")
        if described["TransactionState"] == "CompleteAbort":
            break


def test_T2_a_transaction_that_hangs_is_found_and_aborted(cluster: LocalCluster) -> None:
    servers = cluster.bootstrap_servers
    create_topic(servers, "hanging")
    asyncio.run(hang(cluster, "hanging"))
    plain = confluent_kafka.Producer({"bootstrap.servers": servers, "log_level": 0})
    plain.produce("hanging", b"after", partition=0)
    assert plain.flush(TIMEOUT_S) == 0
    assert consume(servers, "hanging", isolation="read_committed") == []
    (found,) = rows(cluster, "find-hanging", "--topic", "hanging")
    assert (found["Topic"], found["Partition"], found["StartOffset"]) == ("hanging", "0", "0")
    assert (found["ProducerId"], found["ProducerEpoch"]) == (str(HANGING_ID), str(HANGING_EPOCH))
    where = ("--topic", "hanging", "--partition", "0", "--start-offset", "0")
    kafka_tool(TOOL, servers, "abort", *where)
    assert rows(cluster, "find-hanging", "--topic", "hanging") == []
    assert [record.value for record in consume(servers, "hanging", isolation="read_committed")] == [b"after"]

"""The APIs of transactions under attack: by clients, and by one that says that it is a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.base import Message, Request
from tierfetch.protocol.messages.groups import FindCoordinatorRequest
from tierfetch.protocol.messages.producers import (
    InitProducerIdRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tierfetch.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsRequest,
    TopicRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tierfetch.tests.abuse.peers import ask
from tierfetch.tests.broker.api_scene import NOT_YET
from tierfetch.tests.process.clients import create_topic

pytestmark = pytest.mark.usefixtures("unharmed")

ID: Final = "of-a-stranger"
LONG: Final = "i" * 32_000
EXTREMES: Final = (0, 1, -1, 2**63 - 1, -(2**63), 1000)
EPOCHS: Final = (0, -1, 32_767, -32_768)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("abuse"), (1,)) as cluster:
        create_topic(cluster.bootstrap_servers, "t", replicas=1)
        coordinated(cluster.port(1))
        yield cluster


def coordinated(port: int) -> None:
    """Return once the broker coordinates transactions and groups."""
    for kind in (0, 1):
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=(ID,))
        while ask(port, request).coordinators[0].error_code in NOT_YET:
            pass
    while ask(port, InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)).error_code in NOT_YET:
        pass


def added(*names: str, partitions: tuple[int, ...] = (0,)) -> tuple[AddPartitionsToTxnTopic, ...]:
    return tuple(AddPartitionsToTxnTopic(name=name, partitions=partitions) for name in names)


def of_brokers(count: int, *, verify_only: bool, topics: tuple[AddPartitionsToTxnTopic, ...]) -> Request[Message]:
    transactions = tuple(
        AddPartitionsToTxnTransaction(
            transactional_id=f"{ID}-{number % 1000}",
            producer_id=number,
            producer_epoch=0,
            verify_only=verify_only,
            topics=topics,
        )
        for number in range(count)
    )
    return AddPartitionsToTxnRequest(transactions=transactions)  # type: ignore[return-value]


def marker(topics: tuple[WritableTxnMarkerTopic, ...], producer_id: int = 1) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=0,
        transaction_result=True,
        topics=topics,
        coordinator_epoch=2**31 - 1,
    )


def marked(name: str, partitions: tuple[int, ...] = (0,)) -> WritableTxnMarkerTopic:
    return WritableTxnMarkerTopic(name=name, partition_indexes=partitions)


def committing(topics: tuple[TxnOffsetCommitRequestTopic, ...]) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(transactional_id=ID, group_id="g", producer_id=1, producer_epoch=0, topics=topics)


def offsets(name: str, partitions: range) -> TxnOffsetCommitRequestTopic:
    items = tuple(
        TxnOffsetCommitRequestPartition(
            partition_index=number, committed_offset=1, committed_leader_epoch=-1, committed_metadata="m"
        )
        for number in partitions
    )
    return TxnOffsetCommitRequestTopic(name=name, partitions=items)


MANY: Final = tuple(range(190_000))
OLD_ADD: Final = 3
REQUESTS: dict[str, tuple[Callable[[], Request[Message]], int | None]] = {
    "add 190,000 partitions": (
        lambda: AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID, v3_and_below_topics=added("t", partitions=MANY)
        ),
        OLD_ADD,
    ),
    "add one partition 190,000 times": (
        lambda: AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID, v3_and_below_topics=added("t", partitions=(0,) * 190_000)
        ),
        OLD_ADD,
    ),
    "add 90,000 topics": (
        lambda: AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID, v3_and_below_topics=added(*(f"n{i}" for i in range(90_000)))
        ),
        OLD_ADD,
    ),
    "verify 60,000 transactions": (lambda: of_brokers(60_000, verify_only=True, topics=added("t")), None),
    "add to 60,000 transactions": (lambda: of_brokers(60_000, verify_only=False, topics=added("t")), None),
    "verify 190,000 partitions": (lambda: of_brokers(1, verify_only=True, topics=added("t", partitions=MANY)), None),
    "add 190,000 partitions for a broker": (
        lambda: of_brokers(1, verify_only=False, topics=added("t", partitions=MANY)),
        None,
    ),
    "commit 190,000 partitions": (lambda: committing((offsets("t", range(190_000)),)), None),
    "commit 90,000 topics": (lambda: committing(tuple(offsets(f"n{i}", range(1)) for i in range(90_000))), None),
    "mark 190,000 partitions": (lambda: WriteTxnMarkersRequest(markers=(marker((marked("t", MANY),)),)), None),
    "mark one partition 190,000 times": (
        lambda: WriteTxnMarkersRequest(markers=(marker((marked("t", (0,) * 190_000),)),)),
        None,
    ),
    "mark 90,000 topics": (
        lambda: WriteTxnMarkersRequest(markers=(marker(tuple(marked(f"n{i}") for i in range(90_000))),)),
        None,
    ),
    "60,000 markers": (
        lambda: WriteTxnMarkersRequest(markers=tuple(marker((marked("t"),), number) for number in range(60_000))),
        None,
    ),
    "describe 49,000 transactions": (
        lambda: DescribeTransactionsRequest(transactional_ids=tuple(f"{ID}-{number}" for number in range(49_000))),
        None,
    ),
    "describe one transaction 49,000 times": (
        lambda: DescribeTransactionsRequest(transactional_ids=(ID,) * 49_000),
        None,
    ),
    "describe the producers of 190,000 partitions": (
        lambda: DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=MANY),)),
        None,
    ),
    "describe the producers of one partition 190,000 times": (
        lambda: DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0,) * 190_000),)),
        None,
    ),
    "list with 49,000 filters": (
        lambda: ListTransactionsRequest(
            state_filters=tuple(f"s{number}" for number in range(20_000)), producer_id_filters=tuple(range(29_000))
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_one_large_request(cluster: LocalCluster, name: str) -> None:
    make, version = REQUESTS[name]
    try:
        ask(cluster.port(1), make(), version)
    except ConnectionError:
        assert "array elements in one message" in cluster.log_tail(1)


def test_long_transactional_ids(cluster: LocalCluster) -> None:
    """100 MB of them: what a broker remembers of ids has a limit, below which an id of today still gets in."""
    known = InitProducerIdRequest(transactional_id="known before", transaction_timeout_ms=60_000)
    assert ask(cluster.port(1), known).error_code is ErrorCode.none
    answers: dict[ErrorCode, int] = {}
    for number in range(3_000):
        request = InitProducerIdRequest(transactional_id=f"{number}-{LONG}", transaction_timeout_ms=60_000)
        code = ask(cluster.port(1), request).error_code
        answers[code] = answers.get(code, 0) + 1
    assert answers[ErrorCode.none] > 100
    # Not that of the other attacks: their forged markers may keep its transaction from ending.
    assert ask(cluster.port(1), known).error_code is ErrorCode.none


def test_producers_that_nobody_has(cluster: LocalCluster) -> None:
    """Ids and epochs of all extremes, in each request that names a producer: none of them is let in."""
    port = cluster.port(1)
    for producer_id in EXTREMES:
        for epoch in EPOCHS:
            who = {"transactional_id": "without producers", "producer_id": producer_id, "producer_epoch": epoch}
            refused = [
                ask(port, EndTxnRequest(**who, committed=True)).error_code,  # type: ignore[arg-type]
                ask(port, AddOffsetsToTxnRequest(**who, group_id="g")).error_code,  # type: ignore[arg-type]
                ask(port, InitProducerIdRequest(**who, transaction_timeout_ms=-(2**31))).error_code,  # type: ignore[arg-type]
            ]
            assert ErrorCode.none not in refused, (producer_id, epoch, refused)

"""Asks coordinators for their transactions and leaders for the producers of partitions; has transactions aborted.

A coordinator that is loading or moving is asked again, for half a minute. Listing asks every broker: each coordinates
some of the transactional ids, and a list without one of them would call transactions hanging that are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from ...protocol import ErrorCode, KafkaError, TopicPartition
from ...protocol.messages.groups import FindCoordinatorRequest
from ...protocol.messages.producers import (
    InitProducerIdRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ...protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TopicRequest,
)
from ...protocol.net import Address
from ..admin.leaders import by_leader, of_each_leader
from ..cluster_session import Admin, Cluster, check
from ..groups.coordinators import PASSING, patiently
from .hanging import Described, Producer

TRANSACTION: Final = 1
"""FindCoordinator's key type."""
NO_COORDINATOR_EPOCH: Final = 0
"""The epoch in a marker for a producer whose partition has had no marker yet."""
FENCING_TIMEOUT_MS: Final = 1
"""The timeout of a transaction that will never be used."""

Listed = tuple[str, int, str, int]
"""Transactional id, producer id, state, the broker that coordinates it."""


async def list_transactions(
    admin: Admin,
    cluster: Cluster,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_ms: int = -1,
) -> list[Listed]:
    """Return the transactions that the coordinators have, by transactional id. KafkaError if one does not say."""
    request = ListTransactionsRequest(
        state_filters=tuple(states), producer_id_filters=tuple(producer_ids), duration_filter=longer_than_ms
    )
    found: list[Listed] = []
    for broker, address in cluster.brokers.items():
        response: ListTransactionsResponse = await patiently(partial(admin.send_to, address, request))
        if response.unknown_state_filters:
            raise KafkaError(
                ErrorCode.invalid_request, f"broker {broker} has no state {', '.join(response.unknown_state_filters)}"
            )
        found += [
            (each.transactional_id, each.producer_id, each.transaction_state, broker)
            for each in response.transaction_states
        ]
    return sorted(found)


async def describe_transaction(admin: Admin, transactional_id: str) -> tuple[Described, Address]:
    """Return what the coordinator has of the id, and where it is. KafkaError, such as TRANSACTIONAL_ID_NOT_FOUND."""

    async def ask() -> tuple[Described, Address]:
        address = await coordinator_of(admin, transactional_id)
        response = await admin.send_to(address, DescribeTransactionsRequest(transactional_ids=(transactional_id,)))
        found = response.transaction_states[0]
        if found.error_code is ErrorCode.transactional_id_not_found:
            raise KafkaError(found.error_code, f"no transactional id {transactional_id}: it was never used, or expired")
        check(found, f"transactional id {transactional_id}")
        described = Described(
            transactional_id=transactional_id,
            state=found.transaction_state,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            timeout_ms=found.transaction_timeout_ms,
            start_ms=found.transaction_start_time_ms if found.transaction_start_time_ms > 0 else None,
            partitions=[TopicPartition(topic.topic, number) for topic in found.topics for number in topic.partitions],
        )
        return described, address

    return await patiently(ask)


async def coordinator_of(admin: Admin, transactional_id: str) -> Address:
    """Return the broker that coordinates the transactional id."""
    request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION, coordinator_keys=(transactional_id,))
    response = await admin.send(request)
    for coordinator in response.coordinators:
        check(coordinator, f"transactional id {transactional_id}")
        return Address(coordinator.host, coordinator.port)
    return Address(response.host, response.port)


async def describe_producers(
    admin: Admin, cluster: Cluster, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, list[Producer]]:
    """Return the producers that each partition's leader knows. KafkaError; a partition without a leader is left out."""

    async def ask(address: Address, asked: Sequence[TopicPartition]) -> dict[TopicPartition, list[Producer]]:
        topics: dict[str, list[int]] = {}
        for one in asked:
            topics.setdefault(one.topic, []).append(one.partition)
        request = DescribeProducersRequest(
            topics=tuple(TopicRequest(name=name, partition_indexes=tuple(numbers)) for name, numbers in topics.items())
        )
        response = await admin.send_to(address, request)
        found: dict[TopicPartition, list[Producer]] = {}
        for topic in response.topics:
            for part in topic.partitions:
                name = TopicPartition(topic.name, part.partition_index)
                check(part, f"{name} at {address}")
                found[name] = [
                    Producer(
                        partition=name,
                        producer_id=each.producer_id,
                        producer_epoch=each.producer_epoch,
                        coordinator_epoch=each.coordinator_epoch,
                        last_sequence=each.last_sequence,
                        last_timestamp_ms=each.last_timestamp,
                        start_offset=each.current_txn_start_offset,
                    )
                    for each in part.active_producers
                ]
        return found

    return await of_each_leader(by_leader(cluster, partitions), ask)


async def fence(admin: Admin, transactional_id: str) -> None:
    """Have the coordinator abort what the id has open, and refuse its present producer from now on (KIP-98)."""

    async def ask() -> None:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=FENCING_TIMEOUT_MS)
        await admin.send_to(await coordinator_of(admin, transactional_id), request)

    # The first answer is CONCURRENT_TRANSACTIONS, which stays until every partition has its marker.
    await patiently(ask, passing=PASSING | {ErrorCode.concurrent_transactions})


async def write_abort_marker(admin: Admin, cluster: Cluster, producer: Producer) -> None:
    """Have the leader end the producer's transaction in this one partition, past its coordinator. KafkaError."""
    name = producer.partition
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name=name.topic, partition_indexes=(name.partition,)),),
        coordinator_epoch=max(producer.coordinator_epoch, NO_COORDINATOR_EPOCH),
    )
    addresses = list(by_leader(cluster, [name]))
    if not addresses:
        raise KafkaError(ErrorCode.leader_not_available, f"{name} has no leader: try again")
    response = await admin.send_to(addresses[0], WriteTxnMarkersRequest(markers=(marker,)))
    result = response.markers[0].topics[0].partitions[0]
    if result.error_code is ErrorCode.cluster_authorization_failed:
        raise KafkaError(
            result.error_code,
            f"{name}: a marker needs Alter on the cluster and, where brokers have a listener of their own, that one:"
            " --bootstrap with its address",
        )
    check(result, f"abort marker of {name}")

"""DescribeTransactions, ListTransactions, DescribeProducers: what an operator asks about transactions (KIP-664).

| request | what | code |
|---|---|---|
| DescribeTransactions | an unknown transactional id | TRANSACTIONAL_ID_NOT_FOUND |
| | an empty one | INVALID_REQUEST |
| ListTransactions | some partition is still being read | COORDINATOR_LOAD_IN_PROGRESS |
| | a pattern that RE2 does not take, or that costs too much | INVALID_REGULAR_EXPRESSION |
| DescribeProducers | led elsewhere, or not there | NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION |

States to filter by that do not exist are named in the response, and match nothing. A transaction's duration counts from
its first partition; one at rest has none. A pattern of RE2 (KIP-1152) matches a whole transactional id. Its time is
linear in its instructions and in the id, which may have 32 KiB, so their product has a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...protocol import ErrorCode, KafkaError, numbers_by_topic
from ...protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopicData,
    DescribeTransactionsResponseTransactionState,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ...protocol.net import SLICED_ELEMENTS_MIN, Portions, RequestContext, Slices
from ..groups.core.consumer.topics import MATCH_COST, PROGRAM_PER_ELEMENT, Pattern, compiled
from ..replicas.hosted_partitions import HostedPartitions
from ..replicas.leadership import WallClock
from ..transactions.coordinator import TransactionCoordinator
from ..transactions.core.states import TransactionState, TransactionValue

DESCRIBE_COST: Final = 2
"""What the description of a transaction costs on the loop besides its partitions, in elements of `pace`."""
MATCH_WORK_MAX: Final = 5_000_000
"""Instructions of a pattern times bytes of a transactional id, as RE2 reads it: one match takes 20 ms at most."""

Found = tuple[str, TransactionValue]
"""A transactional id, and what it was when it was found."""

_STATES: Final = {state.label: state for state in TransactionState}


class TransactionAdminHandlers:
    """Answers for what this broker coordinates and leads."""

    def __init__(self, hosted: HostedPartitions, transactions: TransactionCoordinator, now_ms: WallClock) -> None:
        self._hosted = hosted
        self._transactions = transactions
        self._now_ms = now_ms

    async def describe_transactions(
        self, _: RequestContext, request: DescribeTransactionsRequest
    ) -> DescribeTransactionsResponse:
        found = ((name, *self._found(name)) for name in request.transactional_ids)
        states: list[DescribeTransactionsResponseTransactionState] = []
        async for some in Portions(found, _cost_of, free=SLICED_ELEMENTS_MIN):
            states += [_state_of(*each) for each in some]
        return DescribeTransactionsResponse(transaction_states=tuple(states))

    def _found(self, name: str) -> tuple[ErrorCode, TransactionValue | None]:
        if not name:
            return ErrorCode.invalid_request, None
        try:
            transaction = self._transactions.described(name)
        except KafkaError as refusal:
            return refusal.code, None
        value = None if transaction is None else transaction.value
        return ErrorCode.none if value is not None else ErrorCode.transactional_id_not_found, value

    # The list.

    async def list_transactions(self, _: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
        unknown = tuple(sorted(set(request.state_filters) - _STATES.keys()))
        if not all(active.is_loaded for active in self._transactions.shards):
            return ListTransactionsResponse(
                error_code=ErrorCode.coordinator_load_in_progress, unknown_state_filters=unknown, transaction_states=()
            )
        states, ids = frozenset(request.state_filters), frozenset(request.producer_id_filters)
        found: list[Found] = []
        try:
            pattern = compiled(request.transactional_id_pattern) if request.transactional_id_pattern else None
            async for some in Slices(self._all()):
                found += [each for each in some if self._is_wanted(states, ids, request.duration_filter, each[1])]
            if pattern is not None:
                found = await _matching(pattern, found)
        except KafkaError as refusal:
            return ListTransactionsResponse(
                error_code=refusal.code, unknown_state_filters=unknown, transaction_states=()
            )
        listed: list[ListTransactionsResponseTransactionState] = []
        async for some in Slices(found, free=SLICED_ELEMENTS_MIN):
            listed += [
                ListTransactionsResponseTransactionState(
                    transactional_id=name, producer_id=value.producer_id, transaction_state=value.state.label
                )
                for name, value in some
            ]
        return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=tuple(listed))

    def _all(self) -> Iterator[Found]:
        for active in list(self._transactions.shards):
            for transaction in list(active.shard.transactions.values()):
                if transaction.value is not None:
                    yield transaction.transactional_id, transaction.value

    def _is_wanted(
        self, states: frozenset[str], ids: frozenset[int], duration_ms: int, value: TransactionValue
    ) -> bool:
        if states and value.state.label not in states:
            return False
        if ids and value.producer_id not in ids:
            return False
        if duration_ms < 0:
            return True
        return not value.is_at_rest and self._now_ms() - value.start_ms > duration_ms

    # Producers of partitions.

    async def describe_producers(
        self, _: RequestContext, request: DescribeProducersRequest
    ) -> DescribeProducersResponse:
        topics = [
            TopicResponse(
                name=topic.name,
                partitions=tuple([await self._producers(topic.name, number) for number in topic.partition_indexes]),
            )
            for topic in request.topics
        ]
        return DescribeProducersResponse(topics=tuple(topics))

    async def _producers(self, topic: str, number: int) -> PartitionResponse:
        try:
            partition = self._hosted.find(topic, number)
            partition.leader()
        except KafkaError as error:
            return PartitionResponse(
                partition_index=number, error_code=error.code, error_message=error.message, active_producers=()
            )
        entries = partition.log.state.producers.entries
        found: list[ProducerState] = []
        async for some in Slices(list(entries)):
            for producer_id in some:
                entry = entries.get(producer_id)
                if entry is not None:
                    start = entry.current_txn_first_offset
                    found.append(
                        ProducerState(
                            producer_id=producer_id,
                            producer_epoch=entry.producer_epoch,
                            last_sequence=entry.last_sequence,
                            last_timestamp=entry.last_timestamp_ms,
                            coordinator_epoch=entry.coordinator_epoch,
                            current_txn_start_offset=-1 if start is None else start,
                        )
                    )
        return PartitionResponse(partition_index=number, active_producers=tuple(found))


async def _matching(pattern: Pattern, found: list[Found]) -> list[Found]:
    """Return those whose ids match. Raise INVALID_REGULAR_EXPRESSION if the longest id costs too much."""
    longest = 0
    async for some in Slices(found):
        longest = max(longest, *[len(name.encode()) for name, _ in some])
    work = pattern.programsize * longest
    if work > MATCH_WORK_MAX:
        message = f"the pattern has {pattern.programsize} instructions, a transactional id {longest} bytes"
        raise KafkaError(ErrorCode.invalid_regular_expression, message)
    matching: list[Found] = []
    async for some in Slices(found, weight=MATCH_COST + work / PROGRAM_PER_ELEMENT):
        matching += [each for each in some if pattern.fullmatch(each[0])]
    return matching


def _cost_of(found: tuple[str, ErrorCode, TransactionValue | None]) -> int:
    value = found[2]
    return DESCRIBE_COST + (0 if value is None else len(value.partitions))


def _state_of(
    name: str, error: ErrorCode, value: TransactionValue | None
) -> DescribeTransactionsResponseTransactionState:
    by_topic = {} if value is None else numbers_by_topic(value.partitions)
    return DescribeTransactionsResponseTransactionState(
        error_code=error,
        transactional_id=name,
        transaction_state="" if value is None else value.state.label,
        transaction_timeout_ms=0 if value is None else value.timeout_ms,
        transaction_start_time_ms=0 if value is None else value.start_ms,
        producer_id=0 if value is None else value.producer_id,
        producer_epoch=0 if value is None else value.producer_epoch,
        topics=tuple(
            DescribeTransactionsResponseTopicData(topic=topic, partitions=tuple(numbers))
            for topic, numbers in by_topic.items()
        ),
    )

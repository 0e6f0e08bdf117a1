"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn: what producers and brokers ask a coordinator.

| request | what | code |
|---|---|---|
| InitProducerId | without a transactional id | any broker answers; COORDINATOR_LOAD_IN_PROGRESS while it has no ids |
| | an empty transactional id; a producer id without an epoch, or the reverse | INVALID_REQUEST |
| | a timeout above `transaction.max.timeout.ms`, or below 1 | INVALID_TRANSACTION_TIMEOUT |
| AddPartitionsToTxn | an internal topic, from a client: a marker is no record of it | TOPIC_AUTHORIZATION_FAILED |
| | an unknown partition | UNKNOWN_TOPIC_OR_PARTITION; those beside it OPERATION_NOT_ATTEMPTED |
| | to be verified, and not in the transaction | TRANSACTION_ABORTABLE |
| all | not coordinated here, or still being read | NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS |
| | fenced | PRODUCER_FENCED; INVALID_PRODUCER_EPOCH to clients that do not know it |

AddPartitionsToTxn from version 4 on comes from brokers, for any number of transactional ids (KIP-890).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from ...protocol import INTERNAL_TOPICS, OUTSIDE, REMOTE_LOG_METADATA_TOPIC, ErrorCode, KafkaError, TopicPartition
from ...protocol.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
)
from ...protocol.net import SLICED_ELEMENTS_MIN, RequestContext, Slices
from ..cluster.producer_ids import ProducerIds
from ..cluster.view import ClusterView
from ..groups.coordinator import GroupCoordinator
from ..transactions.coordinator import TransactionCoordinator
from ..transactions.core.events import NO_PRODUCER, AddPartitions, End, Init, Producer
from ..transactions.core.states import EPOCH_BUMP_SINCE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ..transactions.parts import transaction_version

INIT_KNOWS_FENCED: Final = 4
ADD_KNOWS_FENCED: Final = 2
END_KNOWS_FENCED: Final = 2
"""The versions from which a request's senders know PRODUCER_FENCED (KIP-588)."""
CLOSED_TOPICS: Final = INTERNAL_TOPICS | {REMOTE_LOG_METADATA_TOPIC}
ADD_BATCHED_SINCE: Final = 4
ADD_BUMPS_SINCE: Final = 5
END_BUMPS_SINCE: Final = 5
TRANSACTION_WEIGHT: Final = 20
"""What one of many transactional ids costs on the loop, in elements of `pace`."""
TRANSACTIONS_FREE: Final = 20


class TransactionHandlers:
    """Answers for the transactional ids that this broker coordinates."""

    def __init__(
        self, view: ClusterView, ids: ProducerIds, transactions: TransactionCoordinator, groups: GroupCoordinator
    ) -> None:
        self._view = view
        self._ids = ids
        self._transactions = transactions
        self._groups = groups

    async def init_producer_id(self, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
        try:
            expected = _expected(request)
            if request.transactional_id is None:
                return await self._idempotent()
            producer = await self._init(request.transactional_id, request.transaction_timeout_ms, expected)
        except KafkaError as error:
            code = _known(error.code, context, INIT_KNOWS_FENCED)
            return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
        return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)

    async def _idempotent(self) -> InitProducerIdResponse:
        try:
            return InitProducerIdResponse(producer_id=await self._ids.next(), producer_epoch=0)
        except OUTSIDE:
            code = ErrorCode.coordinator_load_in_progress
            return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)

    async def _init(self, transactional_id: str, timeout_ms: int, expected: Producer | None) -> Producer:
        if not transactional_id:
            raise KafkaError(ErrorCode.invalid_request, "expected a transactional id")
        if not 0 < timeout_ms <= self._transactions.settings.timeout_max_ms:
            raise KafkaError(ErrorCode.invalid_transaction_timeout, f"transaction.timeout.ms of {timeout_ms}")
        reply = await self._transactions.ask(
            transactional_id,
            lambda token: Init(
                token=token,
                timeout_ms=timeout_ms,
                expected=expected,
                transaction_version=transaction_version(self._view),
            ),
        )
        if reply.error is not ErrorCode.none:
            raise KafkaError(reply.error, f"transactional id {transactional_id!r}")
        return reply.producer

    # Partitions.

    async def add_partitions(
        self, context: RequestContext, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse:
        version = context.api_version
        if version >= ADD_BATCHED_SINCE:
            results: list[AddPartitionsToTxnResult] = []
            async for some in Slices(request.transactions, weight=TRANSACTION_WEIGHT, free=TRANSACTIONS_FREE):
                for transaction in some:
                    topic_results = await self._of_broker(transaction, version)
                    answered = AddPartitionsToTxnResult(
                        transactional_id=transaction.transactional_id, topic_results=topic_results
                    )
                    results.append(answered)
            return AddPartitionsToTxnResponse(results_by_transaction=tuple(results))
        producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        topics = request.v3_and_below_topics
        names = await _names(topics)
        codes = await self._refused(names, CLOSED_TOPICS)
        if not codes:
            error = await self._add(request.v3_and_below_transactional_id, producer, names)
            codes = dict.fromkeys(names, _known(error, context, ADD_KNOWS_FENCED))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _by_topic(topics, codes))

    async def _refused(
        self, names: frozenset[TopicPartition], closed: Collection[str] = ()
    ) -> dict[TopicPartition, ErrorCode]:
        """Return the answers where some of the partitions do not exist, or are of a closed topic; else nothing."""
        codes: dict[TopicPartition, ErrorCode] = {}
        other = ErrorCode.operation_not_attempted
        async for some in Slices(names, free=SLICED_ELEMENTS_MIN):
            for name in some:
                if name.topic in closed:
                    codes[name] = ErrorCode.topic_authorization_failed
                else:
                    is_absent = self._view.image.partition(name) is None
                    codes[name] = ErrorCode.unknown_topic_or_partition if is_absent else other
        return codes if any(code is not other for code in codes.values()) else {}

    async def _of_broker(
        self, transaction: AddPartitionsToTxnTransaction, version: int
    ) -> tuple[AddPartitionsToTxnTopicResult, ...]:
        topics = transaction.topics
        names = await _names(topics)
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        codes = await self._refused(names)
        if codes:
            return await _by_topic(topics, codes)
        if transaction.verify_only:
            codes = self._verify(transaction.transactional_id, producer, names)
        else:
            bumps = EPOCH_BUMP_SINCE if version >= ADD_BUMPS_SINCE else 0
            codes = dict.fromkeys(names, await self._add(transaction.transactional_id, producer, names, bumps))
        return await _by_topic(topics, codes)

    def _verify(
        self, transactional_id: str, producer: Producer, names: frozenset[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        if not transactional_id:
            return dict.fromkeys(names, ErrorCode.invalid_request)
        try:
            verified = self._transactions.verify(transactional_id, producer, names)
        except KafkaError as error:
            verified = error.code
        if isinstance(verified, ErrorCode):
            return dict.fromkeys(names, verified)
        absent = ErrorCode.transaction_abortable
        return {name: ErrorCode.none if name in verified else absent for name in names}

    async def _add(
        self, transactional_id: str, producer: Producer, names: frozenset[TopicPartition], version: int = 0
    ) -> ErrorCode:
        if not transactional_id:
            return ErrorCode.invalid_request
        try:
            reply = await self._transactions.ask(
                transactional_id,
                lambda token: AddPartitions(
                    token=token, producer=producer, partitions=names, transaction_version=version
                ),
            )
        except KafkaError as error:
            return error.code
        return reply.error

    async def add_offsets(self, context: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
        """Add the partition that holds the group's offsets."""
        producer = Producer(request.producer_id, request.producer_epoch)
        try:
            name = await self._groups.partition_of(request.group_id)
        except KafkaError as error:
            return AddOffsetsToTxnResponse(error_code=error.code)
        error_code = await self._add(request.transactional_id, producer, frozenset({name}))
        return AddOffsetsToTxnResponse(error_code=_known(error_code, context, ADD_KNOWS_FENCED))

    # The end.

    async def end_txn(self, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
        version = EPOCH_BUMP_SINCE if context.api_version >= END_BUMPS_SINCE else 0
        producer = NO_PRODUCER
        if not request.transactional_id:
            return EndTxnResponse(error_code=ErrorCode.invalid_request)
        try:
            reply = await self._transactions.ask(
                request.transactional_id,
                lambda token: End(
                    token=token,
                    producer=Producer(request.producer_id, request.producer_epoch),
                    is_commit=request.committed,
                    transaction_version=version,
                ),
                parks=not request.committed,
            )
            error = reply.error
            if version >= EPOCH_BUMP_SINCE:
                producer = reply.producer
        except KafkaError as refusal:
            error = refusal.code
        return EndTxnResponse(
            error_code=_known(error, context, END_KNOWS_FENCED),
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
        )


def _expected(request: InitProducerIdRequest) -> Producer | None:
    """Return the producer that the client was so far, None for a new one. Raise INVALID_REQUEST for half of one."""
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch:
        raise KafkaError(ErrorCode.invalid_request, "expected a producer id with its epoch, or neither")
    return Producer(request.producer_id, request.producer_epoch) if has_id else None


def _known(error: ErrorCode, context: RequestContext, fenced_since: int) -> ErrorCode:
    is_unknown = error is ErrorCode.producer_fenced and context.api_version < fenced_since
    return ErrorCode.invalid_producer_epoch if is_unknown else error


async def _names(topics: Iterable[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    names: set[TopicPartition] = set()
    named = (TopicPartition(topic.name, number) for topic in topics for number in topic.partitions)
    async for some in Slices(named, free=SLICED_ELEMENTS_MIN):
        names.update(some)
    return frozenset(names)


async def _by_topic(
    topics: Iterable[AddPartitionsToTxnTopic], codes: dict[TopicPartition, ErrorCode]
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    results: list[AddPartitionsToTxnTopicResult] = []
    async for some in Slices(topics, free=SLICED_ELEMENTS_MIN):
        for topic in some:
            answers: list[AddPartitionsToTxnPartitionResult] = []
            async for numbers in Slices(topic.partitions, free=SLICED_ELEMENTS_MIN):
                for number in numbers:
                    code = codes[TopicPartition(topic.name, number)]
                    answers.append(AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code))
            results.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=tuple(answers)))
    return tuple(results)

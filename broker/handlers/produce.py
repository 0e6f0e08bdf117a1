"""Produce: one batch a partition is appended in place and acknowledged as the producer wants it.

| acks | answered when | needs |
|---|---|---|
| 0 | never; a refusal closes the connection, so that the producer looks for the leader again | - |
| 1 | the bytes are in the leader's file | - |
| -1 (all) | the high watermark has passed them | an ISR of min.insync.replicas, before and until then |

| what goes wrong | code |
|---|---|
| other acks | INVALID_REQUIRED_ACKS |
| no records | INVALID_RECORD |
| an internal topic, a transactional batch | see `core.write_rules` |
| the ISR is too small before the append | NOT_ENOUGH_REPLICAS |
| not committed within `timeout.ms` | REQUEST_TIMED_OUT: it may be committed later |
| this broker stops leading meanwhile | NOT_LEADER_OR_FOLLOWER, with a hint where the leader is |
| the disk fails | KAFKA_STORAGE_ERROR |

Appends of one connection keep their order: requests begin in order; one for several partitions starts a task for each,
and tasks start in the order in which they were made, so that one for a single partition does without as long as no task
has still to start. One for very many partitions starts them in slices; it is alone on its connection meanwhile. Record
bytes are stamped in the network buffer and written from there.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final
from uuid import UUID

from ...limited_log import LimitedLog
from ...log.core import AppendOrigin
from ...protocol import ErrorCode, KafkaError
from ...protocol.net import SLICED_ELEMENTS_MIN, RequestContext, Slices, done_within
from ...protocol.records import Buffer, has_transactional_bit, parse_header
from ...protocol.wire import (
    ACKS_ALL,
    ACKS_LEADER,
    ACKS_NONE,
    LeaderIdAndEpoch,
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
)
from ..core.write_rules import IsOngoing, check_topic, check_transaction, none_ongoing
from ..replicas.hosted_partitions import HostedPartitions
from ..replicas.partition import PLAIN, Partition, TransactionAppend
from ..transactions.core.events import Producer
from ..transactions.verifier import Question, TransactionVerifier

KNOWS_ABORTABLE_SINCE: Final = 11
ADDS_SINCE: Final = 12
"""The versions from which a producer knows TRANSACTION_ABORTABLE, and has its partitions added here (KIP-890)."""

PARTITION_WEIGHT: Final = 20
"""What a partition costs the event loop, in elements of `pace`."""

_Answer = asyncio.Task[ProducePartitionResponse] | ProducePartitionResponse
_WRONG_BROKER = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})

_log = LimitedLog(logging.getLogger(__name__))


class ProduceHandler:
    """Appends to the partitions that this broker leads."""

    def __init__(
        self,
        hosted: HostedPartitions,
        *,
        broker_listener: str | None = None,
        is_ongoing: IsOngoing = none_ongoing,
        verifier: TransactionVerifier | None = None,
    ) -> None:
        """`broker_listener` is the inter-broker listener, None if clients use it too. A `verifier` asks transaction
        coordinators, in the place of `is_ongoing`.
        """
        self._verifier = verifier
        self._hosted = hosted
        self._broker_listener = broker_listener
        self._is_ongoing = is_ongoing
        self._to_start = 0
        """Requests for several partitions whose tasks have not begun yet."""

    async def produce(self, context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
        """None with acks=0; KafkaError then if a partition refused."""
        if len(request.topics) == 1 and len(request.topics[0].partitions) == 1 and not self._to_start:
            (topic,) = request.topics
            answer = await self._produce(context, request, topic.topic_id or topic.topic, topic.partitions[0])
            topics: tuple[ProduceTopicResponse, ...] = (ProduceTopicResponse((answer,), topic.topic, topic.topic_id),)
        else:
            topics = await self._produce_to_all(context, request)
        if request.acks == ACKS_NONE:
            # A closed connection is the only signal that a producer with acks=0 can see.
            _refuse_silent_failures(topics)
            return None
        hints = {answer.current_leader for topic in topics for answer in topic.partitions if answer.current_leader}
        return ProduceResponse(
            topics=topics, node_endpoints=self._hosted.endpoints(hints, context.listener) if hints else ()
        )

    async def _produce_to_all(
        self, context: RequestContext, request: ProduceRequest
    ) -> tuple[ProduceTopicResponse, ...]:
        wanted = ((index, partition) for index, topic in enumerate(request.topics) for partition in topic.partitions)
        answers: list[list[_Answer]] = [[] for _ in request.topics]
        async with asyncio.TaskGroup() as group:
            async for some in Slices(wanted, weight=PARTITION_WEIGHT, free=SLICED_ELEMENTS_MIN):
                for index, partition in some:
                    topic = request.topics[index]
                    answers[index].append(
                        self._start(group, context, request, topic.topic_id or topic.topic, partition)
                    )
            self._to_start += 1
            asyncio.get_running_loop().call_soon(self._have_started)  # its turn comes after that of the tasks
        responses: list[ProduceTopicResponse] = []
        async for pairs in Slices(zip(request.topics, answers, strict=True), free=SLICED_ELEMENTS_MIN):
            responses += [
                ProduceTopicResponse(tuple(map(_result, topic_answers)), topic.topic, topic.topic_id)
                for topic, topic_answers in pairs
            ]
        return tuple(responses)

    def _start(
        self,
        group: asyncio.TaskGroup,
        context: RequestContext,
        request: ProduceRequest,
        topic: str | UUID,
        wanted: ProducePartition,
    ) -> _Answer:
        """Return the task of an append, or at once why there is none: a rejected partition costs no task."""
        try:
            self._find_partition(request, topic, wanted)
        except KafkaError as error:
            return self._rejected(topic, wanted, error)
        return group.create_task(self._produce(context, request, topic, wanted))

    def _have_started(self) -> None:
        self._to_start -= 1

    async def _produce(
        self, context: RequestContext, request: ProduceRequest, topic: str | UUID, partition: ProducePartition
    ) -> ProducePartitionResponse:
        try:
            return await self._append(context, request, topic, partition)
        except KafkaError as error:
            return self._rejected(topic, partition, error)
        except OSError as error:
            message = "%s-%d: append failed: %s; check the log directory's disk"
            _log.error(str(topic), message, topic, partition.partition, error)
            return ProducePartitionResponse(
                partition.partition, ErrorCode.kafka_storage_error, error_message=error.strerror
            )

    def _rejected(self, topic: str | UUID, wanted: ProducePartition, error: KafkaError) -> ProducePartitionResponse:
        hint: LeaderIdAndEpoch | None = None
        if error.code in _WRONG_BROKER:
            hint = self._hosted.leader_hint(topic, wanted.partition)
        return ProducePartitionResponse(
            wanted.partition, error.code, error_message=error.message or None, current_leader=hint
        )

    def _find_partition(self, request: ProduceRequest, topic: str | UUID, wanted: ProducePartition) -> Partition:
        if request.acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
            raise KafkaError(ErrorCode.invalid_required_acks, f"acks={request.acks}: expected -1, 0 or 1")
        if not wanted.records:
            raise KafkaError(ErrorCode.invalid_record, "a produce request without records")
        return self._hosted.find(topic, wanted.partition)

    async def _append(
        self, context: RequestContext, request: ProduceRequest, topic: str | UUID, wanted: ProducePartition
    ) -> ProducePartitionResponse:
        partition = self._find_partition(request, topic, wanted)
        records = wanted.records
        assert isinstance(records, memoryview), "a decoded request holds a view of its frame"
        self._check(context, partition.partition.topic_partition.topic)
        transaction = PLAIN
        if has_transactional_bit(records):
            transaction = await self._verified(context, request, partition, records)
        acks_all = request.acks == ACKS_ALL
        appended = await partition.append(records, AppendOrigin.CLIENT, acks_all=acks_all, transaction=transaction)
        traffic = self._hosted.traffic
        traffic.produced_bytes += len(records)
        traffic.produced_records += appended.last_offset + 1 - appended.first_offset
        # acks=-1 is acknowledged only once every in-sync replica has the batch; acks=1 already by our own append.
        if acks_all:
            committed = partition.committed(appended.last_offset + 1, appended.leader_epoch)
            if committed is not None:
                await _in_time(committed, request.timeout_ms)
        return ProducePartitionResponse(
            wanted.partition,
            base_offset=appended.first_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=appended.log_start_offset,
        )

    def _check(self, context: RequestContext, topic: str) -> None:
        is_from_broker = None if self._broker_listener is None else context.listener == self._broker_listener
        check_topic(topic, context.client_id, is_from_broker=is_from_broker)

    async def _verified(
        self, context: RequestContext, request: ProduceRequest, partition: Partition, records: Buffer
    ) -> TransactionAppend:
        """Return the guard of a transactional batch. Raise KafkaError unless its transaction is ongoing."""
        header, transactional_id = parse_header(records, 0), request.transactional_id
        if self._verifier is None or transactional_id is None:
            check_transaction(transactional_id, header.producer_id, header.producer_epoch, self._is_ongoing)
            return PLAIN
        partition.leader()  # a batch for another broker is no question to a coordinator
        version = context.api_version
        question = Question(
            transactional_id, Producer(header.producer_id, header.producer_epoch), adds=version >= ADDS_SINCE
        )
        knows_abortable = version >= KNOWS_ABORTABLE_SINCE
        guard = await self._verifier.verify(
            partition, question, knows_abortable=knows_abortable, sequence=header.base_sequence
        )
        return TransactionAppend(guard=guard)


def _result(answer: _Answer) -> ProducePartitionResponse:
    return answer.result() if isinstance(answer, asyncio.Task) else answer


async def _in_time(committed: asyncio.Future[None], timeout_ms: int) -> None:
    try:
        await done_within(committed, timeout_ms / 1000)
    except TimeoutError:
        # The batch stays and may be committed later: the producer must retry with the same sequence.
        message = f"appended, but not committed within {timeout_ms} ms"
        raise KafkaError(ErrorCode.request_timed_out, message) from None


def _refuse_silent_failures(topics: tuple[ProduceTopicResponse, ...]) -> None:
    for topic in topics:
        for answer in topic.partitions:
            if answer.error_code is not ErrorCode.none:
                raise KafkaError(
                    answer.error_code,
                    f"{topic.topic or topic.topic_id}-{answer.partition}: {answer.error_message} (acks=0)",
                )

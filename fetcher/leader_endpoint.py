"""A broker as the leader that this one follows: `fetcher.ports.LeaderEndpoint` over the wire.

Fetches have a connection of their own, because answers come in the order of their requests and questions must not wait
behind a long fetch. Questions of many replicas go in few requests (`gathered_questions`). Fetches are incremental
(KIP-227):

    what happens                              the session afterwards
    ----------------------------------------  -------------------------------------------------------------
    answered, full request                    the one that the leader opened, or none
    answered, incremental request             continues
    the leader no longer knows it             none; the same partitions are asked for in full at once
    refused, or not what was asked            none
    cancelled, failed, not answered           none, and the connection is closed: a long fetch that nobody
                                              waits for would hold up the next one
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from ..log.core import EpochEnd
from ..protocol import ApiKey, ErrorCode, KafkaError, TopicIdPartition, TopicPartition
from ..protocol.fetch import (
    HIGH_WATERMARK_UNKNOWN,
    LOCAL_LOG_START_UNKNOWN,
    ArrivedAnswer,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchSession,
    is_same_partition,
)
from ..protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ..protocol.net import Address, KafkaClient
from ..protocol.wire import BUFFER_TYPES
from ..remote.core import OffsetAndEpoch
from .core.partition_fetch import FetchedPartition, FetchLimits, PartitionToFetch
from .gathered_questions import GatheredQuestions
from .ports import Arrived, Begins, pass_over

NOTHING: Final = memoryview(b"")
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)


class _EpochQuestion(NamedTuple):
    """Where `epoch` ends, asked of the leader in `leader_epoch`."""

    leader_epoch: int
    epoch: int


AnswerT = TypeVar("AnswerT")


class ReplicaDetails(NamedTuple):
    """What a fetch says of a replica beyond its position. `high_watermark`: for leaders that answer at once where
    theirs is higher (KIP-1166). `local_log_start_offset`: of a thin replica (`thin_replicas`).
    """

    high_watermark: int = HIGH_WATERMARK_UNKNOWN
    local_log_start_offset: int = LOCAL_LOG_START_UNKNOWN


NO_DETAILS: Final = ReplicaDetails()


def no_details(_: TopicIdPartition) -> ReplicaDetails:
    return NO_DETAILS


class BrokerEndpoint:
    """The broker `broker_id`; `address` returns where it listens, `replica_epoch` the epoch of this broker's own
    registration, `details` what there is to say of a replica. `fetches` is its own to close, `questions` shared. A
    `replica_id` of -1 is a consumer's (`embedded`).
    """

    def __init__(
        self,
        broker_id: int,
        address: Callable[[], Address],
        *,
        replica_id: int,
        replica_epoch: Callable[[], int],
        fetches: KafkaClient,
        questions: KafkaClient,
        timeout_s: float,
        details: Callable[[TopicIdPartition], ReplicaDetails] = no_details,
    ) -> None:
        self._details = details
        self._broker_id = broker_id
        self._address = address
        self._replica_id = replica_id
        self._replica_epoch = replica_epoch
        self._fetches = fetches
        self._questions = questions
        self._timeout_s = timeout_s
        self._offsets = GatheredQuestions(self._list_offsets)
        """A kind is a timestamp of ListOffsets, as a request has each partition once."""
        self._epoch_ends = GatheredQuestions(self._list_epoch_ends)
        self._session = FetchSession()
        self._wanted: dict[TopicIdPartition, FetchPartition] = {}
        self._touched: dict[TopicIdPartition, None] = {}
        """The partitions, wanted or no longer wanted, with a change that the session has not seen yet."""

    @property
    def broker_id(self) -> int:
        return self._broker_id

    async def close(self) -> None:
        await self._offsets.close()
        await self._epoch_ends.close()
        await self._fetches.close()

    async def fetch(
        self,
        partitions: Mapping[TopicIdPartition, PartitionToFetch],
        touched: Collection[TopicIdPartition],
        limits: FetchLimits,
        arrived: Arrived,
        begins: Begins = pass_over,
    ) -> Mapping[TopicIdPartition, FetchedPartition]:
        for key in touched:
            request = partitions.get(key)
            wire = None if request is None else _wire(request, self._details(key))
            if is_same_partition(wire, self._wanted.get(key)):
                continue
            self._touched[key] = None
            self._wanted.pop(key, None)
            if wire is not None:
                self._wanted[key] = wire
        try:
            answers = await self._fetch(limits, arrived, begins)
        except KafkaError as error:
            if error.code not in _SESSION_ERRORS:
                raise KafkaError(error.code, f"broker {self._broker_id}: {error.message}") from error
            answers = await self._fetch(limits, arrived, begins)
        fetched = {}
        for key, answer in answers.items():
            fetched[key] = _answer(answer)
        return fetched

    async def _fetch(
        self, limits: FetchLimits, arrived: Arrived, begins: Begins
    ) -> Mapping[TopicIdPartition, FetchPartitionResponse]:
        connection = await self._fetches.connection(self._address())
        session = self._session.next_request(self._wanted, self._touched)
        self._touched = {}
        request = FetchRequest(
            limits.wait_max_ms,
            limits.min_bytes,
            session.topics,
            limits.response_max_bytes,
            replica_id=self._replica_id,
            replica_epoch=self._replica_epoch(),
            session_id=session.session_id,
            session_epoch=session.session_epoch,
            forgotten_topics=session.forgotten_topics,
        )
        asked = self._session.asked()

        def report(early: ArrivedAnswer) -> None:
            key = asked.get((early.topic_id or early.topic, early.answer.partition))
            if key is not None:
                arrived(key, _answer(early.answer))

        timeout_s = limits.wait_max_ms / 1000 + self._timeout_s
        try:
            response = await connection.fetch(
                request, timeout_s=timeout_s, arrived=report, begins=begins, partitions_max=len(self._wanted)
            )
        except BaseException:
            self._session.request_failed()
            connection.close()
            raise
        return self._session.response_received(response)

    async def list_offset(self, partition: TopicIdPartition, leader_epoch: int, timestamp: int) -> OffsetAndEpoch:
        return await self._offsets.answer(timestamp, partition.topic_partition, leader_epoch)

    async def end_offset_for_leader_epoch(self, partition: TopicIdPartition, leader_epoch: int, epoch: int) -> EpochEnd:
        question = _EpochQuestion(leader_epoch, epoch)
        return await self._epoch_ends.answer(ApiKey.OFFSET_FOR_LEADER_EPOCH, partition.topic_partition, question)

    async def _list_offsets(
        self, timestamp: int, leader_epochs: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, OffsetAndEpoch | KafkaError]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for partition, leader_epoch in leader_epochs.items():
            topics.setdefault(partition.topic, []).append(
                ListOffsetsPartition(
                    partition_index=partition.partition, current_leader_epoch=leader_epoch, timestamp=timestamp
                )
            )
        request = ListOffsetsRequest(
            replica_id=self._replica_id,
            timeout_ms=int(self._timeout_s * 1000),
            topics=tuple(ListOffsetsTopic(name=name, partitions=tuple(wanted)) for name, wanted in topics.items()),
        )
        response = await self._questions.send(self._address(), request, timeout_s=self._timeout_s)
        answers = (
            (TopicPartition(topic.name, answer.partition_index), answer.error_code, answer)
            for topic in response.topics
            for answer in topic.partitions
        )
        found = self._one_answer_each(ApiKey.LIST_OFFSETS, leader_epochs, answers)
        return {
            partition: answer if isinstance(answer, KafkaError) else OffsetAndEpoch(answer.offset, answer.leader_epoch)
            for partition, answer in found.items()
        }

    async def _list_epoch_ends(
        self, api: ApiKey, questions: Mapping[TopicPartition, _EpochQuestion]
    ) -> Mapping[TopicPartition, EpochEnd | KafkaError]:
        topics: dict[str, list[OffsetForLeaderPartition]] = {}
        for partition, question in questions.items():
            topics.setdefault(partition.topic, []).append(
                OffsetForLeaderPartition(
                    partition=partition.partition,
                    current_leader_epoch=question.leader_epoch,
                    leader_epoch=question.epoch,
                )
            )
        request = OffsetForLeaderEpochRequest(
            replica_id=self._replica_id,
            topics=tuple(OffsetForLeaderTopic(topic=name, partitions=tuple(wanted)) for name, wanted in topics.items()),
        )
        response = await self._questions.send(self._address(), request, timeout_s=self._timeout_s)
        answers = (
            (TopicPartition(topic.topic, answer.partition), answer.error_code, answer)
            for topic in response.topics
            for answer in topic.partitions
        )
        found = self._one_answer_each(api, questions, answers)
        return {
            partition: answer if isinstance(answer, KafkaError) else EpochEnd(answer.leader_epoch, answer.end_offset)
            for partition, answer in found.items()
        }

    def _one_answer_each(
        self, api: ApiKey, asked: Iterable[TopicPartition], answers: Iterable[tuple[TopicPartition, ErrorCode, AnswerT]]
    ) -> dict[TopicPartition, AnswerT | KafkaError]:
        """Return the answer for each partition that the leader was asked about: KafkaError with the code in it, or with
        UNKNOWN_SERVER_ERROR if there are more or fewer answers than one.
        """
        given: dict[TopicPartition, list[tuple[ErrorCode, AnswerT]]] = {partition: [] for partition in asked}
        for partition, code, answer in answers:
            if partition in given:
                given[partition].append((code, answer))
        found: dict[TopicPartition, AnswerT | KafkaError] = {}
        for partition, of_partition in given.items():
            question = f"{api.name} of {partition} at broker {self._broker_id}"
            if len(of_partition) != 1:
                reason = f"{question}: expected one answer, found {len(of_partition)}"
                found[partition] = KafkaError(ErrorCode.unknown_server_error, reason)
                continue
            [(code, answer)] = of_partition
            found[partition] = answer if code is ErrorCode.none else KafkaError(code, question)
        return found


def _wire(wanted: PartitionToFetch, details: ReplicaDetails) -> FetchPartition:
    return FetchPartition(
        wanted.partition.partition,
        wanted.current_leader_epoch,
        wanted.fetch_offset,
        wanted.last_fetched_epoch,
        wanted.log_start_offset,
        wanted.max_bytes,
        None,
        details.high_watermark,
        details.local_log_start_offset,
    )


def _answer(answer: FetchPartitionResponse) -> FetchedPartition:
    diverging = answer.diverging_epoch
    records = answer.records
    assert records is None or isinstance(records, BUFFER_TYPES), records
    is_sent_elsewhere = answer.preferred_read_replica >= 0  # a consumer alone, by the leader's selector (KIP-392)
    return FetchedPartition(
        ErrorCode.replica_not_available if is_sent_elsewhere else answer.error_code,
        answer.high_watermark,
        answer.log_start_offset,
        None if diverging is None else EpochEnd(diverging.epoch, diverging.end_offset),
        memoryview(records) if records else NOTHING,
    )

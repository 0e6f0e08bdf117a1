"""A broker as the leader that this one follows: `fetcher.ports.LeaderEndpoint` over the wire.

Fetches have a connection of their own, because answers come in the order of their requests and questions must not wait
behind a long fetch. They are incremental (KIP-227):

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

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from ..log.core import EpochEnd
from ..protocol import ApiKey, ErrorCode, KafkaError, TopicIdPartition
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
from .ports import Arrived, Begins, pass_over

NOTHING: Final = memoryview(b"")
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)


class _Answer(Protocol):
    @property
    def error_code(self) -> ErrorCode: ...


AnswerT = TypeVar("AnswerT", bound=_Answer)
AnswerT_co = TypeVar("AnswerT_co", bound=_Answer, covariant=True)


class _Topic(Protocol[AnswerT_co]):
    @property
    def partitions(self) -> Sequence[AnswerT_co]: ...


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
        self._session = FetchSession()
        self._wanted: dict[TopicIdPartition, FetchPartition] = {}
        self._touched: dict[TopicIdPartition, None] = {}
        """The partitions, wanted or no longer wanted, with a change that the session has not seen yet."""

    @property
    def broker_id(self) -> int:
        return self._broker_id

    async def close(self) -> None:
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
        wanted = ListOffsetsPartition(
            partition_index=partition.partition, current_leader_epoch=leader_epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._replica_id,
            timeout_ms=int(self._timeout_s * 1000),
            topics=(ListOffsetsTopic(name=partition.topic, partitions=(wanted,)),),
        )
        response = await self._questions.send(self._address(), request, timeout_s=self._timeout_s)
        answer = self._only_answer(ApiKey.LIST_OFFSETS, partition, response.topics)
        return OffsetAndEpoch(answer.offset, answer.leader_epoch)

    async def end_offset_for_leader_epoch(self, partition: TopicIdPartition, leader_epoch: int, epoch: int) -> EpochEnd:
        wanted = OffsetForLeaderPartition(
            partition=partition.partition, current_leader_epoch=leader_epoch, leader_epoch=epoch
        )
        request = OffsetForLeaderEpochRequest(
            replica_id=self._replica_id, topics=(OffsetForLeaderTopic(topic=partition.topic, partitions=(wanted,)),)
        )
        response = await self._questions.send(self._address(), request, timeout_s=self._timeout_s)
        answer = self._only_answer(ApiKey.OFFSET_FOR_LEADER_EPOCH, partition, response.topics)
        return EpochEnd(answer.leader_epoch, answer.end_offset)

    def _only_answer(self, api: ApiKey, partition: TopicIdPartition, topics: Sequence[_Topic[AnswerT]]) -> AnswerT:
        """Return the answer for the one partition that the leader was asked about. KafkaError with the code in it, or
        with UNKNOWN_SERVER_ERROR if there are more or fewer answers than one.
        """
        asked = f"{api.name} of {partition.topic_partition} at broker {self._broker_id}"
        if len(topics) != 1 or len(topics[0].partitions) != 1:
            found = sum(len(topic.partitions) for topic in topics)
            raise KafkaError(ErrorCode.unknown_server_error, f"{asked}: expected one answer, found {found}")
        answer = topics[0].partitions[0]
        if answer.error_code is not ErrorCode.none:
            raise KafkaError(answer.error_code, asked)
        return answer


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

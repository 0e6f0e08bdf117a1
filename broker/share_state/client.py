"""Asks share coordinators for what the group coordinator needs, share-partitions initialized, deleted, summarized, and
for what the leaders of partitions need, reads and writes.

    partitions -> by coordinator -> one request to each -> answers
                       ^                                     |
                       +------ back-off, who it is now <-----+ not now, until `CALL_S`

This broker asks itself over the wire too: there is one way. What is asked twice is harmless: group coordinators ask
only for what is not read yet, and a write that comes late changes nothing that came after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Final, Protocol, TypeVar
from uuid import UUID

from ...protocol import OUTSIDE, ErrorCode, KafkaError
from ...protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateRequestPartitionData,
    DeleteStateData,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateRequestPartitionData,
    InitializeStateData,
    ReadShareGroupStateRequest,
    ReadShareGroupStateRequestPartitionData,
    ReadShareGroupStateResponsePartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryRequestPartitionData,
    ReadShareGroupStateSummaryResponsePartitionResult,
    ReadStateData,
    ReadStateSummaryData,
    WriteShareGroupStateRequest,
    WriteShareGroupStateRequestPartitionData,
    WriteStateData,
)
from ...protocol.net import Address, KafkaClient
from .coordinator import ShareCoordinator
from .core.records import ShareKey

CALL_S: Final = 10.0
RETRY_MIN_S: Final = 0.02
RETRY_MAX_S: Final = 0.5
PARTITIONS_MAX: Final = 1_000
"""The number of partitions in one request."""
UNKNOWN_EPOCH: Final = -1

_NOT_NOW: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_topic_or_partition,  # A new topic may be known there later than here.
    }
)

SharePartition = tuple[UUID, int]
Answers = dict[SharePartition, "KafkaError | None"]
AnswerT = TypeVar("AnswerT")
PartitionT = TypeVar("PartitionT", covariant=True)
Ask = Callable[[Address, Sequence[SharePartition]], Awaitable[Mapping[SharePartition, "AnswerT | KafkaError"]]]


class ShareStateClient:
    """See the module's docstring."""

    def __init__(
        self,
        coordinator: ShareCoordinator,
        client: KafkaClient,
        rng: Random,
        *,
        timeout_s: float,
    ) -> None:
        self._coordinator = coordinator
        self._client = client
        self._rng = rng
        self._timeout_s = timeout_s

    async def initialize(self, group_id: str, offsets: Mapping[SharePartition, int], state_epoch: int) -> Answers:
        """Let share-partitions begin, or begin again, at offsets."""

        async def ask(address: Address, partitions: Sequence[SharePartition]) -> Answers:
            topics = tuple(
                InitializeStateData(
                    topic_id=topic_id,
                    partitions=tuple(
                        InitializeShareGroupStateRequestPartitionData(
                            partition=number, state_epoch=state_epoch, start_offset=offsets[topic_id, number]
                        )
                        for number in numbers
                    ),
                )
                for topic_id, numbers in _by_topic(partitions)
            )
            request = InitializeShareGroupStateRequest(group_id=group_id, topics=topics)
            answer = await self._client.send(address, request, timeout_s=self._timeout_s)
            return {
                (topic.topic_id, each.partition): _error(each.error_code, each.error_message)
                for topic in answer.results
                for each in topic.partitions
                if topic.topic_id is not None
            }

        return await self._ask(group_id, offsets, ask)

    async def delete(self, group_id: str, partitions: Iterable[SharePartition]) -> Answers:
        """Forget share-partitions; it is no error if there are none."""

        async def ask(address: Address, partitions: Sequence[SharePartition]) -> Answers:
            topics = tuple(
                DeleteStateData(
                    topic_id=topic_id,
                    partitions=tuple(DeleteShareGroupStateRequestPartitionData(partition=number) for number in numbers),
                )
                for topic_id, numbers in _by_topic(partitions)
            )
            request = DeleteShareGroupStateRequest(group_id=group_id, topics=topics)
            answer = await self._client.send(address, request, timeout_s=self._timeout_s)
            return {
                (topic.topic_id, each.partition): _error(each.error_code, each.error_message)
                for topic in answer.results
                for each in topic.partitions
                if topic.topic_id is not None
            }

        return await self._ask(group_id, partitions, ask)

    async def progress(
        self, group_id: str, partitions: Iterable[SharePartition]
    ) -> dict[SharePartition, KafkaError | ReadShareGroupStateSummaryResponsePartitionResult]:
        """Return how far share-partitions are."""

        async def ask(
            address: Address, partitions: Sequence[SharePartition]
        ) -> dict[SharePartition, KafkaError | ReadShareGroupStateSummaryResponsePartitionResult]:
            topics = tuple(
                ReadStateSummaryData(
                    topic_id=topic_id,
                    partitions=tuple(
                        ReadShareGroupStateSummaryRequestPartitionData(partition=number, leader_epoch=UNKNOWN_EPOCH)
                        for number in numbers
                    ),
                )
                for topic_id, numbers in _by_topic(partitions)
            )
            request = ReadShareGroupStateSummaryRequest(group_id=group_id, topics=topics)
            answer = await self._client.send(address, request, timeout_s=self._timeout_s)
            return {
                (topic.topic_id, each.partition): _error(each.error_code, each.error_message) or each
                for topic in answer.results
                for each in topic.partitions
                if topic.topic_id is not None
            }

        return await self._ask(group_id, partitions, ask)

    async def read(
        self, group_id: str, partition: SharePartition, leader_epoch: int
    ) -> ReadShareGroupStateResponsePartitionResult:
        """Return a share-partition to the leader of an epoch; leaders of older ones are fenced. Raise KafkaError."""

        async def ask(
            address: Address, _: Sequence[SharePartition]
        ) -> dict[SharePartition, KafkaError | ReadShareGroupStateResponsePartitionResult]:
            data = ReadShareGroupStateRequestPartitionData(partition=partition[1], leader_epoch=leader_epoch)
            topic = ReadStateData(topic_id=partition[0], partitions=(data,))
            request = ReadShareGroupStateRequest(group_id=group_id, topics=(topic,))
            answer = await self._client.send(address, request, timeout_s=self._timeout_s)
            each = _only(answer.results)
            return {partition: _error(each.error_code, each.error_message) or each}

        return _given((await self._ask(group_id, [partition], ask))[partition])

    async def write(self, group_id: str, topic_id: UUID, data: WriteShareGroupStateRequestPartitionData) -> None:
        """Return once what the leader of a partition says is durable. Raise KafkaError."""
        partition = topic_id, data.partition

        async def ask(address: Address, _: Sequence[SharePartition]) -> Answers:
            topic = WriteStateData(topic_id=topic_id, partitions=(data,))
            request = WriteShareGroupStateRequest(group_id=group_id, topics=(topic,))
            answer = await self._client.send(address, request, timeout_s=self._timeout_s)
            each = _only(answer.results)
            return {partition: _error(each.error_code, each.error_message)}

        _given((await self._ask(group_id, [partition], ask))[partition])

    async def _ask(
        self, group_id: str, partitions: Iterable[SharePartition], ask: Ask[AnswerT]
    ) -> dict[SharePartition, AnswerT | KafkaError]:
        """Ask until each partition has an answer that counts, or time is over; then the last one stands."""
        answers: dict[SharePartition, AnswerT | KafkaError] = {}
        missing, retry_s = list(partitions), RETRY_MIN_S
        deadline_s = asyncio.get_running_loop().time() + CALL_S
        while missing:
            answers |= await self._ask_once(group_id, missing, ask)
            missing = [each for each in missing if _is_not_now(answers.get(each))]
            pause_s = retry_s * self._rng.uniform(0.5, 1.0)
            if not missing or asyncio.get_running_loop().time() + pause_s >= deadline_s:
                break
            await asyncio.sleep(pause_s)
            retry_s = min(2 * retry_s, RETRY_MAX_S)
        return answers

    async def _ask_once(
        self, group_id: str, partitions: Sequence[SharePartition], ask: Ask[AnswerT]
    ) -> dict[SharePartition, AnswerT | KafkaError]:
        answers: dict[SharePartition, AnswerT | KafkaError] = {}
        by_broker: dict[Address, list[SharePartition]] = {}
        for topic_id, number in partitions:
            try:
                broker = await self._coordinator.find(str(ShareKey(group_id, topic_id, number)))
                by_broker.setdefault(Address(broker.host, broker.port), []).append((topic_id, number))
            except KafkaError as error:
                answers[topic_id, number] = error
        for address, some in by_broker.items():
            for begin in range(0, len(some), PARTITIONS_MAX):
                piece = some[begin : begin + PARTITIONS_MAX]
                try:
                    given = await ask(address, piece)
                except OUTSIDE as error:
                    failure = KafkaError(
                        ErrorCode.coordinator_not_available, f"share coordinator at {address}: {error}"
                    )
                    answers |= dict.fromkeys(piece, failure)
                else:
                    unanswered = KafkaError(ErrorCode.unknown_server_error, f"{address} did not answer for it")
                    answers |= {each: given.get(each, unanswered) for each in piece}
        return answers


class _Result(Protocol[PartitionT]):
    @property
    def partitions(self) -> Sequence[PartitionT]: ...


def _only(results: Iterable[_Result[PartitionT]]) -> PartitionT:
    """Return the answer for the only partition that was asked for. Raise KafkaError if there is none."""
    for result in results:
        for each in result.partitions:
            return each
    raise KafkaError(ErrorCode.unknown_server_error, "a share coordinator did not answer for the partition")


def _given(answer: AnswerT | KafkaError) -> AnswerT:
    if isinstance(answer, KafkaError):
        raise answer
    return answer


def _is_not_now(answer: object) -> bool:
    return isinstance(answer, KafkaError) and answer.code in _NOT_NOW


def _error(code: ErrorCode, message: str | None) -> KafkaError | None:
    return None if code is ErrorCode.none else KafkaError(code, message or code.name)


def _by_topic(partitions: Iterable[SharePartition]) -> list[tuple[UUID, list[int]]]:
    numbers: dict[UUID, list[int]] = {}
    for topic_id, number in partitions:
        numbers.setdefault(topic_id, []).append(number)
    return list(numbers.items())

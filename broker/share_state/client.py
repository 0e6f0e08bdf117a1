"""Asks share coordinators for what the group coordinator needs, share-partitions initialized, deleted, summarized, and
for what the leaders of partitions need, reads and writes.

    partitions -> by coordinator -> one request to each, all brokers together -> answers
                       ^                                                            |
                       +------------- back-off, who it is now <---------------------+ not now

All of that takes `CALL_S` at most: what has no answer by then is COORDINATOR_NOT_AVAILABLE. A broker that
does not answer keeps nothing from the others, and is given up after `timeout_s`.

This broker asks itself over the wire too: there is one way. What is asked twice, or comes late, is harmless: what lets
a share-partition begin, or forgets it, says in which epoch of the group, and a write that comes late changes nothing
that came after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from random import Random
from typing import Final, Generic, Protocol, TypeVar
from uuid import UUID

from ...light_dataclass import dataclass
from ...protocol import OUTSIDE, ErrorCode, KafkaError
from ...protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateRequestPartitionData,
    DeleteStateData,
    DeleteStateResult,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateRequestPartitionData,
    InitializeStateData,
    InitializeStateResult,
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
BROKERS_AT_ONCE: Final = 20
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
Ask = Callable[[Address, Sequence[SharePartition], float], Awaitable[Mapping[SharePartition, "AnswerT | KafkaError"]]]


@dataclass(slots=True)
class _Call(Generic[AnswerT]):
    """What is asked for, and the answers so far."""

    group_id: str
    partitions: Sequence[SharePartition]
    ask: Ask[AnswerT]
    deadline_s: float
    answers: dict[SharePartition, AnswerT | KafkaError] = field(default_factory=dict)


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

        async def ask(address: Address, partitions: Sequence[SharePartition], timeout_s: float) -> Answers:
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
            answer = await self._client.send(address, request, timeout_s=timeout_s)
            return _errors(answer.results)

        return await self._ask(group_id, offsets, ask)

    async def delete(self, group_id: str, partitions: Iterable[SharePartition], state_epoch: int) -> Answers:
        """Forget share-partitions, as of an epoch of the group; it is no error if there are none."""

        async def ask(address: Address, partitions: Sequence[SharePartition], timeout_s: float) -> Answers:
            topics = tuple(
                DeleteStateData(
                    topic_id=topic_id,
                    partitions=tuple(DeleteShareGroupStateRequestPartitionData(partition=number) for number in numbers),
                )
                for topic_id, numbers in _by_topic(partitions)
            )
            request = DeleteShareGroupStateRequest(group_id=group_id, topics=topics, state_epoch=state_epoch)
            answer = await self._client.send(address, request, timeout_s=timeout_s)
            return _errors(answer.results)

        return await self._ask(group_id, partitions, ask)

    async def progress(
        self, group_id: str, partitions: Iterable[SharePartition]
    ) -> dict[SharePartition, KafkaError | ReadShareGroupStateSummaryResponsePartitionResult]:
        """Return how far share-partitions are."""

        async def ask(
            address: Address, partitions: Sequence[SharePartition], timeout_s: float
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
            answer = await self._client.send(address, request, timeout_s=timeout_s)
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
            address: Address, _: Sequence[SharePartition], timeout_s: float
        ) -> dict[SharePartition, KafkaError | ReadShareGroupStateResponsePartitionResult]:
            data = ReadShareGroupStateRequestPartitionData(partition=partition[1], leader_epoch=leader_epoch)
            topic = ReadStateData(topic_id=partition[0], partitions=(data,))
            request = ReadShareGroupStateRequest(group_id=group_id, topics=(topic,))
            answer = await self._client.send(address, request, timeout_s=timeout_s)
            each = _only(answer.results)
            return {partition: _error(each.error_code, each.error_message) or each}

        return _given((await self._ask(group_id, [partition], ask))[partition])

    async def write(self, group_id: str, topic_id: UUID, data: WriteShareGroupStateRequestPartitionData) -> None:
        """Return once what the leader of a partition says is durable. Raise KafkaError."""
        partition = topic_id, data.partition

        async def ask(address: Address, _: Sequence[SharePartition], timeout_s: float) -> Answers:
            topic = WriteStateData(topic_id=topic_id, partitions=(data,))
            request = WriteShareGroupStateRequest(group_id=group_id, topics=(topic,))
            answer = await self._client.send(address, request, timeout_s=timeout_s)
            each = _only(answer.results)
            return {partition: _error(each.error_code, each.error_message)}

        _given((await self._ask(group_id, [partition], ask))[partition])

    async def _ask(
        self, group_id: str, partitions: Iterable[SharePartition], ask: Ask[AnswerT]
    ) -> dict[SharePartition, AnswerT | KafkaError]:
        """Ask until each partition has an answer that counts, or time is over; then the last one stands."""
        call = _Call(group_id, list(partitions), ask, asyncio.get_running_loop().time() + CALL_S)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(call.deadline_s):
                await self._ask_until(call)
        late = KafkaError(ErrorCode.coordinator_not_available, f"no share coordinator has answered within {CALL_S:g} s")
        return {each: call.answers.get(each, late) for each in call.partitions}

    async def _ask_until(self, call: _Call[AnswerT]) -> None:
        missing, retry_s = call.partitions, RETRY_MIN_S
        while missing:
            await self._ask_once(call, missing)
            missing = [each for each in missing if _is_not_now(call.answers[each])]
            pause_s = retry_s * self._rng.uniform(0.5, 1.0)
            if not missing or asyncio.get_running_loop().time() + pause_s >= call.deadline_s:
                return
            await asyncio.sleep(pause_s)
            retry_s = min(2 * retry_s, RETRY_MAX_S)

    async def _ask_once(self, call: _Call[AnswerT], partitions: Sequence[SharePartition]) -> None:
        by_broker: dict[Address, list[SharePartition]] = {}
        for topic_id, number in partitions:
            try:
                broker = await self._coordinator.find_broker(str(ShareKey(call.group_id, topic_id, number)))
                by_broker.setdefault(Address(broker.host, broker.port), []).append((topic_id, number))
            except KafkaError as error:
                call.answers[topic_id, number] = error
        lanes = asyncio.Semaphore(BROKERS_AT_ONCE)
        await asyncio.gather(*(self._ask_broker(call, address, some, lanes) for address, some in by_broker.items()))

    async def _ask_broker(
        self, call: _Call[AnswerT], address: Address, partitions: Sequence[SharePartition], lanes: asyncio.Semaphore
    ) -> None:
        async with lanes:
            for begin in range(0, len(partitions), PARTITIONS_MAX):
                piece = partitions[begin : begin + PARTITIONS_MAX]
                left_s = call.deadline_s - asyncio.get_running_loop().time()
                try:
                    given = await call.ask(address, piece, min(self._timeout_s, left_s))
                except OUTSIDE as error:
                    failure = KafkaError(
                        ErrorCode.coordinator_not_available, f"share coordinator at {address}: {error}"
                    )
                    call.answers |= dict.fromkeys(piece, failure)
                else:
                    unanswered = KafkaError(ErrorCode.unknown_server_error, f"{address} did not answer for it")
                    call.answers |= {each: given.get(each, unanswered) for each in piece}


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


def _errors(results: Iterable[InitializeStateResult] | Iterable[DeleteStateResult]) -> Answers:
    return {
        (topic.topic_id, each.partition): _error(each.error_code, each.error_message)
        for topic in results
        for each in topic.partitions
        if topic.topic_id is not None
    }


def _error(code: ErrorCode, message: str | None) -> KafkaError | None:
    return None if code is ErrorCode.none else KafkaError(code, message or code.name)


def _by_topic(partitions: Iterable[SharePartition]) -> list[tuple[UUID, list[int]]]:
    numbers: dict[UUID, list[int]] = {}
    for topic_id, number in partitions:
        numbers.setdefault(topic_id, []).append(number)
    return list(numbers.items())

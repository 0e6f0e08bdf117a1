"""A leader over the wire, as its follower sees it: sessions, questions, and what happens when a fetch is given up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from uuid import UUID

import pytest

from tierfetch.fetcher.core.partition_fetch import FetchedPartition, FetchLimits, PartitionToFetch
from tierfetch.fetcher.embedded import ConsumersEndpoint
from tierfetch.fetcher.leader_endpoint import BrokerEndpoint
from tierfetch.log.core import EpochEnd
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.fetch.leader_sessions import FetchSessionCache
from tierfetch.protocol.fetch.messages import FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse
from tierfetch.protocol.messages.offsets import (
    EpochEndOffset,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tierfetch.protocol.net.client import Address, BrokerUnavailableError, KafkaClient
from tierfetch.protocol.net.client_connection import FETCHED_ELEMENTS_FREE
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.net.server import Server
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote.core import OffsetAndEpoch

LIMITS = FetchLimits(wait_max_ms=100, min_bytes=1, response_max_bytes=1 << 20)
PARTITIONS = [TopicIdPartition(UUID(int=5), "t", number) for number in range(3)]


class Leader:
    """Answers every partition with its high watermark, in sessions; LIST_OFFSETS with what the test says."""

    def __init__(self) -> None:
        self.requests: list[FetchRequest] = []
        self.questions: list[ListOffsetsRequest | OffsetForLeaderEpochRequest] = []
        self.refusals: dict[int, ErrorCode] = {}
        """Errors of partitions, in answers to LIST_OFFSETS."""
        self.high_watermarks = [10, 20, 30]
        self.refusal = ErrorCode.none
        self.gate: asyncio.Event | None = None
        self.copies = 1
        """Of each answer to a question."""
        self.unasked = 0
        """Answers to a fetch that are added to what was asked for."""
        self.forget_sessions()

    def forget_sessions(self) -> None:
        ids = Random(1)
        self.sessions = FetchSessionCache(draw_id=lambda: ids.randint(1, 1000))

    records = b""

    async def fetch(self, context: RequestContext, request: FetchRequest) -> FetchResponse:
        self.requests.append(request)
        if self.gate is not None:
            await self.gate.wait()
        if self.refusal is not ErrorCode.none:
            return FetchResponse(topics=(), error_code=self.refusal)
        session = self.sessions.begin(request, api_version=context.api_version, now_ms=0)
        answers = {
            asked: FetchPartitionResponse(
                asked.key.partition,
                high_watermark=self.high_watermarks[asked.key.partition],
                records=self.records,
            )
            for asked in session.partitions
        }
        response = self.sessions.respond(session, answers, now_ms=0)
        if not self.unasked:
            return response
        more = FetchTopicResponse((FetchPartitionResponse(0),) * self.unasked, "t", PARTITIONS[0].topic_id)
        return FetchResponse((*response.topics, more), session_id=response.session_id)

    async def list_offsets(self, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
        self.questions.append(request)
        topics = []
        for topic in request.topics:
            answers = [
                ListOffsetsPartitionResponse(
                    partition_index=asked.partition_index,
                    offset=7 + asked.partition_index,
                    leader_epoch=3,
                    error_code=self.refusals.get(asked.partition_index, self.refusal),
                )
                for asked in topic.partitions
            ]
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(answers * self.copies)))
        return ListOffsetsResponse(topics=tuple(topics))

    async def epoch_ends(
        self, context: RequestContext, request: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochResponse:
        self.questions.append(request)
        topics = [
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    EpochEndOffset(
                        partition=asked.partition, leader_epoch=asked.leader_epoch, end_offset=10 * asked.partition
                    )
                    for asked in topic.partitions
                ),
            )
            for topic in request.topics
        ]
        return OffsetForLeaderEpochResponse(topics=tuple(topics))


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.fixture
async def endpoint(leader: Leader) -> AsyncIterator[BrokerEndpoint]:
    handlers = {
        ApiKey.FETCH: leader.fetch,
        ApiKey.LIST_OFFSETS: leader.list_offsets,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: leader.epoch_ends,
    }
    server = Server(handlers, listener_name="PLAINTEXT")
    await server.start("127.0.0.1", 0)
    fetches, questions = [KafkaClient(client_id="follower", random=Random(1)) for _ in range(2)]
    yield BrokerEndpoint(
        1,
        lambda: Address("127.0.0.1", server.port),
        replica_id=2,
        replica_epoch=lambda: -1,
        fetches=fetches,
        questions=questions,
        timeout_s=30.0,
    )
    await fetches.close()
    await questions.close()
    await server.close(deadline_s=0)


def at(offset: int, *partitions: TopicIdPartition) -> dict[TopicIdPartition, PartitionToFetch]:
    return {
        each: PartitionToFetch(
            partition=each,
            fetch_offset=offset,
            log_start_offset=0,
            last_fetched_epoch=-1,
            current_leader_epoch=0,
            max_bytes=1000,
        )
        for each in partitions
    }


def asked(request: FetchRequest) -> list[int]:
    return [partition.partition for topic in request.topics for partition in topic.partitions]


async def fetched(endpoint: BrokerEndpoint, *partitions: TopicIdPartition, offset: int = 0) -> dict[int, int]:
    answers = await endpoint.fetch(at(offset, *partitions), PARTITIONS, LIMITS, lambda *_: None)
    return {key.partition: answer.high_watermark for key, answer in answers.items()}


async def test_the_second_fetch_asks_and_brings_only_what_changed(leader: Leader, endpoint: BrokerEndpoint) -> None:
    assert await fetched(endpoint, *PARTITIONS) == {0: 10, 1: 20, 2: 30}
    leader.high_watermarks[1] = 21
    assert await fetched(endpoint, *PARTITIONS) == {1: 21}
    assert await fetched(endpoint, PARTITIONS[0]) == {}
    first, second, third = leader.requests
    assert (asked(first), asked(second), asked(third)) == ([0, 1, 2], [], [])
    assert [topic.partitions for topic in third.forgotten_topics] == [(1, 2)]
    assert (first.replica_id, second.session_id > 0) == (2, True)


async def test_a_session_that_was_forgotten_is_opened_anew_at_once(leader: Leader, endpoint: BrokerEndpoint) -> None:
    await fetched(endpoint, *PARTITIONS)
    leader.forget_sessions()
    assert await fetched(endpoint, *PARTITIONS) == {0: 10, 1: 20, 2: 30}
    assert [asked(request) for request in leader.requests] == [[0, 1, 2], [], [0, 1, 2]]


async def test_without_a_session_the_partitions_are_asked_for_in_their_order(
    leader: Leader, endpoint: BrokerEndpoint
) -> None:
    """The leader may run out of bytes: who got records last time comes last."""
    leader.sessions = FetchSessionCache(draw_id=lambda: 1, slots=0)
    await fetched(endpoint, *PARTITIONS)
    wanted = at(0, *PARTITIONS[1:]) | at(1, PARTITIONS[0])
    await endpoint.fetch(wanted, PARTITIONS, LIMITS, lambda *_: None)
    assert [asked(request) for request in leader.requests] == [[0, 1, 2], [1, 2, 0]]


async def test_a_refusal_names_the_broker_and_ends_the_session(leader: Leader, endpoint: BrokerEndpoint) -> None:
    await fetched(endpoint, *PARTITIONS)
    leader.refusal = ErrorCode.kafka_storage_error
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR: broker 1: the leader refuses the fetch"):
        await fetched(endpoint, *PARTITIONS)
    leader.refusal = ErrorCode.none
    assert await fetched(endpoint, *PARTITIONS) == {0: 10, 1: 20, 2: 30}


async def test_a_fetch_that_is_given_up_does_not_hold_up_the_next(leader: Leader, endpoint: BrokerEndpoint) -> None:
    await fetched(endpoint, *PARTITIONS)
    leader.gate = asyncio.Event()
    long = asyncio.create_task(fetched(endpoint, *PARTITIONS))
    async with asyncio.timeout(30):
        while len(leader.requests) < 2:  # noqa: ASYNC110 - the request is on its way through two event loops' sockets
            await asyncio.sleep(0.001)
    assert await endpoint.list_offset(PARTITIONS[0], 0, -1) is not None, "questions do not wait behind it"
    long.cancel()
    with pytest.raises(asyncio.CancelledError):
        await long
    leader.gate = None
    assert await fetched(endpoint, *PARTITIONS) == {0: 10, 1: 20, 2: 30}


async def test_a_question_brings_the_partitions_answer_or_its_error(leader: Leader, endpoint: BrokerEndpoint) -> None:
    answer = await endpoint.list_offset(PARTITIONS[2], 0, -6)
    assert (answer.offset, answer.leader_epoch) == (9, 3)
    leader.refusal = ErrorCode.not_leader_or_follower
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER: LIST_OFFSETS of t-2 at broker 1"):
        await endpoint.list_offset(PARTITIONS[2], 0, -6)


async def test_answers_are_told_while_others_are_on_their_way(leader: Leader, endpoint: BrokerEndpoint) -> None:
    leader.records = bytes(1_500_000)
    early: list[tuple[TopicIdPartition, FetchedPartition]] = []
    begun: list[int] = []
    answers = await endpoint.fetch(
        at(0, *PARTITIONS), PARTITIONS, LIMITS, lambda *told: early.append(told), lambda: begun.append(len(early))
    )
    assert begun == [0], "once, and before any answer is whole"
    assert [key for key, _ in early] == PARTITIONS[: len(early)]
    assert 1 <= len(early) <= len(PARTITIONS)
    assert all(answer == answers[key] for key, answer in early)


async def test_a_response_that_comes_in_one_piece_has_begun_before_who_waits_for_it_runs(
    endpoint: BrokerEndpoint,
) -> None:
    """Between the two another replica may be ready: what is there already would be given up."""
    told: list[str] = []
    fetching = asyncio.create_task(
        endpoint.fetch(
            at(0, *PARTITIONS), PARTITIONS, LIMITS, lambda *_: told.append("early"), lambda: told.append("begins")
        )
    )
    assert len(await fetching) == 3
    assert told == ["begins"]


@pytest.mark.parametrize("copies", [0, 2])
async def test_a_question_has_one_answer(copies: int, leader: Leader, endpoint: BrokerEndpoint) -> None:
    leader.copies = copies
    with pytest.raises(KafkaError, match=f"LIST_OFFSETS of t-2 at broker 1: expected one answer, found {copies}"):
        await endpoint.list_offset(PARTITIONS[2], 0, -6)


async def test_the_questions_of_many_replicas_are_few_requests(leader: Leader, endpoint: BrokerEndpoint) -> None:
    """One by itself, and when that is answered one for all others; of each kind."""
    await endpoint.list_offset(PARTITIONS[0], 0, -2)  # there is a connection from here on
    leader.questions.clear()
    many = [TopicIdPartition(UUID(int=5), f"t{number % 2}", number) for number in range(32)]
    leader.refusals = {5: ErrorCode.fenced_leader_epoch}
    offsets, ends = await asyncio.gather(
        asyncio.gather(*(endpoint.list_offset(each, 4, -6) for each in many), return_exceptions=True),
        asyncio.gather(*(endpoint.end_offset_for_leader_epoch(each, 4, each.partition) for each in many)),
    )
    assert sorted(len(request.topics) for request in leader.questions) == [1, 1, 2, 2]
    error = offsets.pop(5)
    assert isinstance(error, KafkaError)
    assert (error.code, error.message) == (ErrorCode.fenced_leader_epoch, "LIST_OFFSETS of t1-5 at broker 1")
    assert offsets == [OffsetAndEpoch(7 + number, 3) for number in range(32) if number != 5]
    assert ends == [EpochEnd(number, 10 * number) for number in range(32)]


async def test_A1_a_fetch_response_has_not_many_times_what_was_asked_for(
    leader: Leader, endpoint: BrokerEndpoint
) -> None:
    await fetched(endpoint, *PARTITIONS)
    leader.unasked = FETCHED_ELEMENTS_FREE + 100
    with pytest.raises(BrokerUnavailableError, match="more than 10024 array elements"):
        await fetched(endpoint, *PARTITIONS)
    leader.unasked = 0
    assert await fetched(endpoint, *PARTITIONS) == {0: 10, 1: 20, 2: 30}


@pytest.mark.parametrize(("asked", "sent"), [(-1, -1), (-2, -2), (-4, -2)])
async def test_to_a_consumer_the_leaders_log_begins_at_its_log_start(
    monkeypatch: pytest.MonkeyPatch, asked: int, sent: int
) -> None:
    """The leader reads for it what is tiered, so the local log start is no place to begin at."""
    seen = []

    async def list_offset(*arguments: object) -> OffsetAndEpoch:
        seen.append(arguments[-1])
        return OffsetAndEpoch(7, 1)

    monkeypatch.setattr(BrokerEndpoint, "list_offset", list_offset)
    client = KafkaClient(client_id="test", random=Random(1))
    endpoint = ConsumersEndpoint(
        1,
        lambda: Address("127.0.0.1", 1),
        replica_id=-1,
        replica_epoch=lambda: -1,
        fetches=client,
        questions=client,
        timeout_s=1.0,
    )
    assert await endpoint.list_offset(TopicIdPartition(UUID(int=1), "t", 0), 1, asked) == OffsetAndEpoch(7, 1)
    assert seen == [sent]

"""Questions of many replicas to one leader: how many requests they become, and who gets which answer or error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from tierfetch.fetcher.gathered_questions import PARTITIONS_MAX, GatheredQuestions
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.topics import TopicPartition


class Leader:
    """Answers (kind, partition, question) once `gate` is open; `errors` are of partitions, `failure` is of requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, dict[int, int]]] = []
        self.gate = asyncio.Event()
        self.errors: dict[int, KafkaError] = {}
        self.failure: Exception | None = None
        self.questions = GatheredQuestions(self.ask)

    async def ask(self, kind: int, questions: Mapping[TopicPartition, int]) -> dict[TopicPartition, object]:
        self.requests.append((kind, {name.partition: question for name, question in questions.items()}))
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return {
            name: self.errors.get(name.partition, (kind, name.partition, question))
            for name, question in questions.items()
        }

    async def begin(self, number: int, question: int = 0, kind: int = -2) -> asyncio.Task[object]:
        """Ask in a task, which waits for the answer when this returns."""
        asking = asyncio.create_task(self.questions.answer(kind, TopicPartition("t", number), question))
        await asyncio.sleep(0)
        return asking

    @property
    def sizes(self) -> list[int]:
        return [len(asked) for _, asked in self.requests]


@pytest.fixture
async def leader() -> AsyncIterator[Leader]:
    leader = Leader()
    yield leader
    leader.gate.set()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not leader.questions._waiting, "a kind without a request is not kept"
    assert not leader.questions._requests


async def test_a_lone_question_is_asked_in_the_callers_task(leader: Leader) -> None:
    leader.gate.set()
    before = asyncio.all_tasks()
    assert await leader.questions.answer(-2, TopicPartition("t", 3), 7) == (-2, 3, 7)
    assert asyncio.all_tasks() == before
    assert leader.requests == [(-2, {3: 7})]


async def test_a_thousand_questions_at_once_are_few_requests(leader: Leader) -> None:
    asking = [await leader.begin(number, question=number + 1) for number in range(1000)]
    leader.gate.set()
    assert [await each for each in asking] == [(-2, number, number + 1) for number in range(1000)]
    assert leader.sizes == [1, PARTITIONS_MAX, 499]


async def test_each_kind_has_requests_of_its_own(leader: Leader) -> None:
    asking = [await leader.begin(number, kind=kind) for number in range(3) for kind in (-1, -2, -6)]
    leader.gate.set()
    await asyncio.gather(*asking)
    assert leader.requests == [
        *((kind, {0: 0}) for kind in (-1, -2, -6)),
        *((kind, {1: 0, 2: 0}) for kind in (-1, -2, -6)),
    ]


async def test_a_request_has_a_partition_once(leader: Leader) -> None:
    asking = [await leader.begin(number, question) for number, question in [(0, 0), (1, 3), (1, 4), (2, 5)]]
    leader.gate.set()
    assert [await each for each in asking] == [(-2, 0, 0), (-2, 1, 3), (-2, 1, 4), (-2, 2, 5)]
    assert leader.requests == [(-2, {0: 0}), (-2, {1: 3, 2: 5}), (-2, {1: 4})]


async def test_an_error_of_a_partition_is_its_own(leader: Leader) -> None:
    leader.errors = {
        0: KafkaError(ErrorCode.not_leader_or_follower, "zero"),
        2: KafkaError(ErrorCode.fenced_leader_epoch, "two"),
    }
    asking = [await leader.begin(number) for number in range(4)]
    leader.gate.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert found == [leader.errors[0], (-2, 1, 0), leader.errors[2], (-2, 3, 0)]


async def test_an_error_of_a_request_is_raised_in_all_its_callers(leader: Leader) -> None:
    leader.failure = ConnectionError("gone")
    asking = [await leader.begin(number) for number in range(3)]
    leader.gate.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert [str(error) for error in found] == ["gone"] * 3
    assert leader.sizes == [1, 2]  # the lone request's failure says nothing of those that were not in it
    leader.failure = None
    assert await leader.questions.answer(-2, TopicPartition("t", 0), 1) == (-2, 0, 1)


async def test_a_caller_that_is_cancelled_in_its_own_request_ends_it_and_the_others_are_asked(leader: Leader) -> None:
    asking = [await leader.begin(number) for number in range(3)]
    asking[0].cancel()
    await asyncio.wait([asking[0]])
    leader.gate.set()
    assert [await each for each in asking[1:]] == [(-2, 1, 0), (-2, 2, 0)]
    assert leader.sizes == [1, 2]


async def test_a_cancelled_caller_is_left_out_of_the_next_request(leader: Leader) -> None:
    asking = [await leader.begin(number) for number in range(3)]
    asking[1].cancel()
    await asyncio.wait([asking[1]])
    leader.gate.set()
    await asyncio.gather(asking[0], asking[2])
    assert leader.requests == [(-2, {0: 0}), (-2, {2: 0})]


async def test_callers_that_are_cancelled_all_leave_no_request(leader: Leader) -> None:
    asking = [await leader.begin(number) for number in range(3)]
    for each in reversed(asking):
        each.cancel()
    await asyncio.wait(asking)
    assert all(each.cancelled() for each in asking)
    assert leader.sizes == [1]


async def test_closing_cancels_what_waits(leader: Leader) -> None:
    first = await leader.begin(0)
    waiting = [await leader.begin(number) for number in range(1, 3)]
    first.cancel()
    for _ in range(3):  # until the request of the others is under way
        await asyncio.sleep(0)
    late = await leader.begin(3)
    assert leader.sizes == [1, 2]
    await leader.questions.close()
    await asyncio.wait([*waiting, late])
    assert all(each.cancelled() for each in [*waiting, late])

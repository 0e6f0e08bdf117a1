"""In which directory replicas lie: told until the controller has taken it up (KIP-858)."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.cluster import directory_assignments
from tierfetch.broker.cluster.directory_assignments import DirectoryAssignments, by_directory, refused
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.brokers import (
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsResponse,
)
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.messages import response_of

A, B = UUID(int=1001), UUID(int=1002)
T0, T1, U0 = (
    TopicIdPartition(UUID(int=5), "t", 0),
    TopicIdPartition(UUID(int=5), "t", 1),
    TopicIdPartition(UUID(int=6), "u", 0),
)
API = ApiKey.ASSIGN_REPLICAS_TO_DIRS
Directories = tuple[AssignReplicasToDirsRequestDirectoryData, ...]


def response(
    directories: Directories, errors: dict[tuple[UUID | None, int], ErrorCode], code: ErrorCode = ErrorCode.none
) -> AssignReplicasToDirsResponse:
    """The answer to these, as the wire has it."""
    answered = [
        {
            "id_": directory.id_,
            "topics": [
                {
                    "topic_id": topic.topic_id,
                    "partitions": [
                        {
                            "partition_index": part.partition_index,
                            "error_code": errors.get((topic.topic_id, part.partition_index), ErrorCode.none),
                        }
                        for part in topic.partitions
                    ],
                }
                for topic in directory.topics
            ],
        }
        for directory in directories
    ]
    response: AssignReplicasToDirsResponse = response_of(API, {"error_code": code, "directories": answered})
    return response


class Controller:
    """Answers as the test says, the last of it for ever."""

    def __init__(self, *answers: dict[tuple[UUID | None, int], ErrorCode] | Exception) -> None:
        self.asked: list[dict[UUID | None, list[tuple[UUID | None, int]]]] = []
        self._answers = list(answers)
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, directories: Directories) -> AssignReplicasToDirsResponse:
        self.asked.append(
            {
                each.id_: [(topic.topic_id, part.partition_index) for topic in each.topics for part in topic.partitions]
                for each in directories
            }
        )
        await self.gate.wait()
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return response(directories, answer)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_assignments, "RETRY_MIN_MS", 1)
    monkeypatch.setattr(directory_assignments, "RETRY_MAX_MS", 2)


async def test_what_gathers_meanwhile_goes_with_the_next_request_and_the_last_word_counts() -> None:
    controller = Controller({})
    controller.gate.clear()
    told = DirectoryAssignments(controller, Random(1))
    told.report(T0, A)
    await until(lambda: len(controller.asked) == 1)
    told.report(T1, A)
    told.report(U0, A)
    told.report(U0, B)
    told.report(T0, B)
    controller.gate.set()
    await until(lambda: len(controller.asked) == 2)
    await told.close()
    assert controller.asked == [
        {A: [(T0.topic_id, 0)]},
        {B: [(T0.topic_id, 0), (U0.topic_id, 0)], A: [(T1.topic_id, 1)]},
    ]


@pytest.mark.parametrize(
    "failure",
    [
        OSError("no controller"),
        KafkaError(ErrorCode.not_controller, "x"),
        {(T0.topic_id, 0): ErrorCode.unknown_server_error},
    ],
)
async def test_what_was_not_taken_up_is_told_again(failure: Any) -> None:
    controller = Controller(failure, {})
    told = DirectoryAssignments(controller, Random(1))
    told.report(T0, A)
    await until(lambda: len(controller.asked) == 2)
    await told.close()
    assert controller.asked == [{A: [(T0.topic_id, 0)]}] * 2


@pytest.mark.parametrize(
    "gone", [ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower]
)
async def test_a_partition_that_is_gone_is_dropped(gone: ErrorCode) -> None:
    directories = by_directory({T0: A, U0: A})
    assert refused({T0: A, U0: A}, response(directories, {(T0.topic_id, 0): gone})) == {}
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
        refused({T0: A}, response(directories, {}, ErrorCode.stale_broker_epoch))


def test_a_partition_without_an_answer_is_told_again() -> None:
    assert refused({T0: A, U0: B}, response(by_directory({T0: A}), {})) == {U0: B}

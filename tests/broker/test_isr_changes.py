"""ISR changes of many partitions in one request, each with its own answer"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.cluster.controller_channel import ControllerUnavailableError
from tierfetch.broker.cluster.isr_changes import IsrChanges
from tierfetch.broker.cluster.view import PartitionRegistration
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.tests.broker.fake_controllers import FakeControllers, answer

ALTER = ApiKey.ALTER_PARTITION
A, B, C = (TopicIdPartition(UUID(int=number), name, 0) for number, name in ((5, "a"), (6, "b"), (7, "c")))


def accepted(body: Any) -> Any:
    """Every change as it was asked for; those to an empty ISR are refused."""
    topics = [
        {
            "topic_id": topic["topic_id"],
            "partitions": [
                {
                    "partition_index": part["partition_index"],
                    "error_code": ErrorCode.none if part["new_isr_with_epochs"] else ErrorCode.invalid_request,
                    "leader_id": 1,
                    "leader_epoch": part["leader_epoch"],
                    "isr": [member["broker_id"] for member in part["new_isr_with_epochs"]],
                    "partition_epoch": part["partition_epoch"] + 1,
                }
                for part in topic["partitions"]
            ],
        }
        for topic in body["topics"]
    ]
    return {"error_code": ErrorCode.none, "topics": topics}


@pytest.fixture
def controllers() -> FakeControllers:
    fake = FakeControllers()
    fake.will(ALTER, accepted)
    return fake


@pytest.fixture
async def changes(controllers: FakeControllers) -> AsyncIterator[IsrChanges]:
    changes = IsrChanges(controllers, 1, lambda: 77)
    yield changes
    await changes.close()


def alter(changes: IsrChanges, partition: TopicIdPartition, *isr: int) -> Any:
    members = [(member, 100 + member) for member in isr]
    return changes.alter(partition, leader_epoch=3, partition_epoch=8, isr=members)


async def test_C7_a_change_names_epochs_and_brings_what_is_registered(
    changes: IsrChanges, controllers: FakeControllers
) -> None:
    assert await alter(changes, A, 1, 2) == PartitionRegistration(1, 3, 9, (), (1, 2))
    (body,) = controllers.bodies(ALTER)
    assert (body["broker_id"], body["broker_epoch"]) == (1, 77)
    (part,) = body["topics"][0]["partitions"]
    assert part["new_isr_with_epochs"] == [
        {"broker_id": 1, "broker_epoch": 101},
        {"broker_id": 2, "broker_epoch": 102},
    ]
    assert (part["leader_epoch"], part["partition_epoch"]) == (3, 8)


async def test_changes_that_wait_go_together_and_each_has_its_own_answer(
    changes: IsrChanges, controllers: FakeControllers
) -> None:
    asked = (alter(changes, A, 1), alter(changes, B, 1), alter(changes, C))
    outcomes: list[Any] = await asyncio.gather(*asked, return_exceptions=True)
    first, second, third = outcomes
    assert first.isr == second.isr == (1,)
    assert isinstance(third, KafkaError)
    assert third.code is ErrorCode.invalid_request
    assert len(controllers.bodies(ALTER)) == 1


async def test_C9_an_answer_that_did_not_come_is_not_taken_for_a_refusal(
    changes: IsrChanges, controllers: FakeControllers
) -> None:
    controllers.will(ALTER, ControllerUnavailableError("nobody"), accepted)
    with pytest.raises(OSError, match="nobody"):
        await alter(changes, A, 1)
    assert (await alter(changes, A, 1)).isr == (1,)
    controllers.will(ALTER, answer(topics=[]))
    with pytest.raises(OSError, match="did not answer for a-0"):
        await alter(changes, A, 1)


async def test_C9_a_refusal_of_the_whole_request_reaches_everybody(
    changes: IsrChanges, controllers: FakeControllers
) -> None:
    controllers.will(ALTER, answer(ErrorCode.stale_broker_epoch, topics=[]))
    outcomes = await asyncio.gather(alter(changes, A, 1), alter(changes, B, 1), return_exceptions=True)
    assert [outcome.code for outcome in outcomes if isinstance(outcome, KafkaError)] == [
        ErrorCode.stale_broker_epoch
    ] * 2


async def test_C9_a_fault_of_ours_leaves_nobody_waiting_and_is_logged(
    changes: IsrChanges, controllers: FakeControllers, caplog: pytest.LogCaptureFixture
) -> None:
    controllers.will(ALTER, AttributeError("planted"), accepted)
    async with asyncio.timeout(5):
        outcomes = await asyncio.gather(alter(changes, A, 1), alter(changes, B, 1), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OSError] * 2
    assert "planted" in caplog.text
    assert (await alter(changes, A, 1)).isr == (1,)

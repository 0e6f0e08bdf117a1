"""The clients of the simulation, apart from the brokers that they ask."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from uuid import UUID

import pytest

from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.net.client import Address
from tierfetch.protocol.topics import TopicPartition
from tierfetch.sim.judges.core.history import ACKS_ALL
from tierfetch.sim.scenarios.client import AttemptFailedError, SimClient, _Leader

T = TopicPartition("t", 0)
TOPIC_ID = UUID(int=7)
BROKER = Address("broker-1", 9092)


def test_which_incarnation_took_a_batch_is_known_though_another_request_lost_the_leader_meanwhile() -> None:
    async def scenario() -> tuple[UUID, int]:
        client = SimClient("c", (BROKER,), Random(1))
        client._leaders[T] = _Leader(BROKER, TOPIC_ID, {})

        async def send(*_: object, **__: object) -> SimpleNamespace:
            del client._leaders[T]
            answer = SimpleNamespace(error_code=ErrorCode.none, base_offset=5)
            return SimpleNamespace(topics=[SimpleNamespace(partitions=[answer])], throttle_time_ms=0)

        client._client = SimpleNamespace(send=send)  # type: ignore[assignment]
        return await client.produce_where(T, b"", ACKS_ALL)

    assert asyncio.run(scenario()) == (TOPIC_ID, 5)


def test_a_preferred_replica_that_came_back_since_the_last_metadata_is_asked_for_with_fresh_metadata() -> None:
    """A leader names it at once each time, so whoever asks the leader again without metadata does so for ever."""

    async def scenario() -> None:
        client = SimClient("c", (BROKER,), Random(1), rack="b")
        client._leaders[T] = _Leader(BROKER, TOPIC_ID, {1: BROKER})

        async def send(*_: object, **__: object) -> SimpleNamespace:
            answer = SimpleNamespace(error_code=ErrorCode.none, preferred_read_replica=3, records=b"")
            return SimpleNamespace(
                error_code=ErrorCode.none,
                topics=[SimpleNamespace(partitions=[answer])],
                session_id=0,
                throttle_time_ms=0,
            )

        client._fetches = SimpleNamespace(send=send)  # type: ignore[assignment]
        with pytest.raises(AttemptFailedError, match="broker 3 is not known yet"):
            await client.fetch(T, 0, max_wait_ms=10)
        assert T not in client._leaders

    asyncio.run(scenario())

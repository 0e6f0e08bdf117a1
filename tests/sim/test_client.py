"""The clients of the simulation, apart from the brokers that they ask."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from uuid import UUID

from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.net.client import Address
from tierfetch.protocol.topics import TopicPartition
from tierfetch.sim.judges.core.history import ACKS_ALL
from tierfetch.sim.scenarios.client import SimClient, _Leader

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
            return SimpleNamespace(topics=[SimpleNamespace(partitions=[answer])])

        client._client = SimpleNamespace(send=send)  # type: ignore[assignment]
        return await client.produce_where(T, b"", ACKS_ALL)

    assert asyncio.run(scenario()) == (TOPIC_ID, 5)

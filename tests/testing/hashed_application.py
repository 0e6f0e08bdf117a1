"""A program: it runs an application with one seed, and prints the digest of the run."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tierfetch.testing import SimulatedNode, simulated

TOPICS = ("apples", "pears", "plums")


async def application(node: SimulatedNode) -> None:
    servers = node.bootstrap_servers
    consumer = AIOKafkaConsumer(*TOPICS, group_id="g", bootstrap_servers=servers, auto_offset_reset="earliest")
    async with consumer, AIOKafkaProducer(bootstrap_servers=servers) as producer:
        async for record in consumer:
            await producer.send_and_wait("all", record.value)


async def drive(node: SimulatedNode) -> None:
    async with AIOKafkaProducer(bootstrap_servers=node.bootstrap_servers, enable_idempotence=True) as producer:
        for number in range(20):
            await asyncio.gather(*(producer.send_and_wait(topic, b"%d" % number) for topic in TOPICS))
            await asyncio.sleep(0.5)


async def check(node: SimulatedNode) -> None:
    assert await node.read_all("all")


if __name__ == "__main__":
    run = simulated(
        application,
        seed=5,
        topics={**dict.fromkeys(TOPICS, 2), "all": 3},
        instances=2,
        drive=drive,
        check=check,
        faults_s=12,
        settle_s=10,
    )
    print(run.digest, run.events)  # noqa: T201

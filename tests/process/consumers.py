"""The three clients as members of a group: they subscribe, read, commit and leave; and one that can be killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import aiokafka
import confluent_kafka

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources, on Python 3.11
    import kafka

from tierfetch.tests.process import connecting

TIMEOUT_S = 60.0
"""Longer than any session here: a member whose LeaveGroup was lost with its coordinator keeps partitions that long."""
SESSION_MS = 6_000

Read = Callable[[str, str, str, int], list[bytes]]
"""(servers, group, topic, count): join, read so many values from where the group is, commit, leave."""


def read_with_librdkafka(servers: str, group: str, topic: str, count: int) -> list[bytes]:
    with Member(servers, group, topic) as member:
        values = member.read(count)
        member.consumer.commit(asynchronous=False)
    return values


def read_with_kafka_python(servers: str, group: str, topic: str, count: int) -> list[bytes]:
    consumer = kafka.KafkaConsumer(
        topic,
        **connecting.kafka_python(servers),
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=1,
    )
    values: list[bytes] = []
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while len(values) < count:
            assert time.monotonic() < deadline, f"{len(values)} of {count} after {TIMEOUT_S} s"
            for records in consumer.poll(timeout_ms=500).values():
                values += [record.value for record in records]
        consumer.commit()
    finally:
        consumer.close()
    return values


def read_with_aiokafka(servers: str, group: str, topic: str, count: int) -> list[bytes]:
    async def read() -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(
            topic,
            **connecting.kafka_python(servers),
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                values = [(await consumer.getone()).value for _ in range(count)]
            await consumer.commit()
        finally:
            await consumer.stop()
        return values

    return asyncio.run(read())


READERS: Mapping[str, Read] = {
    "confluent-kafka": read_with_librdkafka,
    "kafka-python": read_with_kafka_python,
    "aiokafka": read_with_aiokafka,
}


class Member:
    """A librdkafka consumer that stays in its group until the `with` block ends."""

    def __init__(self, servers: str, group: str, topic: str, **configs: Any) -> None:
        self.consumer = confluent_kafka.Consumer(
            {
                **connecting.librdkafka(servers),
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
                "log_level": 0,
                **{key.replace("_", "."): value for key, value in configs.items()},
            }
        )
        self.consumer.subscribe([topic])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.consumer.close()

    @property
    def partitions(self) -> set[int]:
        """What it is assigned now."""
        return {each.partition for each in self.consumer.assignment()}

    def read(self, count: int) -> list[bytes]:
        values: list[bytes] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(values) < count:
            assert time.monotonic() < deadline, f"{len(values)} of {count} after {TIMEOUT_S} s"
            message = self.consumer.poll(0.5)
            if message is not None:
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
        return values


def until_assigned(expected: Callable[[], bool], *members: Member) -> None:
    """Let them poll, as members have to, until it holds."""
    deadline = time.monotonic() + TIMEOUT_S
    while not expected():
        assert time.monotonic() < deadline, [member.partitions for member in members]
        for member in members:
            member.consumer.poll(0.05)


def doomed_member(servers: str, group: str, topic: str) -> subprocess.Popen[bytes]:
    """A member in a process of its own, to be killed; it says so once it has partitions."""
    script = (
        "import sys\n"
        "from tierfetch.tests.process.consumers import Member\n"
        "member = Member(*sys.argv[1:])\n"
        "while True:\n"
        "    member.consumer.poll(0.1)\n"
        "    if member.partitions:\n"
        "        print(sorted(member.partitions), flush=True)\n"
    )
    return subprocess.Popen([sys.executable, "-c", script, servers, group, topic], stdout=subprocess.PIPE)


class NewMember(Member):
    """The same with the consumer protocol (KIP-848): the coordinator says how long a session is, and assigns."""

    def __init__(self, servers: str, group: str, topic: str, **configs: Any) -> None:
        # A dict of its own: librdkafka refuses what the protocol has no use for.
        self.consumer = confluent_kafka.Consumer(
            {
                **connecting.librdkafka(servers),
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 500,
                "log_level": 0,
                **{key.replace("_", "."): value for key, value in configs.items()},
            }
        )
        self.consumer.subscribe([topic])

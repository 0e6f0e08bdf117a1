"""AssignReplicasToDirs (KIP-858): reports to the controller in which log directory each replica is stored.

A controller that knows can tell which replicas a failed directory takes with it. Reports gather while a
request is under way, the last report on each replica counts, and what was not taken is reported again after a pause. A
partition that the controller no longer knows is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Final
from uuid import UUID

from ...protocol import OUTSIDE, ErrorCode, KafkaError, TopicIdPartition
from ...protocol.messages.brokers import (
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)
from ...remote import Backoff

ASSIGNMENTS_PER_REQUEST_MAX: Final = 2250
"""Kafka's limit."""
RETRY_MIN_MS: Final = 100
RETRY_MAX_MS: Final = 10_000
JITTER: Final = 0.2
_GONE: Final = frozenset(
    {ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower}
)

_log = logging.getLogger(__name__)

Assignments = Mapping[TopicIdPartition, UUID]
"""Directory ids of this broker's replicas."""
Ask = Callable[[tuple[AssignReplicasToDirsRequestDirectoryData, ...]], Awaitable[AssignReplicasToDirsResponse]]


class DirectoryAssignments:
    """`ask(directories)` sends the `directories` of a request and gives the response."""

    def __init__(self, ask: Ask, rng: Random) -> None:
        self._ask = ask
        self._backoff = Backoff(RETRY_MIN_MS, RETRY_MAX_MS, JITTER, rng)
        self._waiting: dict[TopicIdPartition, UUID] = {}
        self._sending: asyncio.Task[None] | None = None

    def report(self, partition: TopicIdPartition, directory_id: UUID) -> None:
        """Returns at once."""
        self._waiting[partition] = directory_id
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all(), name="assign-replicas-to-dirs")

    async def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send_all(self) -> None:
        while self._waiting:
            part = dict(list(self._waiting.items())[:ASSIGNMENTS_PER_REQUEST_MAX])
            try:
                left = refused(part, await self._ask(by_directory(part)))
            except OUTSIDE as error:
                _log.warning(
                    "the controller did not take up the directories of %d replicas, reporting again: %s",
                    len(part),
                    error,
                )
                left = part
            for partition, directory_id in part.items():
                if partition not in left and self._waiting[partition] == directory_id:
                    del self._waiting[partition]
            if left:
                await asyncio.sleep(self._backoff.next_delay_ms() / 1000)
            else:
                self._backoff.reset()


def by_directory(assignments: Assignments) -> tuple[AssignReplicasToDirsRequestDirectoryData, ...]:
    """As the request wants them: by directory, by topic."""
    directories: dict[UUID, dict[UUID, list[int]]] = {}
    for key, directory_id in assignments.items():
        directories.setdefault(directory_id, {}).setdefault(key.topic_id, []).append(key.partition)
    return tuple(
        AssignReplicasToDirsRequestDirectoryData(
            id_=directory_id,
            topics=tuple(
                AssignReplicasToDirsRequestTopicData(
                    topic_id=topic_id,
                    partitions=tuple(
                        AssignReplicasToDirsRequestPartitionData(partition_index=number) for number in sorted(numbers)
                    ),
                )
                for topic_id, numbers in topics.items()
            ),
        )
        for directory_id, topics in directories.items()
    )


def refused(assignments: Assignments, response: AssignReplicasToDirsResponse) -> Assignments:
    """Return what has to be reported again. Raise KafkaError if the request was refused as a whole."""
    if response.error_code is not ErrorCode.none:
        raise KafkaError(response.error_code, f"directories of {len(assignments)} replicas")
    answers = {
        (topic.topic_id, answer.partition_index): answer.error_code
        for directory in response.directories
        for topic in directory.topics
        for answer in topic.partitions
    }
    done = _GONE | {ErrorCode.none}
    return {
        key: directory_id
        for key, directory_id in assignments.items()
        if answers.get((key.topic_id, key.partition)) not in done
    }

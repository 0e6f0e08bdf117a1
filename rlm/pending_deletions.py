"""The partitions of deleted topics whose remote segments are still to be deleted, kept in a file of the broker.

Whoever deletes a topic's partition writes it down before the local log goes, because nothing else will name it: a topic
that is deleted is in no cluster image, and its remote log metadata is read by nobody who does not ask for it.

    0
    <number of lines that follow>
    <topic id> <topic> <partition>

A damaged file is reported and started afresh: what it named stays in the tier, where an audit finds it.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from ..log.disk import Disk
from ..protocol import TopicIdPartition, check_topic_name, uuid_from_text, uuid_to_text

PENDING_DELETIONS_FILE: Final = "remote-partition-deletions"
_VERSION: Final = "0"

logger = logging.getLogger(__name__)


def encode_partitions(partitions: list[TopicIdPartition]) -> bytes:
    lines = [f"{uuid_to_text(each.topic_id)} {each.topic} {each.partition}" for each in partitions]
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def decode_partitions(data: bytes) -> list[TopicIdPartition]:
    """ValueError, which says what is wrong."""
    version, count, *lines = data.decode("ascii").splitlines() or [""]
    if version != _VERSION or count != str(len(lines)):
        raise ValueError(f"version {version!r} and {count!r} lines are announced, {len(lines)} follow")
    return [_partition(line) for line in lines]


def _partition(line: str) -> TopicIdPartition:
    topic_id, topic, number = line.split(" ")
    check_topic_name(topic)
    return TopicIdPartition(uuid_from_text(topic_id), topic, int(number))


class PendingDeletions:
    """`load` it first. A change is durable when its call returns."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._path = directory / PENDING_DELETIONS_FILE
        self._partitions: set[TopicIdPartition] = set()
        self._written: set[TopicIdPartition] = set()
        self._writing = asyncio.Lock()

    async def load(self) -> list[TopicIdPartition]:
        """What an earlier process has left to do."""
        if await self._disk.exists(self._path):
            try:
                self._partitions = set(decode_partitions(await self._disk.read_file(self._path)))
            except ValueError as error:
                logger.error(
                    "%s: %s; run `tierfetch tier verify` to find what the deleted topics left in the tier",
                    self._path,
                    error,
                )
        self._written = set(self._partitions)
        return sorted(self._partitions)

    async def add(self, partition: TopicIdPartition) -> None:
        self._partitions.add(partition)
        await self._save()

    async def discard(self, partition: TopicIdPartition) -> None:
        self._partitions.discard(partition)
        await self._save()

    async def _save(self) -> None:
        """One write at a time; those who wait share the next one."""
        async with self._writing:
            partitions = set(self._partitions)
            if partitions != self._written:
                await self._disk.write_file(self._path, encode_partitions(sorted(partitions)))
                self._written = partitions

"""A `RemoteLogMetadataManager` in memory: one list of events, shared by the managers of all nodes.

`SharedMetadata` takes the place of the `__remote_log_metadata` topic: what is appended is committed. Each node's
manager applies the events in their order, at once or, while it is held, later.

    metadata = SharedMetadata()
    leader, follower = InMemoryRemoteLogMetadataManager(metadata), InMemoryRemoteLogMetadataManager(metadata)
    follower.hold()                  # its ledgers stay behind, and are not ready if they are assigned now
    leader.fail_write(2)             # the 2nd write fails, and nothing is written
    leader.lose_answer_of_write(3)   # the 3rd write fails too, but its event is there
    follower.release()
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import RemoteLogMetadataError
from tierfetch.remote.core.segment import RemoteLogEvent
from tierfetch.remote.ledger_book import BookedMetadataManager, partition_of


class SharedMetadata:
    """Every event of every partition, in order."""

    def __init__(self) -> None:
        self._events: dict[TopicIdPartition, list[RemoteLogEvent]] = {}
        self._managers: list[InMemoryRemoteLogMetadataManager] = []

    def events(self, partition: TopicIdPartition) -> list[RemoteLogEvent]:
        """What has been written for the partition, refused events included."""
        return self._events.setdefault(partition, [])

    def append(self, event: RemoteLogEvent) -> None:
        partition = partition_of(event)
        self.events(partition).append(event)
        for manager in list(self._managers):
            manager.catch_up(partition)

    def attach(self, manager: InMemoryRemoteLogMetadataManager) -> None:
        self._managers.append(manager)

    def detach(self, manager: InMemoryRemoteLogMetadataManager) -> None:
        if manager in self._managers:
            self._managers.remove(manager)


class InMemoryRemoteLogMetadataManager(BookedMetadataManager):
    """One node's view of a `SharedMetadata`."""

    def __init__(self, metadata: SharedMetadata) -> None:
        super().__init__()
        self._metadata = metadata
        self._next_index: dict[TopicIdPartition, int] = {}
        self._is_held = False
        self._write_count = 0
        self._failing: set[int] = set()
        self._answers_lost: set[int] = set()

    def hold(self) -> None:
        """Apply nothing until `release`; writes of this node wait."""
        self._is_held = True

    def release(self) -> None:
        self._is_held = False
        for partition in list(self._next_index):
            self.catch_up(partition)

    def fail_write(self, *numbers: int) -> None:
        """Writes of this node with these numbers, counted from 1 over its life, fail before anything is written."""
        self._failing.update(numbers)

    def lose_answer_of_write(self, *numbers: int) -> None:
        """Writes with these numbers fail after the event has been written."""
        self._answers_lost.update(numbers)

    @property
    def write_count(self) -> int:
        """Writes tried so far, refused ones included."""
        return self._write_count

    async def start(self) -> None:
        self._metadata.attach(self)

    async def close(self) -> None:
        self._metadata.detach(self)
        self._next_index.clear()
        self._book.close()

    async def assign(self, partitions: Collection[TopicIdPartition]) -> None:
        for partition in sorted(set(partitions)):
            if partition not in self._book:
                self._book.add(partition)
                self._next_index[partition] = 0
                self.catch_up(partition)

    async def unassign(self, partitions: Collection[TopicIdPartition]) -> None:
        for partition in sorted(set(partitions)):
            self._next_index.pop(partition, None)
            self._book.remove(partition)

    def catch_up(self, partition: TopicIdPartition) -> None:
        """Apply what has been appended for the partition since the last time, unless held."""
        if self._is_held or partition not in self._next_index:
            return
        events = self._metadata.events(partition)
        index, self._next_index[partition] = self._next_index[partition], len(events)
        for event in events[index:]:
            self._book.apply(event)
        if self._book.ledger(partition) is None:
            self._book.mark_ready(partition)

    async def _write(self, event: RemoteLogEvent, *, also_if_known: bool = False) -> None:
        self._write_count += 1
        number = self._write_count
        await asyncio.sleep(0)

        async def append(arrival: asyncio.Future[None]) -> None:
            self._metadata.append(event)
            await arrival
            if number in self._answers_lost:
                raise RemoteLogMetadataError(f"the answer to write {number} of the remote log metadata was lost")

        await self._book.wait_newer(partition_of(event), -1)
        if number in self._failing:
            raise RemoteLogMetadataError(f"write {number} of the remote log metadata failed, as the test asked")
        await self._book.write(event, append, also_if_known=also_if_known)

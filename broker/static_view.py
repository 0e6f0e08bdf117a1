"""A `ClusterView` without a controller: one YAML file that the brokers of a host share.

| step of a change | guard |
|---|---|
| take the lock (`<file>.lock`, `flock`) | a deadline; the holder is another broker of this host |
| read the file again, publish | what the others changed meanwhile is the ground of the decision |
| decide (`static_changes`) | KafkaError: nothing is written |
| replace the file atomically (`Disk.write_file`) | a crash leaves the old file or the new one |
| release the lock, publish the image | listeners run before the call returns |

The others see a change by polling the file's identity (inode, size, modification time). A file that cannot be used,
also one in which epochs went back, is reported once and the last good image stays in force: a typing error never
stops a broker that runs.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from ..log.disk import Disk
from ..protocol.topics import TopicIdPartition, TopicPartition, uuid_to_text
from . import static_changes
from .cluster_view import (
    NO_EPOCHS,
    BrokerRegistration,
    ClusterImage,
    ImageListener,
    NewTopic,
    PartitionRegistration,
    ProducerIdBlock,
    TopicImage,
)
from .static_file import ClusterFileError, StaticState, decode, encode

LOCK_TIMEOUT_S = 10.0
LOCK_RETRY_S = 0.005
PRODUCER_ID_BLOCK_SIZE = 1000

_log = logging.getLogger(__name__)
_FileIdentity = tuple[int, int, int]


class StaticClusterView:
    """The brokers of one host and what they lead, kept in `path`; made anew, with a new cluster id, if absent."""

    def __init__(self, path: Path, disk: Disk, rng: random.Random, *, poll_interval_s: float = 0.2) -> None:
        self._path = path
        self._disk = disk
        self._rng = rng
        self._poll_interval_s = poll_interval_s
        self._image: ClusterImage | None = None
        self._seen: _FileIdentity | None = None
        self._listeners: list[ImageListener] = []
        self._poller: asyncio.Task[None] | None = None

    @property
    def image(self) -> ClusterImage:
        assert self._image is not None, "the view is used before start()"
        return self._image

    def subscribe(self, listener: ImageListener) -> None:
        self._listeners.append(listener)

    async def start(self) -> None:
        """Raises ClusterFileError naming the file if it cannot be used."""
        if not await self._disk.exists(self._path):
            await self._disk.make_directory(self._path.parent)
            await self._change(lambda state: state)
        else:
            identity = self._identity()
            self._publish(await self._read(), identity)
        self._poller = asyncio.create_task(self._poll(), name="static-cluster-view")

    async def close(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)
            self._poller = None

    # -- changes ------------------------------------------------------------------------------------------------------

    async def register(self, broker: BrokerRegistration, found: Sequence[TopicPartition]) -> None:
        lost: list[static_changes.LostReplica] = []

        def decide(image: ClusterImage) -> ClusterImage:
            nonlocal lost
            image, lost = static_changes.register(image, broker, found)
            return image

        await self._change_image(decide)
        for replica in lost:
            _log.error("%s", self._explain(broker.id, replica))

    @property
    def broker_epoch(self) -> int:
        return -1

    async def serve(self) -> None:
        """There is nobody to tell."""

    async def leave(self) -> None:
        """Nobody takes over."""

    async def alter_partition(
        self,
        partition: TopicIdPartition,
        *,
        leader_epoch: int,
        partition_epoch: int,
        isr: Sequence[int],
        stated_epochs: Mapping[int, int] = NO_EPOCHS,
    ) -> PartitionRegistration:
        image = await self._change_image(
            lambda image: static_changes.alter_partition(
                image, partition, leader_epoch=leader_epoch, partition_epoch=partition_epoch, isr=isr
            )
        )
        return image.topics[partition.topic].partitions[partition.partition]

    def assign_directory(self, partition: TopicIdPartition, directory_id: UUID) -> None:
        """Nobody asks for it here."""

    async def renew_leadership(self, partition: TopicIdPartition, leader_epoch: int) -> None:
        await self._change_image(lambda image: static_changes.renew_leadership(image, partition, leader_epoch))

    async def elect_leader(self, partition: TopicIdPartition, leader: int, *, unclean: bool = False) -> None:
        """An operator's decision: what a controller does by itself."""
        await self._change_image(lambda image: static_changes.elect_leader(image, partition, leader, unclean=unclean))

    async def fence_broker(self, broker_id: int) -> None:
        """An operator's word that a broker is down."""
        await self._change_image(lambda image: static_changes.fence_broker(image, broker_id))

    async def create_topic(self, topic: NewTopic) -> TopicImage:
        topic_id = UUID(int=self._rng.getrandbits(128), version=4)
        image = await self._change_image(lambda image: static_changes.create_topic(image, topic, topic_id))
        return image.topics[topic.name]

    async def delete_topic(self, name: str) -> None:
        await self._change_image(lambda image: static_changes.delete_topic(image, name))

    async def alter_topic_configs(self, name: str, changes: Mapping[str, str | None]) -> None:
        await self._change_image(lambda image: static_changes.alter_topic_configs(image, name, changes))

    async def alter_broker_configs(self, broker: str, changes: Mapping[str, str | None]) -> None:
        await self._change_image(lambda image: static_changes.alter_broker_configs(image, broker, changes))

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        state = await self._change(
            lambda state: replace(state, next_producer_id=state.next_producer_id + PRODUCER_ID_BLOCK_SIZE)
        )
        return ProducerIdBlock(state.next_producer_id - PRODUCER_ID_BLOCK_SIZE, PRODUCER_ID_BLOCK_SIZE)

    async def _change_image(self, decide: Callable[[ClusterImage], ClusterImage]) -> ClusterImage:
        state = await self._change(lambda state: replace(state, image=decide(state.image)))
        return state.image

    async def _change(self, decide: Callable[[StaticState], StaticState]) -> StaticState:
        async with self._locked():
            absent = not await self._disk.exists(self._path)
            before = self._new_state() if absent else await self._read()
            if not absent:
                self._publish(before, self._identity())
            after = decide(before)
            if after != before or absent:
                await self._disk.write_file(self._path, encode(after))
                self._publish(after, self._identity())
        return after

    # -- the file -----------------------------------------------------------------------------------------------------

    def _new_state(self) -> StaticState:
        cluster_id = uuid_to_text(UUID(int=self._rng.getrandbits(128), version=4))
        return StaticState(ClusterImage(cluster_id, {}, {}, {}))

    async def _read(self) -> StaticState:
        content = await self._disk.read_file(self._path)
        try:
            state = decode(content)
        except ClusterFileError as error:
            raise ClusterFileError(f"{self._path}: {error}") from error
        regression = self._image and static_changes.find_regression(self._image, state.image)
        if regression:
            raise ClusterFileError(f"{self._path}: {regression}")
        return state

    def _identity(self) -> _FileIdentity | None:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _publish(self, state: StaticState, identity: _FileIdentity | None) -> None:
        self._seen = identity
        old, self._image = self._image, state.image
        if old is not None and old != state.image:
            for listener in self._listeners:
                listener(old, state.image)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._poll_interval_s)
            identity = self._identity()
            if identity == self._seen:
                continue
            try:
                state = await self._read()
            except (ClusterFileError, OSError) as error:
                self._seen = identity
                _log.error("the cluster file is not usable, the last good one stays in force: %s", error)
            else:
                if identity == self._identity():
                    self._publish(state, identity)

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        descriptor = os.open(self._path.with_name(self._path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            async with asyncio.timeout(LOCK_TIMEOUT_S):
                while True:
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        await asyncio.sleep(LOCK_RETRY_S)
            yield
        except TimeoutError as error:
            raise OSError(f"{self._path}: locked by another process for {LOCK_TIMEOUT_S:.0f} s") from error
        finally:
            os.close(descriptor)

    def _explain(self, broker_id: int, replica: static_changes.LostReplica) -> str:
        name, before = replica.partition.topic_partition, replica.before
        lost = f"the log of {name} that broker {broker_id} had in a registered log directory is gone"
        if before.leader != broker_id:
            return f"{lost}: it left the ISR {list(before.isr)} and will replicate anew from leader {before.leader}"
        others = [member for member in before.isr if member != broker_id]
        refuses = f"{lost}: it refuses to lead, or acknowledged records would be overwritten from offset 0"
        if others:
            return f"{refuses}; broker {others[0]} of the ISR {list(before.isr)} leads from now on"
        return (
            f"{refuses}. Nobody else was in sync, so {name} has no leader now. Put the directory back; or, to accept "
            f"the loss, write in {self._path} leader: {broker_id}, isr: [{broker_id}], "
            "leader_epoch and partition_epoch raised by 1"
        )

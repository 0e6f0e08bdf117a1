"""Partitions of broker 1 with real logs, and no replica manager: roles change as the test says."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tierfetch.broker.cluster.view import NewTopic
from tierfetch.broker.replicas.hosted_partitions import HostedPartitions
from tierfetch.broker.replicas.leadership import PartitionServices
from tierfetch.broker.replicas.partition import Partition
from tierfetch.log.core import PARTITION_METADATA, AppendOrigin, LogConfig, encode_partition_metadata
from tierfetch.log.disk import Disk
from tierfetch.log.partition_log import LogLocation, PartitionLog
from tierfetch.log.segment.open_limit import OpenSegments
from tierfetch.protocol.records import Compression, Record, build_batch
from tierfetch.tests.fakes.cluster_view import FakeClusterView

NOW_MS = 1_700_000_000_000


class IdleKeeper:
    """Checkpoints of nobody."""

    async def save_log_start_offsets(self) -> None: ...

    async def ensure_log_start_saved(self, partition: object) -> None: ...

    async def save_recovery_points(self) -> None: ...

    def segment_closed(self) -> None: ...

    def __init__(self) -> None:
        self.accepts_clients = True
        self.accepts_replicas = True

    def has_room_for(self, size_bytes: int) -> bool:
        return True

    def writing(self, size_bytes: int) -> AbstractContextManager[None]:
        return nullcontext()


class Unheard:
    """A `ReplicaListener` that does nothing but count changes of roles."""

    def __init__(self) -> None:
        self.role_changes = 0

    def role_changed(self, partition: Partition) -> None:
        self.role_changes += 1

    def low_watermark_raised(self, partition: Partition) -> None: ...

    def log_failed(self, partition: Partition) -> None: ...

    def log_replaced(self, partition: Partition) -> None: ...


class Host:
    """Broker 1."""

    def __init__(self, view: FakeClusterView, disk: Disk, directory: Path) -> None:
        self.view = view
        self.hosted = HostedPartitions(view)
        self.keeper = IdleKeeper()
        self.listener = Unheard()
        self._disk = disk
        self._directory = directory
        self._services = PartitionServices(
            node_id=1, view=view, rng=random.Random(7), now_ms=lambda: NOW_MS, lag_time_max_ms=30_000
        )

    async def topic(self, name: str, *replicas: int, config: LogConfig | None = None) -> Partition:
        """A topic of one partition, led by the first of `replicas`; the partition in its role here."""
        await self.view.create_topic(NewTopic(name, -1, -1, (replicas,)))
        topic = self.view.image.topics[name]
        partition = topic.id_partition(0)
        directory = self._directory / str(partition.topic_partition)
        await self._disk.make_directory(directory)
        await self._disk.write_file(directory / PARTITION_METADATA, encode_partition_metadata(topic.topic_id))
        log = await PartitionLog.open(
            LogLocation(
                topic_partition=partition.topic_partition,
                directory=directory,
                disk=self._disk,
                config=config or LogConfig(),
                keeper=self.keeper,
                open_segments=OpenSegments(),
                now_ms=lambda: NOW_MS,
                is_clean=True,
            )
        )
        hosted = Partition(partition, log, self._services, self.listener)
        self.hosted.add(partition.topic_partition, hosted)
        if replicas[0] == 1:
            await hosted.lead(topic.partitions[0])
        else:
            await hosted.step_down(topic.partitions[0])
        return hosted

    async def close(self) -> None:
        for partition in self.hosted.partitions.values():
            await partition.close()
            await partition.log.abandon()


def batch(*values: bytes, producer_id: int = -1, sequence: int = -1, transactional: bool = False) -> memoryview:
    """A writable batch of records with these values, as a client sends it."""
    records = [Record(index, NOW_MS, None, value, ()) for index, value in enumerate(values)]
    return memoryview(
        bytearray(
            build_batch(
                records,
                base_offset=0,
                compression=Compression.NONE,
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                base_sequence=sequence,
                is_transactional=transactional,
            )
        )
    )


async def append(partition: Partition, *batches: memoryview) -> None:
    """As clients produce, without waiting for followers."""
    for data in batches:
        await partition.append(data, AppendOrigin.CLIENT, acks_all=False)

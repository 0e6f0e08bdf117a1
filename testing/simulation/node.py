"""What a simulated application gets of the world: where the cluster is, who it is, a disk, and a line in the trace."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...protocol import OperatorError
from ...sim.scenarios import BROKERS, PORT, Place

if TYPE_CHECKING:
    import aiokafka

_KEPT: Final = Path("/kept")


class SimulatedDisk:
    """The disk of one host of the application: files by name, in one directory. They outlive the process. What a call
    has returned from, but `append` without `sync`, outlives a loss of power, too. OSError as the faults have it.
    """

    def __init__(self, place: Place) -> None:
        self._disk = place.disk

    async def read(self, name: str) -> bytes | None:
        """Return the whole file; None if there is none."""
        with suppress(FileNotFoundError):
            return await self._disk.read_file(self._path(name))
        return None

    async def write(self, name: str, data: bytes) -> None:
        """Replace the file, or make it, in one step."""
        await self._disk.make_directory(_KEPT)
        await self._disk.write_file(self._path(name), data)

    async def append(self, name: str, data: bytes, *, sync: bool = True) -> None:
        """Write at the end of the file. A crash in the middle of it may leave a part."""
        await self._disk.make_directory(_KEPT)
        file = await self._disk.open(self._path(name), create=True)
        try:
            await file.write(await file.size(), data)
            if sync:
                await file.sync()
        finally:
            await file.close()
        if sync:
            await self._disk.sync_directory(_KEPT)

    async def remove(self, name: str) -> None:
        """Remove the file; no error if there is none."""
        with suppress(FileNotFoundError):
            await self._disk.remove(self._path(name))
            await self._disk.sync_directory(_KEPT)

    async def names(self) -> Sequence[str]:
        """Return the names of all files, sorted."""
        if not await self._disk.exists(_KEPT):
            return []
        return [entry.name for entry in await self._disk.list_directory(_KEPT)]

    @staticmethod
    def _path(name: str) -> Path:
        if not name or "/" in name or name.startswith("."):
            raise OperatorError(
                f"{name!r} is no name of a file of the simulated disk: give one without / and leading ."
            )
        return _KEPT / name


class SimulatedNode:
    """`instance` says which of the application's hosts it is, from 1 (0: the driver's), `run` which run of its process,
    from 1.
    """

    bootstrap_servers: Final = ",".join(f"{host}:{PORT}" for host in BROKERS)

    def __init__(self, place: Place) -> None:
        self.host = place.host
        self.instance = place.instance
        self.run = place.run
        self.disk = SimulatedDisk(place)
        self._record = place.record

    def __repr__(self) -> str:
        return f"<{self.host}, run {self.run}>"

    def log(self, text: str) -> None:
        """Write a line into the trace of the run."""
        self._record(text)

    async def read_all(
        self, topic: str, *, isolation_level: str = "read_committed"
    ) -> list[aiokafka.ConsumerRecord[Any, Any]]:
        """Return all records of a topic up to its present end, each partition's in the order of their offsets."""
        from aiokafka import AIOKafkaConsumer, TopicPartition
        from aiokafka.admin import AIOKafkaAdminClient

        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        await admin.start()
        try:
            (described,) = await admin.describe_topics([topic])
        finally:
            await admin.close()
        partitions = [TopicPartition(topic, each["partition"]) for each in described["partitions"]]
        if not partitions:
            raise OperatorError(f"topic {topic} does not exist: give it to simulated(..., topics={{{topic!r}: 1}})")
        found: list[aiokafka.ConsumerRecord[Any, Any]] = []
        async with AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap_servers,
            isolation_level=isolation_level,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            for partition in sorted(partitions):
                while await consumer.position(partition) < ends[partition]:
                    for records in (await consumer.getmany(partition, timeout_ms=500)).values():
                        found += records
        return found

"""What clients read of the main topic once a run is over: everything as it is, and as read-committed readers see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from ...protocol import TopicPartition
from ...protocol.net import Address
from ..judges.core.acknowledged_writes import Anomaly, FinalLog
from ..machine.world import World
from .client import SimClient
from .workload import Reader, Shared


class FinalReads:
    """Each must be over within `limit_s`."""

    def __init__(self, world: World, addresses: Sequence[Address], shared: Shared, limit_s: float) -> None:
        self._world = world
        self._addresses = addresses
        self._shared = shared
        self._limit_s = limit_s

    async def everything(self, partition: TopicPartition) -> FinalLog:
        """TimeoutError."""
        async with self._reading(partition) as reader:
            return await reader.read_all()

    async def keyed(self, partition: TopicPartition) -> dict[int, tuple[bytes, bytes | None]]:
        """Key and value by offset. TimeoutError."""
        async with self._reading(partition) as reader:
            return await reader.read_keyed()

    async def committed(self, partition: TopicPartition) -> list[Anomaly]:
        """Where every transaction has ended, and no marker was lost: then nothing keeps these readers back."""
        if await self.comes_to_the_end(partition, self._limit_s, "judge"):
            return []
        detail = "read-committed readers do not come to its end, though every transaction has ended"
        return [Anomaly("not live", str(partition), detail)]

    async def comes_to_the_end(self, partition: TopicPartition, within_s: float, name: str = "probe") -> bool:
        """Whether a read-committed reader of that name does, in so long a time."""
        try:
            async with self._reading(partition, name, committed=True, within_s=within_s) as reader:
                await reader.read_stable()
        except TimeoutError:
            return False
        return True

    @asynccontextmanager
    async def _reading(
        self, partition: TopicPartition, name: str = "judge", *, committed: bool = False, within_s: float | None = None
    ) -> AsyncIterator[Reader]:
        client, rng = SimClient(name, self._addresses, self._world.rng(name)), self._world.rng(f"{name}/reader")
        try:
            async with asyncio.timeout(self._limit_s if within_s is None else within_s):
                yield Reader(name, partition, client, self._shared, rng, is_read_committed=committed)
        finally:
            await client.close()

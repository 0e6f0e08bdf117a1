"""Producer ids, from a block that the cluster view gave to this broker alone."""

from __future__ import annotations

import asyncio

from .view import ClusterView, ProducerIdBlock


class ProducerIds:
    """Hands out ids one by one; a block that was not used up is lost at the end of the process."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._block = ProducerIdBlock(0, 0)
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        """Return an id that no other producer has. Raise KafkaError or OSError if the view gives no new block now."""
        async with self._refill:
            if self._block.size == 0:
                self._block = await self._view.allocate_producer_ids()
            taken = self._block.first
            self._block = ProducerIdBlock(taken + 1, self._block.size - 1)
        return taken

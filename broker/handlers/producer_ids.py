"""InitProducerId for idempotent producers: ids from a block that the cluster view gave to this broker alone.

Transactional producers need a transaction coordinator, which there is not: their requests are refused. The markers of
transactions that somebody else coordinates come by WriteTxnMarkers.
"""

from __future__ import annotations

import asyncio

from ...protocol import OUTSIDE, ErrorCode
from ...protocol.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.net import RequestContext
from ..cluster.view import ClusterView, ProducerIdBlock

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class ProducerIds:
    """Hands out ids one by one; a block that was not used up is lost at the end of the process."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._block = ProducerIdBlock(0, 0)
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        """KafkaError or OSError if the view gives no new block now."""
        async with self._refill:
            if self._block.size == 0:
                self._block = await self._view.allocate_producer_ids()
            taken = self._block.first
            self._block = ProducerIdBlock(taken + 1, self._block.size - 1)
        return taken

    async def init_producer_id(self, _: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
        error, producer_id, epoch = ErrorCode.none, NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        if request.transactional_id is not None:
            error = ErrorCode.not_coordinator
        else:
            try:
                producer_id, epoch = await self.next(), 0
            except OUTSIDE:
                error = ErrorCode.coordinator_load_in_progress
        return InitProducerIdResponse(error_code=error, producer_id=producer_id, producer_epoch=epoch)

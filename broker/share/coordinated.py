"""The state of share groups as share coordinators keep it: the `LeaderPersister` of a broker that has them."""

from __future__ import annotations

from typing import Final

from ...protocol.messages.share_state import (
    WriteShareGroupStateRequestPartitionData,
    WriteShareGroupStateRequestStateBatch,
)
from ..share_state.client import ShareStateClient
from .core.partition import StoredBatch
from .persister import ShareKey, StateWrite, StoredState

INT32_MAX: Final = 2**31 - 1
"""What the field of a count can say: a batch that is archived may span more offsets."""


class CoordinatedPersister:
    """Reads and writes over the wire; every call has a deadline (`share_state.client`)."""

    def __init__(self, client: ShareStateClient) -> None:
        self._client = client

    async def read_state(self, key: ShareKey, leader_epoch: int) -> StoredState:
        """Return the state, and fence the leaders of older epochs. Raise KafkaError."""
        found = await self._client.read(key.group_id, (key.topic_id, key.number), leader_epoch)
        batches = tuple(
            StoredBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in found.state_batches
        )
        return StoredState(found.state_epoch, found.start_offset, batches)

    async def write_state(self, key: ShareKey, write: StateWrite) -> None:
        """Return once the change is durable. Raise KafkaError."""
        data = WriteShareGroupStateRequestPartitionData(
            partition=key.number,
            state_epoch=write.state_epoch,
            leader_epoch=write.leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=min(write.completed, INT32_MAX),
            state_batches=tuple(
                WriteShareGroupStateRequestStateBatch(
                    first_offset=each.first,
                    last_offset=each.last,
                    delivery_state=each.state,
                    delivery_count=each.delivery_count,
                )
                for each in write.batches
            ),
        )
        await self._client.write(key.group_id, key.topic_id, data)

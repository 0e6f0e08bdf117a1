"""What keeps the state of share-partitions, as the leaders of partitions need it (KIP-932).

The half of Kafka's `Persister` that they use. Every call raises KafkaError as the share coordinator answers, or after
a deadline of its own:

| error | what it means |
|---|---|
| FENCED_LEADER_EPOCH | a newer leader of the partition has been there |
| FENCED_STATE_EPOCH | the group's offsets were set, or its state was deleted, since it was read |
| COORDINATOR_NOT_AVAILABLE and its like | not now; a write may have been made all the same |
| INVALID_REQUEST | there is no state: it was never initialized, or is deleted; or the write makes no sense |
| UNKNOWN_TOPIC_OR_PARTITION, GROUP_ID_NOT_FOUND | there is no state: it was never initialized, or is deleted |
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol
from uuid import UUID

from ...light_dataclass import dataclass
from .core.partition import StoredBatch

UNINITIALIZED: Final = -1
"""The start offset of a partition that the group has not begun yet."""


class ShareKey(NamedTuple):
    """A share-partition: what one group does in one partition."""

    group_id: str
    topic_id: UUID
    number: int

    def __str__(self) -> str:
        return f"share group {self.group_id}, partition {self.number} of topic {self.topic_id}"


@dataclass(frozen=True, slots=True)
class StoredState:
    """What the coordinator has of a share-partition."""

    state_epoch: int
    start_offset: int
    batches: tuple[StoredBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWrite:
    """What the leader of an epoch changes. `completed` is the number of finished offsets from the start on."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    completed: int
    batches: tuple[StoredBatch, ...]


class LeaderPersister(Protocol):
    """What the leader of a partition needs."""

    async def read_state(self, key: ShareKey, leader_epoch: int) -> StoredState:
        """Return the state, and fence the leaders of older epochs."""

    async def write_state(self, key: ShareKey, write: StateWrite) -> None:
        """Return once the change is durable."""

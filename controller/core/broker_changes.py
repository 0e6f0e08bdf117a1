"""What follows for partitions when a broker comes, goes, or loses a directory: records, in the order of the index.

| event | partitions | what becomes of them |
|---|---|---|
| fenced, going down, unregistered | with it in the ISR | it leaves the ISR but as the last member; another leads |
| registered again | with it in the ISR | the same: a broker that registers is fenced at first |
| registered, a directory missing | with it in the ISR | leaves also as the last member if its replica may be lost |
| a directory went offline | with its replica there | as if fenced |
| unfenced | without a leader | it leads where it is in the ISR, or an unclean election is allowed |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from uuid import UUID

from ..image.registrations import PartitionKey, PartitionRegistration
from ..records import PartitionChangeRecord
from .partition_change import Election, PartitionChange
from .state import ControllerState

IsLost = Callable[[PartitionRegistration], bool]
"""Whether a broker lost its replica of the partition for good."""


def election_of(state: ControllerState, key: PartitionKey) -> Election:
    """The election that the topic's configs allow without an operator."""
    topic = state.image.topics[key.topic_id]
    return Election.UNCLEAN if state.is_unclean_election_enabled(topic.name) else Election.ONLINE


def without_broker(
    state: ControllerState, broker_id: int, is_lost: IsLost = lambda _: False
) -> Iterator[PartitionChangeRecord]:
    """The broker leaves every ISR; where `is_lost`, as the last member too."""
    for key in tuple(state.image.indexes.with_broker_in_isr(broker_id)):
        before = state.image.registration(key)
        record = _left_by(state, key, before, broker_id, is_lost=is_lost(before))
        if record is not None:
            yield record


def without_directories(
    state: ControllerState, broker_id: int, offline: Collection[UUID | None]
) -> Iterator[PartitionChangeRecord]:
    """The broker leaves the ISRs of the replicas in these directories."""
    for key in tuple(state.image.indexes.with_broker_in_isr(broker_id)):
        before = state.image.registration(key)
        if before.directory_of(broker_id) in offline:
            record = _left_by(state, key, before, broker_id, is_lost=False)
            if record is not None:
                yield record


def with_broker(state: ControllerState, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """The broker, still fenced in the image, is live from now on: what had no leader may have one."""
    broker = state.image.brokers[broker_id]
    unfenced = state.image.brokers | {broker_id: broker.unfenced()}
    for key in tuple(state.image.indexes.leaderless):
        before = state.image.registration(key)
        if broker_id not in before.replicas:
            continue
        record = PartitionChange(
            state,
            key,
            before,
            election=election_of(state, key),
            can_lead=lambda replica, before=before: state.can_lead(before, replica, unfenced),  # type: ignore[misc]
        ).build()
        if record is not None:
            yield record


def _left_by(
    state: ControllerState, key: PartitionKey, before: PartitionRegistration, broker_id: int, *, is_lost: bool
) -> PartitionChangeRecord | None:
    return PartitionChange(
        state,
        key,
        before,
        election=election_of(state, key),
        can_lead=lambda replica: replica != broker_id and state.can_lead(before, replica),
        isr=tuple(replica for replica in before.isr if replica != broker_id),
        empty_isr_allowed=is_lost,
    ).build()

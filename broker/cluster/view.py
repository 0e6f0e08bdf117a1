"""The `ClusterView` port: what a broker knows of its cluster, and the few things it may ask to change.

Its implementation (`quorum_view`) keeps these rules:

* `image` is an immutable value; a change is a new value. Listeners are called on the event loop, in the order of the
  changes, with the old and the new image, before any call that caused the change returns.
* `leader_epoch` and `partition_epoch` never go back. `alter_partition` is conditional on both, so that of two leaders
  that believe in themselves only one can change an ISR.
* A broker that registers with a new directory id no longer holds what the old one held: it leaves every ISR, also as
  the last member, and never leads what it lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Final, Protocol
from uuid import UUID

from ...light_dataclass import dataclass
from ...protocol import TopicIdPartition
from ..core.cluster_image import (
    NO_LEADER,
    BrokerRegistration,
    ClusterImage,
    EndPoint,
    PartitionRegistration,
    TopicImage,
)

__all__ = [
    "NO_EPOCHS",
    "NO_LEADER",
    "BrokerRegistration",
    "ClusterImage",
    "ClusterView",
    "EndPoint",
    "ImageListener",
    "NewTopic",
    "PartitionRegistration",
    "ProducerIdBlock",
    "TopicImage",
    "share_version",
]

SHARE_VERSION: Final = "share.version"
SHARE_VERSION_NEWEST: Final = 1


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create: either explicit `assignments` (replicas by partition, from 0) or the two numbers."""

    name: str
    partitions: int
    replication_factor: int
    assignments: tuple[tuple[int, ...], ...] = ()
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Producer ids [first, first + size) that no other producer is given."""

    first: int
    size: int


NO_EPOCHS: Final[Mapping[int, int]] = MappingProxyType({})

ImageListener = Callable[[ClusterImage, ClusterImage], None]
"""Called with the old and the new image."""


class ClusterView(Protocol):
    """The port. Calls that change something raise KafkaError when refused and OSError when the view cannot be
    reached.
    """

    @property
    def image(self) -> ClusterImage: ...

    def subscribe(self, listener: ImageListener) -> None: ...

    async def start(self) -> None:
        """Learn the first image and follow changes from now on."""

    async def close(self) -> None: ...

    async def register(self, broker: BrokerRegistration) -> None:
        """Announce the broker; afterwards the image has all that the cluster had decided by then.

        `broker.epoch` is that of its registration before, if it has stopped in order since then, else -1. It may lead
        and join ISRs only after `serve`, if the cluster has a controller.
        """

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 before it has one, or where the cluster keeps none."""

    @property
    def is_heard(self) -> bool:
        """Whether a controller has answered a request that this broker sent a short while ago. One that is not heard
        may have been fenced, and may lead no longer what its image says.
        """

    async def serve(self) -> None:
        """This broker serves from now on; returns when the cluster counts on it."""

    async def leave(self) -> None:
        """This broker will stop soon: returns when others lead what it led, or cannot."""

    async def alter_partition(
        self,
        partition: TopicIdPartition,
        *,
        leader_epoch: int,
        partition_epoch: int,
        isr: Sequence[int],
        stated_epochs: Mapping[int, int] = NO_EPOCHS,
    ) -> PartitionRegistration:
        """Replace the ISR, as its leader, and return what is registered now. `stated_epochs`: of the incarnations whose
        fetches made followers fit, as these stated them; another one is not what the leader saw (KIP-903).

        KafkaError: FENCED_LEADER_EPOCH or INVALID_UPDATE_VERSION when another change came first, UNKNOWN_TOPIC_ID,
        INELIGIBLE_REPLICA for a new member that is fenced, INVALID_REQUEST for an ISR that is empty or not among the
        replicas.
        """

    def assign_directory(self, partition: TopicIdPartition, directory_id: UUID) -> None:
        """Report in which directory this broker's replica is stored, as soon as the cluster can be reached. Return at
        once.


        A directory that the broker does not have, as the reserved LOST (KIP-858), takes the replica out of the ISR, and
        its leadership from it under the next leader epoch. The last member of an ISR stays, without a leader, until it
        has a directory again, and leads then under another epoch. No other partition changes.
        """

    async def create_topic(self, topic: NewTopic) -> TopicImage: ...

    async def allocate_producer_ids(self) -> ProducerIdBlock: ...


def share_version(view: ClusterView) -> int:
    """Return the level of `share.version` that the cluster runs at: from 1 on it has share groups (KIP-932)."""
    features = view.image.features
    return SHARE_VERSION_NEWEST if features is None else features.get(SHARE_VERSION, 0)

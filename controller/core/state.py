"""What a decision looks at: the image, which only replay changes, and what an active controller knows besides.

The second part (sessions, thin replicas) is in no log: a new active controller begins without it, gives every broker a
fresh session, and learns the rest from heartbeats; until then a replica counts as unknown, not as full.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Generic, TypeVar
from uuid import UUID

from ...light_dataclass import dataclass
from ...protocol import ErrorCode, KafkaError
from ..image.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from ..image.registrations import BrokerRegistration, PartitionKey, PartitionRegistration, is_reserved_directory
from ..records import MetadataRecord
from .config import TIERFETCH_VERSION, ControllerConfig
from .placement import RandomSource
from .quotas.mutations import Charge, free_of_charge
from .sessions import BrokerSessions
from .thin import ThinReplicas, Warmth

UNCLEAN_KEY = "unclean.leader.election.enable"
TIERED_KEY = "remote.storage.enable"
LOST_DIRECTORY = UUID(int=1)
_Item = TypeVar("_Item")
ResponseT_co = TypeVar("ResponseT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Moment:
    """When a decision is taken: the monotonic clock, and the offset that the next record will have."""

    now_ms: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class KRaftUpgrade:
    """kraft.version must be raised: by the quorum, for it is in control records, and the voters come with it."""

    level: int
    validate_only: bool


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[ResponseT_co]):
    """Records to append and the response to give once they are committed; None for what no request asks for.

    Records that are not `is_atomic` may be appended in several batches, in their order. `base_offset`: the first one
    must have it, or all must be decided again. `leaving`: the broker whose controlled shutdown the records begin.
    `kraft_upgrade`: what the quorum is asked first. `refusal`: the sentence for which the response has no room.
    """

    records: Sequence[MetadataRecord]
    response: ResponseT_co
    is_atomic: bool = True
    base_offset: int | None = None
    leaving: int | None = None
    kraft_upgrade: KRaftUpgrade | None = None
    refusal: str = ""


@dataclass(slots=True)
class ControllerState:
    """Everything but the clock. The quorum reports `kraft_version`."""

    config: ControllerConfig
    random: RandomSource
    image: MetadataImage = field(default_factory=MetadataImage)
    sessions: BrokerSessions = field(default_factory=BrokerSessions)
    thin: ThinReplicas = field(default_factory=ThinReplicas)
    kraft_version: int = 1
    charge: Charge = free_of_charge
    """What a decision calls for the partitions that it is about to create or delete: the quota of its request."""

    def is_unclean_election_enabled(self, topic: str) -> bool:
        """Return the topic's config, else the cluster's dynamic default, else the controller's own."""
        for resource_type, name in ((TOPIC_RESOURCE, topic), (BROKER_RESOURCE, "")):
            value = self.image.config(resource_type, name).get(UNCLEAN_KEY)
            if value is not None:
                return value.strip().lower() == "true"
        return self.config.unclean_leader_election_enable

    def can_lead(
        self,
        before: PartitionRegistration,
        broker_id: int,
        brokers: Mapping[int, BrokerRegistration] | None = None,
    ) -> bool:
        """Whether a replica is live: its broker is active and has the replica's directory.

        `brokers` are those of the image, unless given as they are about to be.
        """
        broker = (self.image.brokers if brokers is None else brokers).get(broker_id)
        return broker is not None and broker.is_active and is_online(before.directory_of(broker_id), broker)

    def warmth(self, key: PartitionKey, broker_id: int) -> Warmth:
        """How much of its log a replica holds locally, as far as its broker has reported (`thin`)."""
        return self.thin.warmth(key, broker_id) if self.may_be_thin(key, broker_id) else Warmth.FULL

    def may_be_thin(self, key: PartitionKey, broker_id: int) -> bool:
        """Whether a report decides: the topic is tiered, and the broker's heartbeats name its thin replicas, as those
        of brokers do that register with our feature.

        Replicas of Apache Kafka may be thin too (KIP-1023), but its brokers never say so. They count as full, as they
        do in Apache Kafka; as unknown for ever they could lead only where no other replica can.
        """
        broker, topic = self.image.brokers.get(broker_id), self.image.topics.get(key.topic_id)
        if broker is None or topic is None:
            return False
        is_tiered = self.image.config(TOPIC_RESOURCE, topic.name).get(TIERED_KEY, "").strip().lower() == "true"
        return is_tiered and any(feature.name == TIERFETCH_VERSION for feature in broker.features)

    def new_uuid(self) -> UUID:
        """Random, not reserved, and in Kafka's text not beginning with a dash, which tools take for an option."""
        while True:
            value = UUID(int=self.random.getrandbits(128), version=4)
            if value.bytes[0] >> 2 != _DASH and not is_reserved_directory(value):
                return value


_DASH = 62
"""In URL-safe base64, the six bits written as '-'."""


def is_online(directory: UUID | None, broker: BrokerRegistration) -> bool:
    """Unassigned counts as online: the broker has not said yet. A broker without directories has not said at all."""
    return not broker.directories or has_directory(directory, broker.directories)


def has_directory(directory: UUID | None, online: Collection[UUID | None]) -> bool:
    """Whether a replica that is registered in this directory is online at a broker with these directories."""
    return directory in online or (is_reserved_directory(directory) and directory != LOST_DIRECTORY)


def check_broker_epoch(image: MetadataImage, broker_id: int, epoch: int) -> BrokerRegistration:
    """The broker, if it is registered under this epoch; STALE_BROKER_EPOCH otherwise."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.stale_broker_epoch, f"broker {broker_id} is not registered")
    if broker.epoch != epoch:
        raise KafkaError(
            ErrorCode.stale_broker_epoch,
            f"broker {broker_id} has epoch {broker.epoch}, not {epoch}: it must register again",
        )
    return broker


def find_duplicates(items: Sequence[_Item]) -> set[_Item]:
    """What is there more than once."""
    seen: set[_Item] = set()
    return {item for item in items if item in seen or seen.add(item)}  # type: ignore[func-returns-value]

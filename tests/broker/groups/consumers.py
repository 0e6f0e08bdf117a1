"""Members of one consumer group (KIP-848) as clients behave, and the coordinator's group between them.

A client owns what it was told once it has taken it in; what it gives up it no longer owns from then on. Its answers may
be held back or lost. Records are kept, as the log would.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from tierfetch.broker.groups.core.consumer.decision import ConsumerSettings, Decision, World, expire
from tierfetch.broker.groups.core.consumer.heartbeat import Beat, Told, heartbeat
from tierfetch.broker.groups.core.consumer.records import Assignment
from tierfetch.broker.groups.core.consumer.state import ConsumerGroup
from tierfetch.broker.groups.core.consumer.topics import Topic, Topics
from tierfetch.broker.groups.core.records import GroupRecord
from tierfetch.protocol.errors import KafkaError

SETTINGS = ConsumerSettings()
REBALANCE_MS = 30_000


def topics(**partitions: int) -> Topics:
    return {name: Topic(name, UUID(int=1000 + index), count) for index, (name, count) in enumerate(partitions.items())}


@dataclass
class Client:
    """One consumer."""

    name: str
    topics: tuple[str, ...] = ("a",)
    instance: str | None = None
    assignor: str | None = None
    regex: str | None = None
    epoch: int = 0
    owned: Assignment = field(default_factory=dict)
    told: Told | None = None
    """An answer that it has not taken in yet."""
    is_unsure: bool = False
    """An answer was lost: it says everything, and is answered with everything."""

    def beat(self, epoch: int | None = None) -> Beat:
        is_joining = (self.epoch if epoch is None else epoch) == 0
        return Beat(
            member_id=self.name,
            epoch=self.epoch if epoch is None else epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=REBALANCE_MS if is_joining or self.is_unsure else -1,
            topics=self.topics,
            regex=self.regex,
            assignor=self.assignor,
            owned={} if is_joining else self.owned,
            client_id=self.name,
            client_host="/127.0.0.1",
        )

    def take_in(self) -> None:
        if self.told is None:
            return
        self.epoch, self.is_unsure = self.told.epoch, False
        if self.told.assignment is not None:
            self.owned = self.told.assignment
        self.told = None

    def start_anew(self) -> None:
        self.epoch, self.owned, self.told = 0, {}, None

    @property
    def partitions(self) -> set[tuple[UUID, int]]:
        return {(topic_id, number) for topic_id, numbers in self.owned.items() for number in numbers}


class Stage:
    """A group, its log, and its clock."""

    def __init__(self, known: Topics, settings: ConsumerSettings = SETTINGS) -> None:
        self.group = ConsumerGroup("g")
        self.topics = known
        self.settings = settings
        self.now_ms = 0
        self.log: list[GroupRecord] = []

    @property
    def world(self) -> World:
        return World(self.topics, self.settings, self.now_ms)

    def beat(self, beat: Beat) -> Told:
        decision = Decision(self.group)
        try:
            told = heartbeat(decision, beat, self.world)
        except KafkaError:
            assert not decision.records, "a refused heartbeat decides nothing"
            raise
        self.log += decision.records
        return told

    def hear(self, client: Client, epoch: int | None = None) -> Told:
        """A heartbeat whose answer is taken in at once."""
        client.told = self.beat(client.beat(epoch))
        told = client.told
        client.take_in()
        return told

    def tick(self, ms: int) -> list[str]:
        self.now_ms += ms
        decision = Decision(self.group)
        lost = expire(decision, self.world)
        self.log += decision.records
        return lost

    def settle(self, *clients: Client, rounds: int = 8) -> None:
        """Let everybody be heard until nothing moves any more."""
        for _ in range(rounds):
            for client in clients:
                self.hear(client)

    def replayed(self) -> ConsumerGroup:
        """Return what another coordinator would have."""
        group = ConsumerGroup("g")
        for record in self.log:
            group.apply(record)
        return group

"""Members of one consumer group (KIP-848) as clients behave, and the coordinator's group between them.

A client owns what it was told once it has taken it in; what it gives up it no longer owns from then on. Its answers may
be held back or lost. Records are kept, as the log would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from tierfetch.broker.groups.core.consumer import classic
from tierfetch.broker.groups.core.consumer.decision import ConsumerSettings, Decision, World, expire
from tierfetch.broker.groups.core.consumer.heartbeat import Beat, Told, heartbeat
from tierfetch.broker.groups.core.consumer.records import Assignment
from tierfetch.broker.groups.core.consumer.state import ConsumerGroup
from tierfetch.broker.groups.core.consumer.subscription import read_assignment
from tierfetch.broker.groups.core.consumer.topics import Topic, Topics
from tierfetch.broker.groups.core.events import Heartbeat, Join, MemberIdentity, Sync
from tierfetch.broker.groups.core.records import GroupRecord
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.wire import Writer

SETTINGS = ConsumerSettings()
REBALANCE_MS = 30_000
A = UUID(int=1000)
SESSIONS = classic.Sessions(6_000, 1_800_000)

T = TypeVar("T")


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


def subscription(
    names: tuple[str, ...], owned: Assignment, known: Topics, version: int, rack: str | None = None
) -> bytes:
    """What a client of the classic protocol says in JoinGroup."""
    writer = Writer(flexible=False)
    writer.int16(version)
    writer.array_length(len(names))
    for name in names:
        writer.string(name)
    writer.int32(-1)
    if version >= 1:
        held = {topic.name: owned[topic.topic_id] for topic in known.values() if topic.topic_id in owned}
        writer.array_length(len(held))
        for name, numbers in held.items():
            writer.string(name)
            writer.array_length(len(numbers))
            for number in sorted(numbers):
                writer.int32(number)
    if version >= 2:
        writer.int32(-1)
    if version >= 3:
        writer.string(rack)
    return bytes(writer.out)


@dataclass
class ClassicClient:
    """One consumer of the classic protocol; an eager one gives up everything before it joins again."""

    name: str
    topics: tuple[str, ...] = ("a",)
    is_eager: bool = True
    instance: str | None = None
    generation: int = -1
    owned: Assignment = field(default_factory=dict)

    @property
    def who(self) -> MemberIdentity:
        return MemberIdentity(self.name, self.instance)

    @property
    def partitions(self) -> set[tuple[UUID, int]]:
        return {(topic_id, number) for topic_id, numbers in self.owned.items() for number in numbers}

    def joining(self, known: Topics) -> Join:
        metadata = subscription(self.topics, self.owned, known, 0 if self.is_eager else 1)
        return Join(
            token="join",
            who=self.who,
            new_member_id=self.name,
            client_id=self.name,
            client_host="/127.0.0.1",
            session_timeout_ms=SETTINGS.session_timeout_ms,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=(("range" if self.is_eager else "cooperative-sticky", metadata), ("common", metadata)),
        )


class Stage:
    """A group, its log, and its clock."""

    def __init__(self, known: Topics, settings: ConsumerSettings = SETTINGS) -> None:
        self.group = ConsumerGroup("g")
        self.versions = 0
        self.topics = known
        self.settings = settings
        self.now_ms = 0
        self.log: list[GroupRecord] = []

    @property
    def world(self) -> World:
        return World(self.topics, self.versions, self.settings, self.now_ms)

    @property
    def topics(self) -> Topics:
        return self._topics

    @topics.setter
    def topics(self, known: Topics) -> None:
        self._topics = known
        self.versions += 1

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

    def decide(self, answer: Callable[[Decision], T]) -> T:
        decision = Decision(self.group)
        given = answer(decision)
        self.log += decision.records
        return given

    def hear_classic(self, client: ClassicClient) -> ErrorCode:
        """One heartbeat of a classic member, and what it does about it."""
        beat = Heartbeat(token="beat", who=client.who, generation_id=client.generation)
        error = self.decide(lambda decision: classic.heartbeat(decision, beat, self.world))
        if error is not ErrorCode.none:
            self.join_classic(client)
        return error

    def join_classic(self, client: ClassicClient) -> ErrorCode:
        """Join and fetch the assignment; a cooperative member that had to give something up will join again."""
        if client.is_eager:
            client.owned = {}
        event = client.joining(self.topics)
        joined = self.decide(lambda decision: classic.join(decision, event, self.world, SESSIONS))
        assert joined.error is ErrorCode.none, joined
        assert joined.generation_id >= client.generation, "a member's generation never goes back"
        client.generation = joined.generation_id
        sync = Sync(token="sync", who=client.who, generation_id=client.generation, assignments={})
        synced = self.decide(lambda decision: classic.sync(decision, sync, self.world))
        if synced.error is ErrorCode.none:
            client.owned = read_assignment(synced.assignment, self.topics) or {}
        return synced.error

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

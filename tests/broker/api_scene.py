"""What every API is asked of: a cluster with content, made over the wire alone, so that any Kafka can have it.

| there is | for |
|---|---|
| topic `every`, two partitions, three records in the first | reads, offsets, epochs, configs |
| topic `moving`, its replica on its way to a broker that never comes | reassignments |
| group `live`, stable, one member; group `offsets`, commits alone | groups |
| broker 77, registered and never unfenced | what brokers say to a controller |
| transactional id `open`, an open transaction in the first partition of topic `in-transaction` | transactions |
| observer 900 of the metadata log | what is told of a quorum |
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final
from uuid import UUID

from tierfetch.controller.records import RegisterBrokerRecord, decode_record
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchTopic
from tierfetch.protocol.messages.base import Request, ResponseT
from tierfetch.protocol.messages.groups import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tierfetch.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tierfetch.protocol.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from tierfetch.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateRequestPartitionData,
    DeleteStateData,
)
from tierfetch.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.protocol.records import Record, build_batch, iter_batches, iter_records
from tierfetch.protocol.requests import offsets_of
from tierfetch.protocol.topics import uuid_to_text
from tierfetch.protocol.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tierfetch.security.client import ClientIdentity
from tierfetch.tests.messages import fitting, request_of

TOPIC: Final = "every"
MOVING: Final = "moving"
LIVE: Final = "live"
COMMITTED: Final = "offsets"
OPEN: Final = "open"
IN_TRANSACTION: Final = "in-transaction"
TRANSACTION_TIMEOUT_MS: Final = 600_000
BROKER: Final = 1
GHOST: Final = 77
OBSERVER: Final = 900
METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = UUID(int=1)
DEADLINE_S: Final = 30.0
RETRY_S: Final = 0.02
NOT_YET: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.concurrent_transactions,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
    }
)
PROTOCOL: Final = "range"
PROTOCOL_TYPE: Final = "consumer"
SUBSCRIPTION: Final = b"\0\0" + b"\0\0\0\1" + b"\0\5every" + b"\xff\xff\xff\xff"
ASSIGNMENT: Final = b"\0\0" + b"\0\0\0\1" + b"\0\5every" + b"\0\0\0\1\0\0\0\0" + b"\xff\xff\xff\xff"
"""A consumer's: version 0, one topic, one partition, no user data."""


@dataclass(slots=True)
class Member:
    """A member of a group, as its JoinGroup was answered."""

    group_id: str
    member_id: str
    generation_id: int


@dataclass(slots=True)
class Scene:
    """Where to ask, and the names of what is there."""

    client: KafkaClient
    broker: Address
    controller: Address
    cluster_id: str = ""
    topic_ids: dict[str, UUID] = field(default_factory=dict)
    live: Member = field(default_factory=lambda: Member("", "", -1))
    broker_epoch: int = -1
    ghost_epoch: int = -1
    leader_id: int = -1
    leader_epoch: int = -1
    drawn: int = 0

    def unique(self, stem: str) -> str:
        self.drawn += 1
        return f"{stem}-{self.drawn}"

    def uuid(self) -> UUID:
        self.drawn += 1
        return UUID(int=(4 << 76) + (8 << 60) + self.drawn)

    async def ask(self, api: ApiKey, body: Any, *, version: int | None = None, controller: bool = False) -> Any:
        """Return the broker's answer in a version, the newest if none is named; what it cannot express is left out."""
        address = self.controller if controller else self.broker
        return await self.client.send(
            address, fitting(request_of(api, body, version), version), max_version=version, timeout_s=DEADLINE_S
        )

    async def send(
        self, request: Request[ResponseT], *, version: int | None = None, controller: bool = False
    ) -> ResponseT:
        """Return the answer of the broker, in the newest version if none is named."""
        address = self.controller if controller else self.broker
        return await self.client.send(address, fitting(request, version), max_version=version, timeout_s=DEADLINE_S)

    async def create_topic(self, name: str, partitions: int = 1) -> UUID:
        """Returns once every partition is served."""
        body = {
            "topics": [new_topic(name, partitions)],
            "timeout_ms": 10_000,
            "validate_only": False,
        }
        (made,) = (await self.ask(ApiKey.CREATE_TOPICS, body)).topics
        assert made.error_code is ErrorCode.none, made
        for number in range(partitions):
            await settled(partial(self.end_of, name, number))
        self.topic_ids[name] = made.topic_id
        return made.topic_id

    async def end_of(self, name: str, partition: int) -> ErrorCode:
        answer = await self.send(offsets_of([(name, partition)], -1, timeout_ms=1000))
        return answer.topics[0].partitions[0].error_code

    async def coordinator(self) -> ErrorCode:
        """The first who looks for one has the topic of the groups made."""
        answer = await self.send(FindCoordinatorRequest(coordinator_keys=(COMMITTED,)))
        return answer.coordinators[0].error_code

    async def set_share_version(self, level: int) -> None:
        """Raise it, or lower it."""
        update = {
            "feature": "share.version",
            "max_version_level": level,
            "upgrade_type": 1 if level else 2,
            "allow_downgrade": not level,
        }
        body = {"timeout_ms": 10_000, "feature_updates": [update], "validate_only": False}
        answer = await self.ask(ApiKey.UPDATE_FEATURES, body)
        assert answer.error_code is ErrorCode.none, answer

    async def share_coordinator(self) -> ErrorCode:
        """The first who looks for one has its topic made."""
        key = f"state:{uuid_to_text(self.topic_ids[TOPIC])}:0"
        answer = await self.send(FindCoordinatorRequest(key_type=2, coordinator_keys=(key,)))
        return answer.coordinators[0].error_code

    async def share_state(self) -> ErrorCode:
        """Return whether the topic is read."""
        data = DeleteShareGroupStateRequestPartitionData(partition=0)
        topic = DeleteStateData(topic_id=self.topic_ids[TOPIC], partitions=(data,))
        answer = await self.send(DeleteShareGroupStateRequest(group_id="state", topics=(topic,)))
        return answer.results[0].partitions[0].error_code

    async def transactional(self, transactional_id: str, *topics: str) -> InitProducerIdResponse:
        """Return a new producer, with the first partitions of the topics in its transaction if any are named."""

        async def found() -> ErrorCode:
            request = FindCoordinatorRequest(key_type=1, coordinator_keys=(transactional_id,))
            return (await self.send(request)).coordinators[0].error_code

        producer = InitProducerIdResponse(producer_epoch=-1)

        async def initialized() -> ErrorCode:
            nonlocal producer
            request = InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
            )
            producer = await self.send(request)
            return producer.error_code

        async def added() -> ErrorCode:
            answer = await self.send(adding(transactional_id, producer, *topics, version=3), version=3)
            return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

        await settled(found)
        await settled(initialized)
        if topics:
            await settled(added)
        return producer

    async def open_transaction(self) -> None:
        """One record of transactional id `open`, whose transaction never ends."""
        await self.create_topic(IN_TRANSACTION)
        producer = await self.transactional(OPEN, IN_TRANSACTION)
        now_ms = int(time.time() * 1000)
        batch = build_batch(
            [Record(0, now_ms, b"k", b"v")],
            base_offset=0,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )

        async def written() -> ErrorCode:
            partition = ProducePartition(0, bytearray(batch))
            topic = ProduceTopic((partition,), topic=IN_TRANSACTION, topic_id=self.topic_ids[IN_TRANSACTION])
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topics=(topic,), transactional_id=OPEN)
            answer = await self.send(request, version=11)
            assert answer is not None
            return answer.topics[0].partitions[0].error_code

        await settled(written)

    async def commit(self, group_id: str) -> None:
        """An offset for the first partition of the topic, by nobody's member."""

        async def once() -> ErrorCode:
            answer = await self.send(self.commit_of(group_id))
            return answer.topics[0].partitions[0].error_code

        await settled(once)

    def commit_of(self, group_id: str) -> OffsetCommitRequest:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=2, committed_leader_epoch=0, committed_metadata="m"
        )
        topic = OffsetCommitRequestTopic(name=TOPIC, topic_id=self.topic_ids[TOPIC], partitions=(partition,))
        return OffsetCommitRequest(group_id=group_id, member_id="", topics=(topic,))

    async def join(self, group_id: str) -> Member:
        """A new group with one member, whose assignment is still to come."""
        member_id, generation_id = "", -1

        async def once() -> ErrorCode:
            nonlocal member_id, generation_id
            answer = await self.send(joining(group_id, member_id))
            member_id, generation_id = answer.member_id, answer.generation_id
            return ErrorCode.not_coordinator if answer.error_code is ErrorCode.member_id_required else answer.error_code

        await settled(once)
        return Member(group_id, member_id, generation_id)

    async def join_and_sync(self, group_id: str) -> Member:
        member = await self.join(group_id)
        answer = await self.send(syncing(member))
        assert answer.error_code is ErrorCode.none, answer
        return member

    def registering(self, broker_id: int) -> dict[str, Any]:
        return {
            "broker_id": broker_id,
            "cluster_id": self.cluster_id,
            "incarnation_id": self.uuid(),
            "listeners": [{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 1000 + broker_id, "security_protocol": 0}],
            "features": [
                {"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 30},
                {"name": "kraft.version", "min_supported_version": 0, "max_supported_version": 1},
                {"name": "group.version", "min_supported_version": 0, "max_supported_version": 1},
                {"name": "transaction.version", "min_supported_version": 0, "max_supported_version": 2},
                {"name": "share.version", "min_supported_version": 0, "max_supported_version": 1},
                {"name": "streams.version", "min_supported_version": 0, "max_supported_version": 1},
                {"name": "eligible.leader.replicas.version", "min_supported_version": 0, "max_supported_version": 1},
            ],
            "rack": "ghosts",
            "log_dirs": [UUID(int=(4 << 76) + (8 << 60) + 1_000_000 + broker_id)],
            "previous_broker_epoch": -1,
        }

    def observing(self, offset: int = 0) -> FetchRequest:
        """A Fetch of the metadata log, as a broker of that number sends it."""
        partition = FetchPartition(
            0, fetch_offset=offset, last_fetched_epoch=0, current_leader_epoch=self.leader_epoch, log_start_offset=0
        )
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1_000_000,
            replica_id=OBSERVER,
            cluster_id=self.cluster_id,
            topics=(FetchTopic((partition,), topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID),),
        )

    async def look_into_the_metadata_log(self) -> None:
        """Who leads the quorum, and in which epoch the broker is registered."""
        asked = {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]}
        quorum = (await self.ask(ApiKey.DESCRIBE_QUORUM, asked)).topics[0].partitions[0]
        self.leader_id, self.leader_epoch = quorum.leader_id, quorum.leader_epoch
        answer = await self.ask(ApiKey.FETCH, self.observing(), controller=True)
        (fetched,) = answer.topics[0].partitions
        data = bytes(fetched.records)
        for position, header in iter_batches(data):
            for each in () if header.is_control else iter_records(data, position, header):
                record = decode_record(bytes(each.value or b"")).record
                if isinstance(record, RegisterBrokerRecord) and record.broker_id == BROKER:
                    self.broker_epoch = record.broker_epoch

    async def register(self, broker_id: int) -> int:
        """Its broker epoch."""
        answer = await self.ask(ApiKey.BROKER_REGISTRATION, self.registering(broker_id), controller=True)
        assert answer.error_code is ErrorCode.none, answer
        return int(answer.broker_epoch)


async def make_scene(client: KafkaClient, broker: Address, controller: Address, *, has_shares: bool = True) -> Scene:
    """The cluster of the module's table; `has_shares`: share groups are offered."""
    scene = Scene(client, broker, controller)
    cluster = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
    scene.cluster_id = (await scene.ask(ApiKey.DESCRIBE_CLUSTER, cluster)).cluster_id
    await scene.look_into_the_metadata_log()
    await scene.set_share_version(1 if has_shares else 0)
    op = {"key": "producer_byte_rate", "value": 1e9, "remove": False}
    limited = {"entity": [{"entity_type": "client-id", "entity_name": "limited"}], "ops": [op]}
    await scene.ask(ApiKey.ALTER_CLIENT_QUOTAS, {"entries": [limited], "validate_only": False})
    await scene.create_topic(TOPIC, 2)
    await scene.ask(ApiKey.PRODUCE, produced(scene.topic_ids[TOPIC]))
    await scene.create_topic(MOVING)
    scene.ghost_epoch = await scene.register(GHOST)
    moved = {"name": MOVING, "partitions": [{"partition_index": 0, "replicas": [GHOST]}]}
    body = {"timeout_ms": 1000, "allow_replication_factor_change": True, "topics": [moved]}
    answer = await scene.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, body)
    assert answer.responses[0].partitions[0].error_code is ErrorCode.none, answer
    await settled(scene.coordinator)
    if has_shares:
        await settled(scene.share_coordinator)
        await settled(scene.share_state)
    await scene.commit(COMMITTED)
    scene.live = await scene.join_and_sync(LIVE)
    await scene.open_transaction()
    return scene


def scene_client(identity: ClientIdentity | None = None) -> KafkaClient:
    return KafkaClient(client_id="every-api", random=Random(1), identity=identity)


async def settled(ask: Callable[[], Awaitable[ErrorCode]]) -> None:
    """Ask until the answer says that the cluster is ready for the question."""
    async with asyncio.timeout(DEADLINE_S):
        while (code := await ask()) in NOT_YET:  # noqa: ASYNC110  # the cluster is asked, it tells nothing by itself
            await asyncio.sleep(RETRY_S)
    assert code is ErrorCode.none, code


def new_topic(name: str, partitions: int = 1, **configs: str) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }


def produced(topic_id: UUID, name: str = TOPIC, partition: int = 0) -> ProduceRequest:
    """Three records."""
    now_ms = int(time.time() * 1000)
    batch = build_batch([Record(number, now_ms, b"k", b"v") for number in range(3)], base_offset=0)
    topic = ProduceTopic((ProducePartition(partition, batch),), topic=name, topic_id=topic_id)
    return ProduceRequest(acks=-1, timeout_ms=10_000, topics=(topic,))


def adding(
    transactional_id: str, producer: InitProducerIdResponse, *topics: str, version: int, verifies: bool = False
) -> AddPartitionsToTxnRequest:
    """Return a client's request before version 4, and a broker's from there on, which may only verify."""
    some = tuple(AddPartitionsToTxnTopic(name=name, partitions=(0,)) for name in topics)
    if version < 4:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=some,
        )
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=verifies,
        topics=some,
    )
    return AddPartitionsToTxnRequest(transactions=(transaction,))


def together(*requests: AddPartitionsToTxnRequest) -> AddPartitionsToTxnRequest:
    """Return one broker's request for the transactional ids of all."""
    return AddPartitionsToTxnRequest(transactions=tuple(each for request in requests for each in request.transactions))


def joining(group_id: str, member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=(JoinGroupRequestProtocol(name=PROTOCOL, metadata=SUBSCRIPTION),),
        reason="test",
    )


def syncing(member: Member) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=member.group_id,
        generation_id=member.generation_id,
        member_id=member.member_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=PROTOCOL,
        assignments=(SyncGroupRequestAssignment(member_id=member.member_id, assignment=ASSIGNMENT),),
    )

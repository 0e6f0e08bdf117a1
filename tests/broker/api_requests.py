"""What each API is asked, once for all its versions; the codec takes what a version has.

An entry is an async function of the scene and `ask`, which asks this API in the version that is being looked at and
keeps the answer. A listener's APIs are compared with this table, so that none is offered without a question.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol
from uuid import UUID

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import RequestHeader, write_request
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchTopic
from tierfetch.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from tierfetch.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
)
from tierfetch.protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tierfetch.protocol.messages.producers import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tierfetch.protocol.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from tierfetch.protocol.messages.share_records import ShareAcknowledgeRequest, ShareFetchRequest
from tierfetch.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateRequestPartitionData,
    DeleteStateData,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateRequestPartitionData,
    InitializeStateData,
    ReadShareGroupStateRequest,
    ReadShareGroupStateRequestPartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryRequestPartitionData,
    ReadStateData,
    ReadStateSummaryData,
    WriteShareGroupStateRequest,
    WriteShareGroupStateRequestPartitionData,
    WriteShareGroupStateRequestStateBatch,
    WriteStateData,
)
from tierfetch.protocol.messages.topics import ListPartitionReassignmentsRequest
from tierfetch.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsRequest,
    TopicRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tierfetch.protocol.requests import offsets_of
from tierfetch.tests.broker.api_scene import (
    BROKER,
    COMMITTED,
    GHOST,
    IN_TRANSACTION,
    LIVE,
    METADATA_TOPIC,
    MOVING,
    OPEN,
    TOPIC,
    Member,
    Scene,
    adding,
    joining,
    new_topic,
    produced,
    syncing,
    together,
)


class Ask(Protocol):
    """Asks the API in `version`, and keeps the answer."""

    version: int

    async def __call__(self, body: Any) -> Any: ...


Talk = Callable[[Scene, Ask], Awaitable[None]]

UNKNOWN: Final = "unknown"
UNKNOWN_ID: Final = UUID(int=(4 << 76) + (8 << 60) + 99_999_999)
STRANGER: Final = 999
TIMEOUT_MS: Final = 10_000
QUESTIONS: Final[dict[ApiKey, Talk]] = {}


def question(api: ApiKey) -> Callable[[Talk], Talk]:
    def note(talk: Talk) -> Talk:
        QUESTIONS[api] = talk
        return talk

    return note


# Records and offsets.


@question(ApiKey.PRODUCE)
async def produce(scene: Scene, ask: Ask) -> None:
    await ask(produced(scene.topic_ids[TOPIC], partition=1))
    await ask(produced(UNKNOWN_ID, name=UNKNOWN))


def fetching(name: str, topic_id: UUID, partition: FetchPartition) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=(FetchTopic((partition,), topic=name, topic_id=topic_id),), max_bytes=4096
    )


@question(ApiKey.FETCH)
async def fetch(scene: Scene, ask: Ask) -> None:
    """A listener answers for its own topic, and knows nothing of the other."""
    await ask(fetching(TOPIC, scene.topic_ids[TOPIC], FetchPartition(0, partition_max_bytes=4096)))
    await ask(fetching(TOPIC, scene.topic_ids[TOPIC], FetchPartition(0, fetch_offset=1000)))
    await ask(scene.observing())


@question(ApiKey.LIST_OFFSETS)
async def list_offsets(_: Scene, ask: Ask) -> None:
    for timestamp in (-1, -2, 0):
        await ask(offsets_of([(TOPIC, number) for number in (0, 9)], timestamp, timeout_ms=TIMEOUT_MS))


@question(ApiKey.OFFSET_FOR_LEADER_EPOCH)
async def offset_for_leader_epoch(_: Scene, ask: Ask) -> None:
    partitions = tuple(OffsetForLeaderPartition(partition=number, leader_epoch=0) for number in (0, 9))
    topics = (OffsetForLeaderTopic(topic=TOPIC, partitions=partitions),)
    await ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics))


@question(ApiKey.DELETE_RECORDS)
async def delete_records(scene: Scene, ask: Ask) -> None:
    partitions = tuple(DeleteRecordsPartition(partition_index=number, offset=0) for number in (0, 9))
    topics = (DeleteRecordsTopic(name=TOPIC, partitions=partitions),)
    await ask(DeleteRecordsRequest(timeout_ms=TIMEOUT_MS, topics=topics))


@question(ApiKey.WRITE_TXN_MARKERS)
async def write_txn_markers(_: Scene, ask: Ask) -> None:
    marker = WritableTxnMarker(
        producer_id=5000,
        producer_epoch=0,
        transaction_result=False,
        coordinator_epoch=0,
        topics=(WritableTxnMarkerTopic(name=TOPIC, partition_indexes=(1, 9)),),
    )
    await ask(WriteTxnMarkersRequest(markers=(marker,)))


@question(ApiKey.INIT_PRODUCER_ID)
async def init_producer_id(_: Scene, ask: Ask) -> None:
    await ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS))


# Transactions.


@question(ApiKey.ADD_PARTITIONS_TO_TXN)
async def add_partitions_to_txn(scene: Scene, ask: Ask) -> None:
    transactional_id = scene.unique("adding")
    producer, stranger = (
        await scene.transactional(transactional_id),
        InitProducerIdResponse(producer_id=1, producer_epoch=0),
    )
    await ask(adding(transactional_id, producer, TOPIC, version=ask.version))
    await ask(adding(UNKNOWN, stranger, TOPIC, MOVING, version=ask.version))
    if ask.version < 4:
        await ask(adding(transactional_id, producer, TOPIC, "__consumer_offsets", "absent", version=ask.version))
        return
    other_id = scene.unique("adding")
    other = await scene.transactional(other_id)
    await ask(
        together(
            adding(transactional_id, producer, TOPIC, verifies=True, version=ask.version),
            adding(UNKNOWN, stranger, TOPIC, verifies=True, version=ask.version),
            adding(other_id, other, TOPIC, MOVING, version=ask.version),
        )
    )
    newer = replace(producer, producer_epoch=producer.producer_epoch + 1)
    for verifies in (True, False):
        await ask(
            together(
                adding(other_id, other, TOPIC, "absent", verifies=verifies, version=ask.version),
                adding(transactional_id, newer, TOPIC, verifies=verifies, version=ask.version),
                adding("", stranger, TOPIC, verifies=verifies, version=ask.version),
            )
        )
    await ask(adding(transactional_id, producer, TOPIC, MOVING, verifies=True, version=ask.version))


@question(ApiKey.ADD_OFFSETS_TO_TXN)
async def add_offsets_to_txn(scene: Scene, ask: Ask) -> None:
    transactional_id = scene.unique("offsets")
    producer = await scene.transactional(transactional_id)
    await ask(
        AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=COMMITTED,
        )
    )


@question(ApiKey.END_TXN)
async def end_txn(scene: Scene, ask: Ask) -> None:
    transactional_id = scene.unique("ending")
    producer = await scene.transactional(transactional_id, TOPIC)
    await ask(
        EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=True,
        )
    )


@question(ApiKey.TXN_OFFSET_COMMIT)
async def txn_offset_commit(scene: Scene, ask: Ask) -> None:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="m")
    for name in (TOPIC, UNKNOWN):
        await ask(
            TxnOffsetCommitRequest(
                transactional_id=UNKNOWN,
                group_id=COMMITTED,
                producer_id=1,
                producer_epoch=0,
                topics=(TxnOffsetCommitRequestTopic(name=name, partitions=(partition,)),),
            )
        )


@question(ApiKey.DESCRIBE_PRODUCERS)
async def describe_producers(_: Scene, ask: Ask) -> None:
    names = (IN_TRANSACTION, UNKNOWN)
    topics = tuple(TopicRequest(name=name, partition_indexes=(0,)) for name in names)
    await ask(DescribeProducersRequest(topics=topics))


@question(ApiKey.DESCRIBE_TRANSACTIONS)
async def describe_transactions(_: Scene, ask: Ask) -> None:
    await ask(DescribeTransactionsRequest(transactional_ids=(OPEN, UNKNOWN, "")))


@question(ApiKey.LIST_TRANSACTIONS)
async def list_transactions(_: Scene, ask: Ask) -> None:
    await ask(ListTransactionsRequest())
    await ask(ListTransactionsRequest(state_filters=("Ongoing", "Lost")))
    if ask.version >= 2:
        for pattern in (OPEN, f"{OPEN[:2]}.*", OPEN[:2], ""):
            await ask(ListTransactionsRequest(transactional_id_pattern=pattern))


# The cluster.


@question(ApiKey.API_VERSIONS)
async def api_versions(_: Scene, ask: Ask) -> None:
    await ask({"client_software_name": "every-api", "client_software_version": "1"})
    await ask({"client_software_name": " ", "client_software_version": ""})


@question(ApiKey.METADATA)
async def metadata(scene: Scene, ask: Ask) -> None:
    flags = {
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
    }
    topics = [{"name": name, "topic_id": None} for name in (TOPIC, MOVING, UNKNOWN, "not a name")]
    await ask({**flags, "topics": topics})


@question(ApiKey.DESCRIBE_CLUSTER)
async def describe_cluster(_: Scene, ask: Ask) -> None:
    for endpoint_type in (1, 2):
        await ask(
            {
                "include_cluster_authorized_operations": True,
                "endpoint_type": endpoint_type,
                "include_fenced_brokers": True,
            }
        )


@question(ApiKey.ALTER_REPLICA_LOG_DIRS)
async def alter_replica_log_dirs(_: Scene, ask: Ask) -> None:
    await ask({"dirs": [{"path": "/no/such/directory", "topics": [{"name": TOPIC, "partitions": [0, 9]}]}]})


@question(ApiKey.DESCRIBE_LOG_DIRS)
async def describe_log_dirs(_: Scene, ask: Ask) -> None:
    await ask({"topics": [{"topic": TOPIC, "partitions": [0, 1, 9]}]})


@question(ApiKey.DESCRIBE_CONFIGS)
async def describe_configs(_: Scene, ask: Ask) -> None:
    await ask(
        {
            "resources": [
                {"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None},
                {"resource_type": 2, "resource_name": UNKNOWN, "configuration_keys": None},
                {"resource_type": 4, "resource_name": "", "configuration_keys": None},
                {"resource_type": 4, "resource_name": str(BROKER), "configuration_keys": None},
            ],
            "include_synonyms": True,
            "include_documentation": False,
        }
    )


# Changes of topics and configs.


@question(ApiKey.CREATE_TOPICS)
async def create_topics(scene: Scene, ask: Ask) -> None:
    topics = [new_topic(scene.unique("made"), 2, retention_ms="1000"), new_topic("not a name"), new_topic(TOPIC)]
    await ask({"topics": topics, "timeout_ms": TIMEOUT_MS, "validate_only": False})


@question(ApiKey.DELETE_TOPICS)
async def delete_topics(scene: Scene, ask: Ask) -> None:
    name = scene.unique("gone")
    await scene.create_topic(name)
    await ask(
        {
            "topic_names": [name, UNKNOWN],
            "topics": [{"name": name, "topic_id": None}, {"name": UNKNOWN, "topic_id": None}],
            "timeout_ms": TIMEOUT_MS,
        }
    )


@question(ApiKey.CREATE_PARTITIONS)
async def create_partitions(scene: Scene, ask: Ask) -> None:
    name = scene.unique("grown")
    await scene.create_topic(name)
    topics = [{"name": asked, "count": 2, "assignments": None} for asked in (name, TOPIC, UNKNOWN)]
    await ask({"topics": topics, "timeout_ms": TIMEOUT_MS, "validate_only": False})


@question(ApiKey.ALTER_CONFIGS)
async def alter_configs(scene: Scene, ask: Ask) -> None:
    name = scene.unique("configured")
    await scene.create_topic(name)
    configs = [{"name": "retention.ms", "value": "5000"}]
    await ask(
        {
            "resources": [
                {"resource_type": 2, "resource_name": asked, "configs": configs} for asked in (name, UNKNOWN)
            ],
            "validate_only": False,
        }
    )


@question(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
async def alter_user_scram_credentials(scene: Scene, ask: Ask) -> None:
    given = {"mechanism": 1, "iterations": 4096, "salt": b"0123456789abcdef", "salted_password": b"salted"}
    await ask({"deletions": [], "upsertions": [{"name": scene.unique("user"), **given}]})


@question(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
async def describe_user_scram_credentials(scene: Scene, ask: Ask) -> None:
    await ask({"users": [{"name": "nobody"}]})


@question(ApiKey.ALTER_CLIENT_QUOTAS)
async def alter_client_quotas(scene: Scene, ask: Ask) -> None:
    op = {"key": "producer_byte_rate", "value": 1e9, "remove": False}
    entity = [{"entity_type": "client-id", "entity_name": scene.unique("quota")}]
    await ask({"entries": [{"entity": entity, "ops": [op]}], "validate_only": False})


@question(ApiKey.DESCRIBE_CLIENT_QUOTAS)
async def describe_client_quotas(scene: Scene, ask: Ask) -> None:
    await ask({"components": [{"entity_type": "client-id", "match_type": 2, "match": None}], "strict": False})


ACL_FILTER = {
    "resource_type_filter": 2,
    "resource_name_filter": "t",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


@question(ApiKey.CREATE_ACLS)
async def create_acls(scene: Scene, ask: Ask) -> None:
    names = {"resource_name": scene.unique("topic"), "principal": "User:alice", "host": "*"}
    await ask(
        {"creations": [names | {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}]}
    )


@question(ApiKey.DESCRIBE_ACLS)
async def describe_acls(_: Scene, ask: Ask) -> None:
    await ask(ACL_FILTER)


@question(ApiKey.DELETE_ACLS)
async def delete_acls(_: Scene, ask: Ask) -> None:
    await ask({"filters": [ACL_FILTER]})


@question(ApiKey.INCREMENTAL_ALTER_CONFIGS)
async def incremental_alter_configs(scene: Scene, ask: Ask) -> None:
    name = scene.unique("configured")
    await scene.create_topic(name)
    configs = [{"name": "retention.ms", "config_operation": 0, "value": "5000"}]
    await ask(
        {
            "resources": [
                {"resource_type": 2, "resource_name": asked, "configs": configs} for asked in (name, UNKNOWN)
            ],
            "validate_only": False,
        }
    )


@question(ApiKey.ELECT_LEADERS)
async def elect_leaders(_: Scene, ask: Ask) -> None:
    await ask(
        {
            "election_type": 0,
            "topic_partitions": [{"topic": TOPIC, "partitions": [0]}, {"topic": UNKNOWN, "partitions": [0]}],
            "timeout_ms": TIMEOUT_MS,
        }
    )


@question(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
async def alter_partition_reassignments(_: Scene, ask: Ask) -> None:
    """The one under way is asked for again."""
    wanted = [{"partition_index": 0, "replicas": [GHOST]}, {"partition_index": 9, "replicas": [BROKER]}]
    topics = [{"name": MOVING, "partitions": wanted}, {"name": UNKNOWN, "partitions": wanted[:1]}]
    await ask({"timeout_ms": TIMEOUT_MS, "allow_replication_factor_change": True, "topics": topics})


@question(ApiKey.LIST_PARTITION_REASSIGNMENTS)
async def list_partition_reassignments(_: Scene, ask: Ask) -> None:
    await ask({"timeout_ms": TIMEOUT_MS, "topics": None})


@question(ApiKey.UPDATE_FEATURES)
async def update_features(_: Scene, ask: Ask) -> None:
    """To the level that holds already; and to one that nobody has."""
    for level in (30, 99):
        update = {
            "feature": "metadata.version",
            "max_version_level": level,
            "upgrade_type": 1,
            "allow_downgrade": False,
        }
        await ask({"timeout_ms": TIMEOUT_MS, "feature_updates": [update], "validate_only": False})


# Groups.


@question(ApiKey.FIND_COORDINATOR)
async def find_coordinator(_: Scene, ask: Ask) -> None:
    keys = (LIVE, COMMITTED) if ask.version >= 4 else (LIVE,)
    await ask(FindCoordinatorRequest(coordinator_keys=keys))


@question(ApiKey.JOIN_GROUP)
async def join_group(scene: Scene, ask: Ask) -> None:
    group_id = scene.unique("joined")
    answer = await ask(joining(group_id, ""))
    if answer.error_code is ErrorCode.member_id_required:
        await ask(joining(group_id, answer.member_id))


@question(ApiKey.SYNC_GROUP)
async def sync_group(scene: Scene, ask: Ask) -> None:
    await ask(syncing(await scene.join(scene.unique("synced"))))
    for group_id in (LIVE, ""):
        await ask(replace(syncing(Member(group_id, "stranger", 1)), protocol_type=None, protocol_name=None))


@question(ApiKey.HEARTBEAT)
async def heartbeat(scene: Scene, ask: Ask) -> None:
    live = scene.live
    for member_id in (live.member_id, "stranger"):
        await ask(HeartbeatRequest(group_id=LIVE, generation_id=live.generation_id, member_id=member_id))


@question(ApiKey.LEAVE_GROUP)
async def leave_group(scene: Scene, ask: Ask) -> None:
    member = await scene.join_and_sync(scene.unique("left"))
    leaving = (member.member_id, "stranger") if ask.version >= 3 else (member.member_id,)
    members = tuple(MemberIdentity(member_id=member_id) for member_id in leaving)
    await ask(LeaveGroupRequest(group_id=member.group_id, members=members))


@question(ApiKey.DESCRIBE_GROUPS)
async def describe_groups(_: Scene, ask: Ask) -> None:
    await ask(DescribeGroupsRequest(groups=(LIVE, COMMITTED, UNKNOWN, ""), include_authorized_operations=True))


@question(ApiKey.CONSUMER_GROUP_HEARTBEAT)
async def consumer_group_heartbeat(scene: Scene, ask: Ask) -> None:
    for epoch, topics in ((0, ("live",)), (0, None), (7, None)):
        await ask(
            ConsumerGroupHeartbeatRequest(
                group_id=scene.unique("consumers"),
                member_id="m",
                member_epoch=epoch,
                rebalance_timeout_ms=1000,
                subscribed_topic_names=topics,
                topic_partitions=(),
            )
        )


@question(ApiKey.CONSUMER_GROUP_DESCRIBE)
async def consumer_group_describe(_: Scene, ask: Ask) -> None:
    await ask(ConsumerGroupDescribeRequest(group_ids=(LIVE, UNKNOWN, ""), include_authorized_operations=True))


@question(ApiKey.SHARE_GROUP_HEARTBEAT)
async def share_group_heartbeat(scene: Scene, ask: Ask) -> None:
    for epoch, topics in ((0, ("live",)), (0, None), (7, None)):
        await ask(
            ShareGroupHeartbeatRequest(
                group_id=scene.unique("shares"), member_id="m", member_epoch=epoch, subscribed_topic_names=topics
            )
        )


@question(ApiKey.SHARE_GROUP_DESCRIBE)
async def share_group_describe(_: Scene, ask: Ask) -> None:
    await ask(ShareGroupDescribeRequest(group_ids=(LIVE, UNKNOWN, ""), include_authorized_operations=True))


@question(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
async def describe_share_group_offsets(_: Scene, ask: Ask) -> None:
    topics = (DescribeShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=(0, 9)),)
    groups = [DescribeShareGroupOffsetsRequestGroup(group_id=LIVE, topics=each) for each in (topics, None)]
    await ask(DescribeShareGroupOffsetsRequest(groups=tuple(groups)))


@question(ApiKey.ALTER_SHARE_GROUP_OFFSETS)
async def alter_share_group_offsets(_: Scene, ask: Ask) -> None:
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)
    topics = (AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=(partition,)),)
    await ask(AlterShareGroupOffsetsRequest(group_id=LIVE, topics=topics))


@question(ApiKey.DELETE_SHARE_GROUP_OFFSETS)
async def delete_share_group_offsets(_: Scene, ask: Ask) -> None:
    topics = (DeleteShareGroupOffsetsRequestTopic(topic_name=TOPIC),)
    await ask(DeleteShareGroupOffsetsRequest(group_id=LIVE, topics=topics))


def initializing(scene: Scene, group_id: str) -> InitializeShareGroupStateRequest:
    data = InitializeShareGroupStateRequestPartitionData(partition=0, state_epoch=1, start_offset=0)
    topic = InitializeStateData(topic_id=scene.topic_ids[TOPIC], partitions=(data,))
    return InitializeShareGroupStateRequest(group_id=group_id, topics=(topic,))


def writing(scene: Scene, group_id: str, leader_epoch: int) -> WriteShareGroupStateRequest:
    batch = WriteShareGroupStateRequestStateBatch(first_offset=0, last_offset=1, delivery_state=2, delivery_count=1)
    data = WriteShareGroupStateRequestPartitionData(
        partition=0,
        state_epoch=1,
        leader_epoch=leader_epoch,
        start_offset=0,
        delivery_complete_count=2,
        state_batches=(batch,),
    )
    topic = WriteStateData(topic_id=scene.topic_ids[TOPIC], partitions=(data,))
    return WriteShareGroupStateRequest(group_id=group_id, topics=(topic,))


@question(ApiKey.INITIALIZE_SHARE_GROUP_STATE)
async def initialize_share_group_state(scene: Scene, ask: Ask) -> None:
    await ask(initializing(scene, scene.unique("state")))
    await ask(initializing(scene, ""))


@question(ApiKey.READ_SHARE_GROUP_STATE)
async def read_share_group_state(scene: Scene, ask: Ask) -> None:
    group_id = scene.unique("state")
    await scene.send(initializing(scene, group_id))
    await scene.send(writing(scene, group_id, 5))
    for epoch in (6, 5):
        data = ReadShareGroupStateRequestPartitionData(partition=0, leader_epoch=epoch)
        topic = ReadStateData(topic_id=scene.topic_ids[TOPIC], partitions=(data,))
        await ask(ReadShareGroupStateRequest(group_id=group_id, topics=(topic,)))


@question(ApiKey.WRITE_SHARE_GROUP_STATE)
async def write_share_group_state(scene: Scene, ask: Ask) -> None:
    group_id = scene.unique("state")
    await ask(writing(scene, group_id, 5))
    await scene.send(initializing(scene, group_id))
    for epoch in (5, 4):
        await ask(writing(scene, group_id, epoch))


@question(ApiKey.DELETE_SHARE_GROUP_STATE)
async def delete_share_group_state(scene: Scene, ask: Ask) -> None:
    data = DeleteShareGroupStateRequestPartitionData(partition=0)
    topic = DeleteStateData(topic_id=scene.topic_ids[TOPIC], partitions=(data,))
    await ask(DeleteShareGroupStateRequest(group_id=scene.unique("state"), topics=(topic,)))


@question(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)
async def read_share_group_state_summary(scene: Scene, ask: Ask) -> None:
    group_id = scene.unique("state")
    for prepare in (None, initializing(scene, group_id)):
        if prepare is not None:
            await scene.send(prepare)
        data = ReadShareGroupStateSummaryRequestPartitionData(partition=0, leader_epoch=0)
        topic = ReadStateSummaryData(topic_id=scene.topic_ids[TOPIC], partitions=(data,))
        await ask(ReadShareGroupStateSummaryRequest(group_id=group_id, topics=(topic,)))


@question(ApiKey.SHARE_FETCH)
async def share_fetch(scene: Scene, ask: Ask) -> None:
    await ask(
        ShareFetchRequest(
            group_id=scene.unique("shared"),
            member_id="m",
            share_session_epoch=0,
            max_wait_ms=0,
            min_bytes=0,
            max_records=10,
            batch_size=10,
            topics=(),
            forgotten_topics_data=(),
        )
    )


@question(ApiKey.SHARE_ACKNOWLEDGE)
async def share_acknowledge(scene: Scene, ask: Ask) -> None:
    await ask(ShareAcknowledgeRequest(group_id=scene.unique("shared"), member_id="m", share_session_epoch=1, topics=()))


@question(ApiKey.LIST_GROUPS)
async def list_groups(_: Scene, ask: Ask) -> None:
    await ask(ListGroupsRequest(states_filter=("Stable",), types_filter=("classic",)))


@question(ApiKey.DELETE_GROUPS)
async def delete_groups(scene: Scene, ask: Ask) -> None:
    group_id = scene.unique("deleted")
    await scene.commit(group_id)
    await ask(DeleteGroupsRequest(groups_names=(group_id, LIVE, UNKNOWN, "")))


@question(ApiKey.OFFSET_COMMIT)
async def offset_commit(scene: Scene, ask: Ask) -> None:
    await ask(scene.commit_of(scene.unique("committed")))
    await ask(scene.commit_of(LIVE))


@question(ApiKey.OFFSET_FETCH)
async def offset_fetch(scene: Scene, ask: Ask) -> None:
    topic = OffsetFetchRequestTopics(name=TOPIC, topic_id=scene.topic_ids[TOPIC], partition_indexes=(0, 1))
    asked = (COMMITTED, UNKNOWN) if ask.version >= 8 else (COMMITTED,)
    groups = tuple(OffsetFetchRequestGroup(group_id=group_id, topics=(topic,)) for group_id in asked)
    await ask(OffsetFetchRequest(groups=groups, require_stable=True))


@question(ApiKey.OFFSET_DELETE)
async def offset_delete(scene: Scene, ask: Ask) -> None:
    group_id = scene.unique("forgotten")
    await scene.commit(group_id)
    partitions = (OffsetDeleteRequestPartition(partition_index=0),)
    topics = (OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions),)
    for asked in (group_id, UNKNOWN, ""):
        await ask(OffsetDeleteRequest(group_id=asked, topics=topics))


# The quorum: its answers to what is over, or impossible, so that nothing moves.


def of_metadata_log(**partition: Any) -> list[dict[str, Any]]:
    return [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0, **partition}]}]


@question(ApiKey.VOTE)
async def vote(scene: Scene, ask: Ask) -> None:
    """A stranger's candidacy in the epoch of the leader."""
    ids = {"replica_directory_id": None, "voter_directory_id": None}
    candidate = {"replica_epoch": scene.leader_epoch, "replica_id": STRANGER, **ids}
    topics = of_metadata_log(**candidate, last_offset_epoch=0, last_offset=0, pre_vote=False)
    await ask({"cluster_id": scene.cluster_id, "topics": topics})


@question(ApiKey.BEGIN_QUORUM_EPOCH)
async def begin_quorum_epoch(scene: Scene, ask: Ask) -> None:
    topics = of_metadata_log(voter_directory_id=None, leader_id=STRANGER, leader_epoch=0)
    endpoints = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}]
    await ask({"cluster_id": scene.cluster_id, "topics": topics, "leader_endpoints": endpoints})


@question(ApiKey.END_QUORUM_EPOCH)
async def end_quorum_epoch(scene: Scene, ask: Ask) -> None:
    topics = of_metadata_log(leader_id=STRANGER, leader_epoch=0, preferred_successors=[], preferred_candidates=[])
    await ask({"cluster_id": scene.cluster_id, "topics": topics, "leader_endpoints": []})


@question(ApiKey.DESCRIBE_QUORUM)
async def describe_quorum(_: Scene, ask: Ask) -> None:
    await ask({"topics": of_metadata_log()})


@question(ApiKey.FETCH_SNAPSHOT)
async def fetch_snapshot(scene: Scene, ask: Ask) -> None:
    partition = {
        "partition": 0,
        "current_leader_epoch": 1,
        "snapshot_id": {"end_offset": 123_456, "epoch": 1},
        "position": 0,
    }
    topics = [{"name": METADATA_TOPIC, "partitions": [partition]}]
    await ask({"cluster_id": scene.cluster_id, "max_bytes": 1024, "topics": topics})


@question(ApiKey.ADD_RAFT_VOTER)
async def add_raft_voter(scene: Scene, ask: Ask) -> None:
    voter = {"voter_id": STRANGER, "voter_directory_id": scene.uuid()}
    await ask({"cluster_id": scene.cluster_id, "timeout_ms": 1000, **voter, "listeners": []})


@question(ApiKey.REMOVE_RAFT_VOTER)
async def remove_raft_voter(scene: Scene, ask: Ask) -> None:
    await ask({"cluster_id": scene.cluster_id, "voter_id": STRANGER, "voter_directory_id": scene.uuid()})


@question(ApiKey.UPDATE_RAFT_VOTER)
async def update_raft_voter(scene: Scene, ask: Ask) -> None:
    await ask(
        {
            "cluster_id": scene.cluster_id,
            "current_leader_epoch": 0,
            "voter_id": STRANGER,
            "voter_directory_id": scene.uuid(),
            "listeners": [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}],
            "k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
        }
    )


# What brokers and controllers say to the active controller.


@question(ApiKey.BROKER_REGISTRATION)
async def broker_registration(scene: Scene, ask: Ask) -> None:
    await ask(scene.registering(GHOST + 1))
    await ask({**scene.registering(GHOST + 1), "cluster_id": "another"})


@question(ApiKey.BROKER_HEARTBEAT)
async def broker_heartbeat(scene: Scene, ask: Ask) -> None:
    """The ghost stays fenced."""
    for broker_id in (GHOST, STRANGER):
        await ask(
            {
                "broker_id": broker_id,
                "broker_epoch": scene.ghost_epoch,
                "current_metadata_offset": 1,
                "want_fence": True,
                "want_shut_down": False,
                "offline_log_dirs": [],
                "thin_replicas": [],
            }
        )


@question(ApiKey.UNREGISTER_BROKER)
async def unregister_broker(scene: Scene, ask: Ask) -> None:
    await scene.register(GHOST + 2)
    for broker_id in (GHOST + 2, STRANGER):
        await ask({"broker_id": broker_id})


@question(ApiKey.ALTER_PARTITION)
async def alter_partition(scene: Scene, ask: Ask) -> None:
    """The leader says what holds already; the ghost leads nothing."""
    for broker_id, epoch in ((BROKER, scene.broker_epoch), (GHOST, scene.ghost_epoch)):
        partition = {
            "partition_index": 0,
            "leader_epoch": 0,
            "new_isr": [broker_id],
            "new_isr_with_epochs": [{"broker_id": broker_id, "broker_epoch": epoch}],
            "leader_recovery_state": 0,
            "partition_epoch": 0,
        }
        topics = [{"topic_id": scene.topic_ids[TOPIC], "partitions": [partition]}]
        await ask({"broker_id": broker_id, "broker_epoch": epoch, "topics": topics})


@question(ApiKey.ASSIGN_REPLICAS_TO_DIRS)
async def assign_replicas_to_dirs(scene: Scene, ask: Ask) -> None:
    (directory,) = scene.registering(GHOST)["log_dirs"]
    partitions = [{"partition_index": 0}, {"partition_index": 9}]
    topics = [{"topic_id": scene.topic_ids[MOVING], "partitions": partitions}]
    directories = [{"id_": directory, "topics": topics}]
    await ask({"broker_id": GHOST, "broker_epoch": scene.ghost_epoch, "directories": directories})


@question(ApiKey.ALLOCATE_PRODUCER_IDS)
async def allocate_producer_ids(scene: Scene, ask: Ask) -> None:
    await ask({"broker_id": GHOST, "broker_epoch": scene.ghost_epoch})


@question(ApiKey.CONTROLLER_REGISTRATION)
async def controller_registration(scene: Scene, ask: Ask) -> None:
    registration = scene.registering(STRANGER)
    await ask(
        {
            "controller_id": STRANGER,
            "incarnation_id": scene.uuid(),
            "zk_migration_ready": False,
            "listeners": registration["listeners"],
            "features": [],
        }
    )


@question(ApiKey.ENVELOPE)
async def envelope(_: Scene, ask: Ask) -> None:
    header = RequestHeader(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 1, "passed on")
    parts = write_request(header, ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None))
    data = b"".join(bytes(part) for part in parts)[4:]
    principal = b"\0\0" + b"\x05User" + b"\x0aANONYMOUS" + b"\0" + b"\0"
    await ask({"request_data": data, "request_principal": principal, "client_host_address": b"\x7f\0\0\1"})


def unasked(offered: Mapping[ApiKey, Any]) -> set[ApiKey]:
    """APIs that a listener offers and that have no question here."""
    return set(offered) - set(QUESTIONS)

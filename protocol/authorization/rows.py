"""The table of all APIs: which operation on which resource each needs, as KafkaApis and ControllerApis have it.

`python -m tierfetch.protocol.authorization.rows` writes `docs/security-apis.md` from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...security.core.acl import AclOperation
from ..api import ApiKey
from ..messages import groups as group_messages
from . import configs, groups, topics, whole
from .access import Gate

PAGE: Final = Path(__file__).parents[2] / "docs" / "security-apis.md"


@dataclass(frozen=True, slots=True)
class Row:
    """One API: what it needs, and what a denied request is answered; in words, and as its gate."""

    needs: str
    denied: str
    gate: Gate


NOTHING: Final = Row("-", "-", whole.open_to_all)
"""An API that reveals nothing about resources, or that authenticates."""


def _cluster(operation: AclOperation, name: str) -> Row:
    gate = whole.on_cluster(operation, whole.CLUSTER_DENIALS[name])
    return Row(f"{_word(operation)} on the cluster", "CLUSTER_AUTHORIZATION_FAILED", gate)


def _word(operation: AclOperation) -> str:
    return operation.name.title().replace("_", "")


def _member(denial: whole.Denial) -> Row:
    return Row("Read on the group", "GROUP_AUTHORIZATION_FAILED", whole.on_group(AclOperation.READ, denial))


_TOPIC_DENIED: Final = "TOPIC_AUTHORIZATION_FAILED for the topic"
_JOIN: Final = whole.coded(group_messages.JoinGroupResponse, protocol_name=None, leader="", member_id="", members=())
_RESOURCE: Final = "the topic or group, or the cluster for other resources"
_RESOURCE_DENIED: Final = "the resource's AUTHORIZATION_FAILED, for each resource"

ROWS: Final[Mapping[ApiKey, Row]] = {
    ApiKey.PRODUCE: Row(
        "Write on each topic; Write on the transactional id",
        f"{_TOPIC_DENIED}; TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        topics.produce,
    ),
    ApiKey.FETCH: Row(
        "Read on each topic; ClusterAction on the cluster for replicas",
        f"{_TOPIC_DENIED}; for replicas, of every topic",
        topics.fetch,
    ),
    ApiKey.LIST_OFFSETS: Row(
        "Describe on each topic",
        _TOPIC_DENIED,
        topics.each_topic(AclOperation.DESCRIBE, topics.list_offsets_denied),
    ),
    ApiKey.METADATA: Row(
        "Describe on each topic",
        "by name TOPIC_AUTHORIZATION_FAILED, by id UNKNOWN_TOPIC_ID; absent from a list of all",
        topics.metadata,
    ),
    ApiKey.OFFSET_COMMIT: Row(
        "Read on the group, Read on each topic",
        "GROUP_AUTHORIZATION_FAILED or TOPIC_AUTHORIZATION_FAILED, for each partition",
        groups.offset_commit,
    ),
    ApiKey.OFFSET_FETCH: Row(
        "Describe on each group, Describe on each topic",
        "GROUP_AUTHORIZATION_FAILED or TOPIC_AUTHORIZATION_FAILED; absent from a list of all",
        groups.offset_fetch,
    ),
    ApiKey.FIND_COORDINATOR: Row(
        "Describe on the group or transactional id", "its AUTHORIZATION_FAILED", groups.find_coordinator
    ),
    ApiKey.JOIN_GROUP: _member(_JOIN),
    ApiKey.HEARTBEAT: _member(whole.coded(group_messages.HeartbeatResponse)),
    ApiKey.LEAVE_GROUP: _member(whole.coded(group_messages.LeaveGroupResponse)),
    ApiKey.SYNC_GROUP: _member(whole.coded(group_messages.SyncGroupResponse, assignment=b"")),
    ApiKey.DESCRIBE_GROUPS: Row(
        "Describe on each group", "GROUP_AUTHORIZATION_FAILED for the group", groups.describe_groups
    ),
    ApiKey.LIST_GROUPS: Row(
        "Describe on the cluster, or on each group", "the group is absent from the list", groups.list_groups
    ),
    ApiKey.SASL_HANDSHAKE: NOTHING,
    ApiKey.SASL_AUTHENTICATE: NOTHING,
    ApiKey.API_VERSIONS: NOTHING,
    ApiKey.CREATE_TOPICS: Row(
        "Create on the cluster, or on each topic; DescribeConfigs on the topic to be shown its configs",
        f"{_TOPIC_DENIED}, or for its configs",
        topics.create_topics,
    ),
    ApiKey.DELETE_TOPICS: Row(
        "Delete on each topic; Describe to be shown its name",
        f"{_TOPIC_DENIED}; by id UNKNOWN_TOPIC_ID without Describe",
        topics.delete_topics,
    ),
    ApiKey.DELETE_RECORDS: Row(
        "Delete on each topic", _TOPIC_DENIED, topics.each_topic(AclOperation.DELETE, topics.delete_records_denied)
    ),
    ApiKey.INIT_PRODUCER_ID: Row(
        "Write on the transactional id; without one IdempotentWrite on the cluster, or Write on any topic",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED",
        whole.init_producer_id,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Row(
        "ClusterAction on the cluster, or Describe on each topic",
        _TOPIC_DENIED,
        topics.each_topic(
            AclOperation.DESCRIBE, topics.epochs_denied, may_brokers=True, name=lambda topic: str(topic.topic)
        ),
    ),
    ApiKey.WRITE_TXN_MARKERS: Row(
        "ClusterAction or Alter on the cluster",
        "CLUSTER_AUTHORIZATION_FAILED for each partition",
        whole.write_txn_markers,
    ),
    ApiKey.DESCRIBE_CONFIGS: Row(
        f"DescribeConfigs on {_RESOURCE}",
        _RESOURCE_DENIED,
        configs.each_resource(AclOperation.DESCRIBE_CONFIGS, configs.described, "results"),
    ),
    ApiKey.ALTER_CONFIGS: Row(
        f"AlterConfigs on {_RESOURCE}",
        _RESOURCE_DENIED,
        configs.each_resource(AclOperation.ALTER_CONFIGS, configs.altered, "responses"),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Row(
        f"AlterConfigs on {_RESOURCE}",
        _RESOURCE_DENIED,
        configs.each_resource(AclOperation.ALTER_CONFIGS, configs.incrementally_altered, "responses"),
    ),
    ApiKey.CREATE_PARTITIONS: Row(
        "Alter on each topic",
        _TOPIC_DENIED,
        topics.each_topic(AclOperation.ALTER, topics.create_partitions_denied, answers="results"),
    ),
    ApiKey.DELETE_GROUPS: Row("Delete on each group", "GROUP_AUTHORIZATION_FAILED for the group", groups.delete_groups),
    ApiKey.OFFSET_DELETE: Row(
        "Delete on the group, Read on each topic",
        "GROUP_AUTHORIZATION_FAILED; TOPIC_AUTHORIZATION_FAILED for each partition",
        groups.offset_delete,
    ),
    ApiKey.DESCRIBE_CLUSTER: Row("-", "-", whole.describe_cluster),
    ApiKey.DESCRIBE_ACLS: _cluster(AclOperation.DESCRIBE, "DescribeAcls"),
    ApiKey.CREATE_ACLS: _cluster(AclOperation.ALTER, "CreateAcls"),
    ApiKey.DELETE_ACLS: _cluster(AclOperation.ALTER, "DeleteAcls"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _cluster(AclOperation.ALTER, "AlterReplicaLogDirs"),
    ApiKey.DESCRIBE_LOG_DIRS: _cluster(AclOperation.DESCRIBE, "DescribeLogDirs"),
    ApiKey.ELECT_LEADERS: _cluster(AclOperation.ALTER, "ElectLeaders"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _cluster(AclOperation.ALTER, "AlterPartitionReassignments"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _cluster(AclOperation.DESCRIBE, "ListPartitionReassignments"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _cluster(AclOperation.DESCRIBE, "DescribeUserScramCredentials"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _cluster(AclOperation.ALTER, "AlterUserScramCredentials"),
    ApiKey.VOTE: _cluster(AclOperation.CLUSTER_ACTION, "Vote"),
    ApiKey.BEGIN_QUORUM_EPOCH: _cluster(AclOperation.CLUSTER_ACTION, "BeginQuorumEpoch"),
    ApiKey.END_QUORUM_EPOCH: _cluster(AclOperation.CLUSTER_ACTION, "EndQuorumEpoch"),
    ApiKey.DESCRIBE_QUORUM: _cluster(AclOperation.DESCRIBE, "DescribeQuorum"),
    ApiKey.ALTER_PARTITION: _cluster(AclOperation.CLUSTER_ACTION, "AlterPartition"),
    ApiKey.UPDATE_FEATURES: _cluster(AclOperation.ALTER, "UpdateFeatures"),
    ApiKey.ENVELOPE: _cluster(AclOperation.CLUSTER_ACTION, "Envelope"),
    ApiKey.FETCH_SNAPSHOT: _cluster(AclOperation.CLUSTER_ACTION, "FetchSnapshot"),
    ApiKey.BROKER_REGISTRATION: _cluster(AclOperation.CLUSTER_ACTION, "BrokerRegistration"),
    ApiKey.BROKER_HEARTBEAT: _cluster(AclOperation.CLUSTER_ACTION, "BrokerHeartbeat"),
    ApiKey.UNREGISTER_BROKER: _cluster(AclOperation.ALTER, "UnregisterBroker"),
    ApiKey.ALLOCATE_PRODUCER_IDS: _cluster(AclOperation.CLUSTER_ACTION, "AllocateProducerIds"),
    ApiKey.CONTROLLER_REGISTRATION: _cluster(AclOperation.CLUSTER_ACTION, "ControllerRegistration"),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _cluster(AclOperation.CLUSTER_ACTION, "AssignReplicasToDirs"),
    ApiKey.ADD_RAFT_VOTER: _cluster(AclOperation.ALTER, "AddRaftVoter"),
    ApiKey.REMOVE_RAFT_VOTER: _cluster(AclOperation.ALTER, "RemoveRaftVoter"),
    ApiKey.UPDATE_RAFT_VOTER: _cluster(AclOperation.CLUSTER_ACTION, "UpdateRaftVoter"),
}
"""The rows of every API that some listener offers."""

CONTROLLER_FETCH: Final = Row(
    "ClusterAction on the cluster",
    "CLUSTER_AUTHORIZATION_FAILED",
    whole.on_cluster(AclOperation.CLUSTER_ACTION, topics.fetch_of_controller),
)
"""Fetch on a controller's listener: of the metadata log."""

HEAD: Final = """# Who may send what

With `authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer` each request needs the operation of
its row. Written by `python -m tierfetch.protocol.authorization.rows` from the table that decides.

| API | needs | a denied one is answered |
|---|---|---|
"""


def page() -> str:
    """Return the text of `docs/security-apis.md`."""
    named = {**{_api(api): row for api, row in ROWS.items()}, "Fetch (controller)": CONTROLLER_FETCH}
    return HEAD + "".join(f"| {name} | {row.needs} | {row.denied} |\n" for name, row in sorted(named.items()))


def _api(api: ApiKey) -> str:
    return api.name.title().replace("_", "")


if __name__ == "__main__":
    PAGE.write_text(page())

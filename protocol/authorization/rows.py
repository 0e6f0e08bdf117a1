"""The table of all APIs: which operation on which resource each needs, as KafkaApis and ControllerApis have it.

`python -m tierfetch.protocol.authorization.rows` writes `docs/security-apis.md` from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from ...light_dataclass import dataclass
from ...security import AclOperation
from ..api import ApiKey
from ..messages import brokers, cluster, quorum, quotas, security
from ..messages import groups as group_messages
from ..messages import topics as topic_messages
from ..messages.base import ResponseT
from . import configs, groups, shares, topics, transactions, whole
from .access import Gate, GateOf, RequestT

PAGE: Final = Path(__file__).parents[2] / "docs" / "security-apis.md"


@dataclass(frozen=True, slots=True)
class Row:
    """One API: what it needs, and what a denied request is answered; in words, and as its gate."""

    needs: str
    denied: str
    gate: Gate


def _row(needs: str, denied: str, gate: GateOf[RequestT, ResponseT]) -> Row:
    # The listener reads requests by their API, as `ROWS` is read: a gate gets the requests that it is written for.
    return Row(needs, denied, cast("Gate", gate))


def _cluster(operation: AclOperation, denial: whole.Denial[RequestT, ResponseT]) -> Row:
    gate = whole.on_cluster(operation, denial)
    return _row(f"{_word(operation)} on the cluster", "CLUSTER_AUTHORIZATION_FAILED", gate)


def _word(operation: AclOperation) -> str:
    return operation.name.title().replace("_", "")


def _member(denial: whole.Denial[whole.MemberRequest, ResponseT]) -> Row:
    return _row("Read on the group", "GROUP_AUTHORIZATION_FAILED", whole.on_group(AclOperation.READ, denial))


def _for_brokers(denial: whole.Denial[RequestT, ResponseT]) -> Row:
    gate = whole.on_cluster(AclOperation.CLUSTER_ACTION, denial)
    return _row("ClusterAction on the cluster", "CLUSTER_AUTHORIZATION_FAILED for each partition", gate)


NOTHING: Final = _row("-", "-", whole.open_to_all)
"""An API that reveals nothing about resources, or that authenticates."""
_TOPIC_DENIED: Final = "TOPIC_AUTHORIZATION_FAILED for the topic"
_JOIN: Final = whole.coded(group_messages.JoinGroupResponse(protocol_name=None, leader="", member_id="", members=()))
_RESOURCE: Final = "the topic or group, or the cluster for other resources"
_SHARE_DENIED: Final = "GROUP_AUTHORIZATION_FAILED; TOPIC_AUTHORIZATION_FAILED for each partition"
_RESOURCE_DENIED: Final = "the resource's AUTHORIZATION_FAILED, for each resource"

ROWS: Final[Mapping[ApiKey, Row]] = {
    ApiKey.PRODUCE: _row(
        "Write on each topic; Write on the transactional id",
        f"{_TOPIC_DENIED}; TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        topics.produce,
    ),
    ApiKey.FETCH: _row(
        "Read on each topic; ClusterAction on the cluster for replicas",
        f"{_TOPIC_DENIED}; for replicas, of every topic",
        topics.fetch,
    ),
    ApiKey.LIST_OFFSETS: _row(
        "Describe on each topic",
        _TOPIC_DENIED,
        topics.list_offsets,
    ),
    ApiKey.METADATA: _row(
        "Describe on each topic",
        "by name TOPIC_AUTHORIZATION_FAILED, by id UNKNOWN_TOPIC_ID; absent from a list of all",
        topics.metadata,
    ),
    ApiKey.OFFSET_COMMIT: _row(
        "Read on the group, Read on each topic",
        "GROUP_AUTHORIZATION_FAILED or TOPIC_AUTHORIZATION_FAILED, for each partition",
        groups.offset_commit,
    ),
    ApiKey.OFFSET_FETCH: _row(
        "Describe on each group, Describe on each topic",
        "GROUP_AUTHORIZATION_FAILED or TOPIC_AUTHORIZATION_FAILED; absent from a list of all",
        groups.offset_fetch,
    ),
    ApiKey.FIND_COORDINATOR: _row(
        "Describe on the group or transactional id; for share-partitions ClusterAction on the cluster",
        "its AUTHORIZATION_FAILED",
        groups.find_coordinator,
    ),
    ApiKey.JOIN_GROUP: _member(_JOIN),
    ApiKey.HEARTBEAT: _member(whole.coded(group_messages.HeartbeatResponse())),
    ApiKey.LEAVE_GROUP: _member(whole.coded(group_messages.LeaveGroupResponse(members=()))),
    ApiKey.SYNC_GROUP: _member(whole.coded(group_messages.SyncGroupResponse(assignment=b""))),
    ApiKey.DESCRIBE_GROUPS: _row(
        "Describe on each group", "GROUP_AUTHORIZATION_FAILED for the group", groups.describe_groups
    ),
    ApiKey.LIST_GROUPS: _row(
        "Describe on the cluster, or on each group", "the group is absent from the list", groups.list_groups
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _row(
        "Read on the group, Describe on each topic that is named; expressions match what may be described",
        "GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED",
        groups.consumer_group_heartbeat,
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _row(
        "Describe on each group, and on all its topics",
        "GROUP_AUTHORIZATION_FAILED or TOPIC_AUTHORIZATION_FAILED for the group",
        groups.consumer_group_describe,
    ),
    ApiKey.SHARE_FETCH: _row("Read on the group, Read on each topic", _SHARE_DENIED, topics.share_fetch),
    ApiKey.SHARE_ACKNOWLEDGE: _row("Read on the group, Read on each topic", _SHARE_DENIED, topics.share_acknowledge),
    ApiKey.SASL_HANDSHAKE: NOTHING,
    ApiKey.SASL_AUTHENTICATE: NOTHING,
    ApiKey.API_VERSIONS: NOTHING,
    ApiKey.CREATE_TOPICS: _row(
        "Create on the cluster, or on each topic; DescribeConfigs on the topic to be shown its configs",
        f"{_TOPIC_DENIED}, or for its configs",
        topics.create_topics,
    ),
    ApiKey.DELETE_TOPICS: _row(
        "Delete on each topic; Describe to be shown its name",
        f"{_TOPIC_DENIED}; by id UNKNOWN_TOPIC_ID without Describe",
        topics.delete_topics,
    ),
    ApiKey.DELETE_RECORDS: _row("Delete on each topic", _TOPIC_DENIED, topics.delete_records),
    ApiKey.INIT_PRODUCER_ID: _row(
        "Write on the transactional id; without one IdempotentWrite on the cluster, or Write on any topic",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED",
        whole.init_producer_id,
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: _row(
        "Write on the transactional id, Write on each topic; from brokers ClusterAction on the cluster",
        f"TRANSACTIONAL_ID_AUTHORIZATION_FAILED for each partition; {_TOPIC_DENIED}, and OPERATION_NOT_ATTEMPTED for "
        "the others; CLUSTER_AUTHORIZATION_FAILED",
        transactions.add_partitions,
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: _row(
        "Write on the transactional id, Read on the group",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED",
        transactions.add_offsets,
    ),
    ApiKey.END_TXN: _row(
        "Write on the transactional id", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", transactions.end_txn
    ),
    ApiKey.TXN_OFFSET_COMMIT: _row(
        "Write on the transactional id, Read on the group, Read on each topic",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED or TOPIC_AUTHORIZATION_FAILED, "
        "for each partition",
        transactions.txn_offset_commit,
    ),
    ApiKey.DESCRIBE_PRODUCERS: _row("Read on each topic", _TOPIC_DENIED, transactions.describe_producers),
    ApiKey.DESCRIBE_TRANSACTIONS: _row(
        "Describe on each transactional id, Describe on each topic",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for it; the topic is absent",
        transactions.describe_transactions,
    ),
    ApiKey.LIST_TRANSACTIONS: _row(
        "Describe on each transactional id", "it is absent from the list", transactions.list_transactions
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _row(
        "ClusterAction on the cluster, or Describe on each topic",
        _TOPIC_DENIED,
        topics.offsets_for_leader_epochs,
    ),
    ApiKey.WRITE_TXN_MARKERS: _row(
        "ClusterAction or Alter on the cluster",
        "CLUSTER_AUTHORIZATION_FAILED for each partition",
        whole.write_txn_markers,
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: _row(
        "Read on the group, Describe on each topic that is named",
        "GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED",
        shares.heartbeat,
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: _row(
        "Describe on each group, and on all its topics",
        "GROUP_AUTHORIZATION_FAILED or TOPIC_AUTHORIZATION_FAILED for the group",
        shares.describe,
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _row(
        "Describe on each group, Describe on each topic",
        "GROUP_AUTHORIZATION_FAILED or TOPIC_AUTHORIZATION_FAILED; absent from a list of all",
        shares.describe_offsets,
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _row(
        "Read on the group, Read on each topic",
        f"GROUP_AUTHORIZATION_FAILED; {_TOPIC_DENIED}",
        shares.alter_offsets,
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _row(
        "Delete on the group, Read on each topic",
        f"GROUP_AUTHORIZATION_FAILED; {_TOPIC_DENIED}",
        shares.delete_offsets,
    ),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _for_brokers(shares.initialize_denied),
    ApiKey.READ_SHARE_GROUP_STATE: _for_brokers(shares.read_denied),
    ApiKey.WRITE_SHARE_GROUP_STATE: _for_brokers(shares.write_denied),
    ApiKey.DELETE_SHARE_GROUP_STATE: _for_brokers(shares.delete_denied),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _for_brokers(shares.summary_denied),
    ApiKey.DESCRIBE_CONFIGS: _row(
        f"DescribeConfigs on {_RESOURCE}",
        _RESOURCE_DENIED,
        configs.describe_configs,
    ),
    ApiKey.ALTER_CONFIGS: _row(
        f"AlterConfigs on {_RESOURCE}",
        _RESOURCE_DENIED,
        configs.alter_configs,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _row(
        f"AlterConfigs on {_RESOURCE}",
        _RESOURCE_DENIED,
        configs.incremental_alter_configs,
    ),
    ApiKey.CREATE_PARTITIONS: _row(
        "Alter on each topic",
        _TOPIC_DENIED,
        topics.create_partitions,
    ),
    ApiKey.DELETE_GROUPS: _row(
        "Delete on each group", "GROUP_AUTHORIZATION_FAILED for the group", groups.delete_groups
    ),
    ApiKey.OFFSET_DELETE: _row(
        "Delete on the group, Read on each topic",
        "GROUP_AUTHORIZATION_FAILED; TOPIC_AUTHORIZATION_FAILED for each partition",
        groups.offset_delete,
    ),
    ApiKey.DESCRIBE_CLUSTER: _row("-", "-", whole.describe_cluster),
    ApiKey.DESCRIBE_ACLS: _cluster(
        AclOperation.DESCRIBE, whole.coded(security.DescribeAclsResponse(error_message=whole.MESSAGE, resources=()))
    ),
    ApiKey.CREATE_ACLS: _cluster(AclOperation.ALTER, whole.create_acls),
    ApiKey.DELETE_ACLS: _cluster(AclOperation.ALTER, whole.delete_acls),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _cluster(AclOperation.ALTER, whole.alter_replica_log_dirs),
    ApiKey.DESCRIBE_LOG_DIRS: _cluster(AclOperation.DESCRIBE, whole.coded(cluster.DescribeLogDirsResponse(results=()))),
    ApiKey.ELECT_LEADERS: _cluster(AclOperation.ALTER, whole.elect_leaders),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _cluster(
        AclOperation.ALTER,
        whole.coded(topic_messages.AlterPartitionReassignmentsResponse(error_message=whole.MESSAGE, responses=())),
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _cluster(
        AclOperation.DESCRIBE,
        whole.coded(topic_messages.ListPartitionReassignmentsResponse(error_message=whole.MESSAGE, topics=())),
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _cluster(
        AclOperation.DESCRIBE_CONFIGS,
        whole.coded(quotas.DescribeClientQuotasResponse(error_message=whole.MESSAGE, entries=None)),
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: _cluster(AclOperation.ALTER_CONFIGS, whole.alter_quotas),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _cluster(
        AclOperation.DESCRIBE,
        whole.coded(security.DescribeUserScramCredentialsResponse(error_message=whole.MESSAGE, results=())),
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _cluster(AclOperation.ALTER, whole.alter_scram),
    ApiKey.VOTE: _cluster(AclOperation.CLUSTER_ACTION, whole.coded(quorum.VoteResponse(topics=()))),
    ApiKey.BEGIN_QUORUM_EPOCH: _cluster(
        AclOperation.CLUSTER_ACTION, whole.coded(quorum.BeginQuorumEpochResponse(topics=()))
    ),
    ApiKey.END_QUORUM_EPOCH: _cluster(
        AclOperation.CLUSTER_ACTION, whole.coded(quorum.EndQuorumEpochResponse(topics=()))
    ),
    ApiKey.DESCRIBE_QUORUM: _cluster(AclOperation.DESCRIBE, whole.coded(quorum.DescribeQuorumResponse(topics=()))),
    ApiKey.ALTER_PARTITION: _cluster(
        AclOperation.CLUSTER_ACTION, whole.coded(brokers.AlterPartitionResponse(topics=()))
    ),
    ApiKey.UPDATE_FEATURES: _cluster(
        AclOperation.ALTER, whole.coded(cluster.UpdateFeaturesResponse(error_message=whole.MESSAGE))
    ),
    ApiKey.ENVELOPE: _cluster(AclOperation.CLUSTER_ACTION, whole.coded(brokers.EnvelopeResponse())),
    ApiKey.FETCH_SNAPSHOT: _cluster(AclOperation.CLUSTER_ACTION, whole.coded(quorum.FetchSnapshotResponse(topics=()))),
    ApiKey.BROKER_REGISTRATION: _cluster(
        AclOperation.CLUSTER_ACTION, whole.coded(brokers.BrokerRegistrationResponse())
    ),
    ApiKey.BROKER_HEARTBEAT: _cluster(
        AclOperation.CLUSTER_ACTION, whole.coded(brokers.BrokerHeartbeatResponse(should_shut_down=False))
    ),
    ApiKey.UNREGISTER_BROKER: _cluster(
        AclOperation.ALTER, whole.coded(brokers.UnregisterBrokerResponse(error_message=whole.MESSAGE))
    ),
    ApiKey.ALLOCATE_PRODUCER_IDS: _cluster(
        AclOperation.CLUSTER_ACTION,
        whole.coded(brokers.AllocateProducerIdsResponse(producer_id_start=-1, producer_id_len=0)),
    ),
    ApiKey.CONTROLLER_REGISTRATION: _cluster(
        AclOperation.CLUSTER_ACTION, whole.coded(brokers.ControllerRegistrationResponse(error_message=whole.MESSAGE))
    ),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _cluster(
        AclOperation.CLUSTER_ACTION, whole.coded(brokers.AssignReplicasToDirsResponse(directories=()))
    ),
    ApiKey.ADD_RAFT_VOTER: _cluster(
        AclOperation.ALTER, whole.coded(quorum.AddRaftVoterResponse(error_message=whole.MESSAGE))
    ),
    ApiKey.REMOVE_RAFT_VOTER: _cluster(
        AclOperation.ALTER, whole.coded(quorum.RemoveRaftVoterResponse(error_message=whole.MESSAGE))
    ),
    ApiKey.UPDATE_RAFT_VOTER: _cluster(AclOperation.CLUSTER_ACTION, whole.coded(quorum.UpdateRaftVoterResponse())),
}
"""The rows of every API that some listener offers."""

CONTROLLER_FETCH: Final = _row(
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

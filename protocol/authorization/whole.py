"""Requests that are allowed or denied as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from ...security.core.acl import CLUSTER, AclOperation, ResourceType
from ..errors import ErrorCode
from ..messages import brokers, cluster, producers, quorum, security, topics
from ..net.dispatch import Handler
from .access import Access, Gate

Denial = Callable[[Any, ErrorCode], Any]
"""The response that says that the request is denied."""

MESSAGE = "Cluster authorization failed."
DENIED = ErrorCode.cluster_authorization_failed


async def open_to_all(access: Access, handler: Handler, request: Any) -> Any:
    """Ask the handler, whatever the sender's rights."""
    return await handler(access.context, request)


def on_cluster(operation: AclOperation, denial: Denial) -> Gate:
    """Return the gate of a request that needs `operation` on the cluster."""

    async def gate(access: Access, handler: Handler, request: Any) -> Any:
        if access.may_cluster(operation):
            return await handler(access.context, request)
        return denial(request, DENIED)

    return gate


def on_group(operation: AclOperation, denial: Denial) -> Gate:
    """Return the gate of a request that needs `operation` on its one group."""

    async def gate(access: Access, handler: Handler, request: Any) -> Any:
        if access.may_group(operation, request.group_id):
            return await handler(access.context, request)
        return denial(request, ErrorCode.group_authorization_failed)

    return gate


async def write_txn_markers(access: Access, handler: Handler, request: producers.WriteTxnMarkersRequest) -> Any:
    """ClusterAction, or Alter for an operator that aborts a transaction (KIP-664)."""
    if access.may_cluster(AclOperation.CLUSTER_ACTION, is_logged=False) or access.may_cluster(AclOperation.ALTER):
        return await handler(access.context, request)
    return markers_denied(request)


def markers_denied(request: producers.WriteTxnMarkersRequest) -> producers.WriteTxnMarkersResponse:
    """Deny each partition of each marker."""
    return producers.WriteTxnMarkersResponse(
        markers=tuple(
            producers.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=tuple(
                    producers.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=tuple(
                            producers.WritableTxnMarkerPartitionResult(partition_index=number, error_code=DENIED)
                            for number in topic.partition_indexes
                        ),
                    )
                    for topic in marker.topics
                ),
            )
            for marker in request.markers
        )
    )


async def init_producer_id(access: Access, handler: Handler, request: producers.InitProducerIdRequest) -> Any:
    """Write on the transactional id; without one IdempotentWrite on the cluster, or Write on any topic (KIP-679)."""
    if request.transactional_id is not None:
        is_allowed = access.may_transaction(AclOperation.WRITE, request.transactional_id)
        code = ErrorCode.transactional_id_authorization_failed
    else:
        is_allowed = access.may_cluster(AclOperation.IDEMPOTENT_WRITE, is_logged=False) or access.may_any_topic(
            AclOperation.WRITE
        )
        code = DENIED
    if is_allowed:
        return await handler(access.context, request)
    return producers.InitProducerIdResponse(error_code=code, producer_epoch=-1)


async def describe_cluster(access: Access, handler: Handler, request: cluster.DescribeClusterRequest) -> Any:
    """Everyone may ask; what is authorized is reported."""
    response = await handler(access.context, request)
    if not request.include_cluster_authorized_operations or response.error_code is not ErrorCode.none:
        return response
    return replace(response, cluster_authorized_operations=access.operations(ResourceType.CLUSTER, CLUSTER.name))


def coded(response: Callable[..., Any], **values: Any) -> Denial:
    """Return a denial that is a response with an error code and these values."""
    return lambda _, code: response(error_code=code, **values)


def explained(response: Callable[..., Any], **values: Any) -> Denial:
    """Return a denial that is a response with an error code, the message, and these values."""
    return lambda _, code: response(error_code=code, error_message=MESSAGE, **values)


def create_acls(request: security.CreateAclsRequest, code: ErrorCode) -> security.CreateAclsResponse:
    """Deny every ACL."""
    denied = security.AclCreationResult(error_code=code, error_message=MESSAGE)
    return security.CreateAclsResponse(results=(denied,) * len(request.creations))


def delete_acls(request: security.DeleteAclsRequest, code: ErrorCode) -> security.DeleteAclsResponse:
    """Deny every filter."""
    denied = security.DeleteAclsFilterResult(error_code=code, error_message=MESSAGE, matching_acls=())
    return security.DeleteAclsResponse(filter_results=(denied,) * len(request.filters))


def alter_scram(
    request: security.AlterUserScramCredentialsRequest, code: ErrorCode
) -> security.AlterUserScramCredentialsResponse:
    """Deny every user."""
    users = dict.fromkeys([item.name for item in request.deletions] + [item.name for item in request.upsertions])
    return security.AlterUserScramCredentialsResponse(
        results=tuple(
            security.AlterUserScramCredentialsResult(user=user, error_code=code, error_message=MESSAGE)
            for user in users
        )
    )


def elect_leaders(request: topics.ElectLeadersRequest, code: ErrorCode) -> topics.ElectLeadersResponse:
    """Deny every partition, and the request: version 0 has no error of its own."""
    return topics.ElectLeadersResponse(
        error_code=code,
        replica_election_results=tuple(
            topics.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    topics.PartitionResult(partition_id=number, error_code=code, error_message=MESSAGE)
                    for number in topic.partitions
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )


def alter_replica_log_dirs(
    request: cluster.AlterReplicaLogDirsRequest, code: ErrorCode
) -> cluster.AlterReplicaLogDirsResponse:
    """Deny each partition."""
    return cluster.AlterReplicaLogDirsResponse(
        results=tuple(
            cluster.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=tuple(
                    cluster.AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                    for number in topic.partitions
                ),
            )
            for directory in request.dirs
            for topic in directory.topics
        )
    )


CLUSTER_DENIALS: Final[Mapping[str, Denial]] = {
    "BrokerRegistration": coded(brokers.BrokerRegistrationResponse),
    "BrokerHeartbeat": coded(brokers.BrokerHeartbeatResponse, should_shut_down=False),
    "AllocateProducerIds": coded(brokers.AllocateProducerIdsResponse, producer_id_start=-1, producer_id_len=0),
    "ControllerRegistration": explained(brokers.ControllerRegistrationResponse),
    "AlterPartition": coded(brokers.AlterPartitionResponse, topics=()),
    "AssignReplicasToDirs": coded(brokers.AssignReplicasToDirsResponse, directories=()),
    "Envelope": coded(brokers.EnvelopeResponse),
    "Vote": coded(quorum.VoteResponse, topics=()),
    "BeginQuorumEpoch": coded(quorum.BeginQuorumEpochResponse, topics=()),
    "EndQuorumEpoch": coded(quorum.EndQuorumEpochResponse, topics=()),
    "FetchSnapshot": coded(quorum.FetchSnapshotResponse, topics=()),
    "UpdateRaftVoter": coded(quorum.UpdateRaftVoterResponse),
    "DescribeQuorum": coded(quorum.DescribeQuorumResponse, topics=()),
    "AddRaftVoter": explained(quorum.AddRaftVoterResponse),
    "RemoveRaftVoter": explained(quorum.RemoveRaftVoterResponse),
    "UnregisterBroker": explained(brokers.UnregisterBrokerResponse),
    "UpdateFeatures": explained(cluster.UpdateFeaturesResponse),
    "AlterPartitionReassignments": explained(topics.AlterPartitionReassignmentsResponse, responses=()),
    "ListPartitionReassignments": explained(topics.ListPartitionReassignmentsResponse, topics=()),
    "DescribeAcls": explained(security.DescribeAclsResponse, resources=()),
    "DescribeUserScramCredentials": explained(security.DescribeUserScramCredentialsResponse, results=()),
    "DescribeLogDirs": coded(cluster.DescribeLogDirsResponse, results=()),
    "AlterReplicaLogDirs": alter_replica_log_dirs,
    "CreateAcls": create_acls,
    "DeleteAcls": delete_acls,
    "AlterUserScramCredentials": alter_scram,
    "ElectLeaders": elect_leaders,
}
"""The denials of requests that need a right on the cluster, by API."""

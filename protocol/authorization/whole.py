"""Requests that are allowed or denied as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ...security import CLUSTER, AclOperation, ResourceType
from ..errors import ErrorCode
from ..messages import cluster, groups, producers, quotas, security, topics
from ..messages.base import Message, ResponseT, replaced
from ..messages.errors import WithError
from .access import Access, GateOf, Next, RequestT

MemberRequest = groups.JoinGroupRequest | groups.SyncGroupRequest | groups.HeartbeatRequest | groups.LeaveGroupRequest
DeniedT = TypeVar("DeniedT", bound=WithError)
Denial = Callable[[RequestT, ErrorCode], ResponseT]
"""Returns the response that says that the request is denied."""

MESSAGE = "Cluster authorization failed."
DENIED = ErrorCode.cluster_authorization_failed


async def open_to_all(access: Access, handler: Next[RequestT, ResponseT], request: RequestT) -> ResponseT:
    """Ask the handler, whatever the sender's rights."""
    return await handler(access.context, request)


def on_cluster(operation: AclOperation, denial: Denial[RequestT, ResponseT]) -> GateOf[RequestT, ResponseT]:
    """Return the gate of a request that needs `operation` on the cluster."""

    async def gate(access: Access, handler: Next[RequestT, ResponseT], request: RequestT) -> ResponseT:
        if access.may_cluster(operation):
            return await handler(access.context, request)
        return denial(request, DENIED)

    return gate


def on_group(operation: AclOperation, denial: Denial[MemberRequest, ResponseT]) -> GateOf[MemberRequest, ResponseT]:
    """Return the gate of a request that needs `operation` on its one group."""

    async def gate(access: Access, handler: Next[MemberRequest, ResponseT], request: MemberRequest) -> ResponseT:
        if access.may_group(operation, request.group_id):
            return await handler(access.context, request)
        return denial(request, ErrorCode.group_authorization_failed)

    return gate


async def write_txn_markers(
    access: Access,
    handler: Next[producers.WriteTxnMarkersRequest, producers.WriteTxnMarkersResponse],
    request: producers.WriteTxnMarkersRequest,
) -> producers.WriteTxnMarkersResponse:
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


async def init_producer_id(
    access: Access,
    handler: Next[producers.InitProducerIdRequest, producers.InitProducerIdResponse],
    request: producers.InitProducerIdRequest,
) -> producers.InitProducerIdResponse:
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


async def describe_cluster(
    access: Access,
    handler: Next[cluster.DescribeClusterRequest, cluster.DescribeClusterResponse],
    request: cluster.DescribeClusterRequest,
) -> cluster.DescribeClusterResponse:
    """Let every client ask, and report what it may do."""
    response = await handler(access.context, request)
    if not request.include_cluster_authorized_operations or response.error_code is not ErrorCode.none:
        return response
    return replace(response, cluster_authorized_operations=access.operations(ResourceType.CLUSTER, CLUSTER.name))


def coded(denied: DeniedT) -> Denial[Message, DeniedT]:
    """Return a denial that is this response with the error code."""
    return lambda _, code: replaced(denied, error_code=code)


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


def alter_quotas(request: quotas.AlterClientQuotasRequest, code: ErrorCode) -> quotas.AlterClientQuotasResponse:
    """Deny every entity."""
    return quotas.AlterClientQuotasResponse(
        entries=tuple(
            quotas.AlterClientQuotasResponseEntryData(
                error_code=code,
                error_message=MESSAGE,
                entity=tuple(
                    quotas.AlterClientQuotasResponseEntityData(
                        entity_type=part.entity_type, entity_name=part.entity_name
                    )
                    for part in entry.entity
                ),
            )
            for entry in request.entries
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
                    topics.ElectLeadersResponsePartitionResult(
                        partition_id=number, error_code=code, error_message=MESSAGE
                    )
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

"""Responses in place of a decision: this controller is not the active one, is too busy, or stopped in between; or a
broker cannot forward the request, because the controller is too old for it.

The code is where each API has one: for the whole response, or for each part of the request. A caller that gets
NOT_CONTROLLER asks another controller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...protocol.api import ApiKey
from ...protocol.errors import KafkaError
from ...protocol.messages.base import Request, ResponseT
from ...protocol.messages.brokers import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ...protocol.messages.cluster import UpdateFeaturesRequest, UpdateFeaturesResponse
from ...protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from ...protocol.messages.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ...protocol.messages.quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from ...protocol.messages.security import (
    AclCreationResult,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ...protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from .quotas.alter import refused as _quotas_refused


def refusal(request: Request[ResponseT], error: KafkaError) -> ResponseT:
    """Return the response to `request` that reports the error."""
    refused: ResponseT = _REFUSALS[ApiKey(request.api_key)](request, error)
    return refused


def _broker_registration(_: BrokerRegistrationRequest, error: KafkaError) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=error.code)


def _broker_heartbeat(_: BrokerHeartbeatRequest, error: KafkaError) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=error.code, should_shut_down=False)


def _unregister_broker(_: UnregisterBrokerRequest, error: KafkaError) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)


def _controller_registration(_: ControllerRegistrationRequest, error: KafkaError) -> ControllerRegistrationResponse:
    return ControllerRegistrationResponse(error_code=error.code, error_message=error.message)


def _alter_partition(_: AlterPartitionRequest, error: KafkaError) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=error.code, topics=())


def _assign_replicas_to_dirs(_: AssignReplicasToDirsRequest, error: KafkaError) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(error_code=error.code, directories=())


def _allocate_producer_ids(_: AllocateProducerIdsRequest, error: KafkaError) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=error.code, producer_id_start=-1, producer_id_len=0)


def _create_acls(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=(refused,) * len(request.creations))


def _delete_acls(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=error.code, error_message=error.message, matching_acls=())
    return DeleteAclsResponse(filter_results=(refused,) * len(request.filters))


def _create_topics(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=tuple(
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        )
    )


def _delete_topics(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=tuple(
            DeletableTopicResult(
                name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=error.message
            )
            for topic in request.topics
        )
    )


def _create_partitions(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=tuple(
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        )
    )


def _alter_reassignments(
    _: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message, responses=())


def _list_reassignments(_: ListPartitionReassignmentsRequest, error: KafkaError) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message, topics=())


def _elect_leaders(_: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    return ElectLeadersResponse(error_code=error.code, replica_election_results=())


def _alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    users = [item.name for item in request.deletions] + [item.name for item in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=tuple(
            AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
            for user in dict.fromkeys(users)
        )
    )


def _alter_client_quotas(request: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    return _quotas_refused(request, error.code, error.message)


def _incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, error: KafkaError
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=tuple(
            IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        )
    )


def _alter_configs(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=tuple(
            AlterConfigsResponseAlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        )
    )


def _update_features(_: UpdateFeaturesRequest, error: KafkaError) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)


def _describe_quorum(_: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error.code, error_message=error.message, topics=(), nodes=())


def _add_raft_voter(_: AddRaftVoterRequest, error: KafkaError) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=error.code, error_message=error.message)


def _remove_raft_voter(_: RemoveRaftVoterRequest, error: KafkaError) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message)


# Each API's function has types of its own, which no type of a whole table can say.
_REFUSALS: Final[Mapping[ApiKey, Callable[[Any, KafkaError], Any]]] = {
    ApiKey.BROKER_REGISTRATION: _broker_registration,
    ApiKey.BROKER_HEARTBEAT: _broker_heartbeat,
    ApiKey.UNREGISTER_BROKER: _unregister_broker,
    ApiKey.CONTROLLER_REGISTRATION: _controller_registration,
    ApiKey.ALTER_PARTITION: _alter_partition,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _assign_replicas_to_dirs,
    ApiKey.ALLOCATE_PRODUCER_IDS: _allocate_producer_ids,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_reassignments,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.UPDATE_FEATURES: _update_features,
    ApiKey.DESCRIBE_QUORUM: _describe_quorum,
    ApiKey.ADD_RAFT_VOTER: _add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: _remove_raft_voter,
}

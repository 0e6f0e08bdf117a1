"""Responses in place of a decision: this controller is not the active one, is too busy, or stopped in between; or a
broker cannot forward the request, because the controller is too old for it.

The code is where each API has one: for the whole response, or for each part of the request. A caller that gets
NOT_CONTROLLER asks another controller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar, cast

from ...protocol import ApiKey, ErrorCode, KafkaError
from ...protocol.messages import Message, Request, ResponseT, WithError
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

_RequestT = TypeVar("_RequestT", bound="Request[Message | None]")


def refusal(request: Request[ResponseT], error: KafkaError) -> ResponseT:
    """Return the response to `request` that reports the error."""
    return cast(ResponseT, _REFUSALS[ApiKey(request.api_key)](request, error))


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


def _row(
    kind: type[_RequestT], refuse: Callable[[_RequestT, KafkaError], Message]
) -> tuple[ApiKey, Callable[..., Message]]:
    """Return a row of the table; its types say that the function takes the requests of its API."""
    return ApiKey(kind.api_key), refuse


_REFUSALS: Final = dict(
    (
        _row(BrokerRegistrationRequest, _broker_registration),
        _row(BrokerHeartbeatRequest, _broker_heartbeat),
        _row(UnregisterBrokerRequest, _unregister_broker),
        _row(ControllerRegistrationRequest, _controller_registration),
        _row(AlterPartitionRequest, _alter_partition),
        _row(AssignReplicasToDirsRequest, _assign_replicas_to_dirs),
        _row(AllocateProducerIdsRequest, _allocate_producer_ids),
        _row(CreateAclsRequest, _create_acls),
        _row(DeleteAclsRequest, _delete_acls),
        _row(CreateTopicsRequest, _create_topics),
        _row(DeleteTopicsRequest, _delete_topics),
        _row(CreatePartitionsRequest, _create_partitions),
        _row(AlterPartitionReassignmentsRequest, _alter_reassignments),
        _row(ListPartitionReassignmentsRequest, _list_reassignments),
        _row(ElectLeadersRequest, _elect_leaders),
        _row(AlterUserScramCredentialsRequest, _alter_user_scram_credentials),
        _row(AlterClientQuotasRequest, _alter_client_quotas),
        _row(IncrementalAlterConfigsRequest, _incremental_alter_configs),
        _row(AlterConfigsRequest, _alter_configs),
        _row(UpdateFeaturesRequest, _update_features),
        _row(DescribeQuorumRequest, _describe_quorum),
        _row(AddRaftVoterRequest, _add_raft_voter),
        _row(RemoveRaftVoterRequest, _remove_raft_voter),
    )
)


def is_from_another(response: object) -> bool:
    """Return whether a controller answers that another one is active."""
    return any(part.error_code is ErrorCode.not_controller for part in _with_errors(response))


def _with_errors(response: object) -> Sequence[WithError]:
    """Return what the controller's own error would be in: the response, or each part of one that has no error code."""
    match response:
        case WithError():
            return (response,)
        case CreateTopicsResponse():
            return response.topics
        case CreatePartitionsResponse() | AlterUserScramCredentialsResponse() | CreateAclsResponse():
            return response.results
        case AlterClientQuotasResponse():
            return response.entries
        case DeleteAclsResponse():
            return response.filter_results
        case DeleteTopicsResponse() | IncrementalAlterConfigsResponse() | AlterConfigsResponse():
            return response.responses
    return ()

"""Topics: made, grown, deleted, reassigned, led. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from ..errors import ErrorCode
from .base import Message, Request, message
from .errors import WithError, WithErrorMessage


@message
class CreatableTopicConfigs(Message):
    """Versions 5 to 7."""

    name: str
    value: str | None
    read_only: bool
    config_source: int = -1
    is_sensitive: bool


@message
class CreatableTopicResult(WithErrorMessage):
    """Versions 2 to 7."""

    name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    topic_config_error_code: int = 0  # Versions 5 to 7.
    num_partitions: int = -1  # Versions 5 to 7.
    replication_factor: int = -1  # Versions 5 to 7.
    configs: tuple[CreatableTopicConfigs, ...] | None = ()  # Versions 5 to 7.
    topic_id: UUID | None = None  # Version 7.


@message
class CreateTopicsResponse(Message):
    """Versions 2 to 7."""

    throttle_time_ms: int = 0
    topics: tuple[CreatableTopicResult, ...]


@message
class CreatableReplicaAssignment(Message):
    """Versions 2 to 7."""

    partition_index: int
    broker_ids: tuple[int, ...] = ()


@message
class CreatableTopicConfig(Message):
    """Versions 2 to 7."""

    name: str
    value: str | None


@message
class CreatableTopic(Message):
    """Versions 2 to 7."""

    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]


@message
class CreateTopicsRequest(Request[CreateTopicsResponse]):
    """Versions 2 to 7."""

    api_key: ClassVar[int] = 19
    topics: tuple[CreatableTopic, ...]
    timeout_ms: int = 60000
    validate_only: bool = False


@message
class DeletableTopicResult(WithErrorMessage):
    """Versions 1 to 6."""

    name: str | None
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None  # Versions 5 to 6.
    topic_id: UUID | None = None  # Version 6.


@message
class DeleteTopicsResponse(Message):
    """Versions 1 to 6."""

    throttle_time_ms: int = 0
    responses: tuple[DeletableTopicResult, ...]


@message
class DeleteTopicState(Message):
    """Version 6."""

    name: str | None = None
    topic_id: UUID | None


@message
class DeleteTopicsRequest(Request[DeleteTopicsResponse]):
    """Versions 1 to 6."""

    api_key: ClassVar[int] = 20
    topic_names: tuple[str, ...] = ()  # Versions 1 to 5.
    timeout_ms: int
    topics: tuple[DeleteTopicState, ...] = ()  # Version 6.


@message
class CreatePartitionsTopicResult(WithErrorMessage):
    """Versions 0 to 3."""

    name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@message
class CreatePartitionsResponse(Message):
    """Versions 0 to 3."""

    throttle_time_ms: int = 0
    results: tuple[CreatePartitionsTopicResult, ...]


@message
class CreatePartitionsAssignment(Message):
    """Versions 0 to 3."""

    broker_ids: tuple[int, ...] = ()


@message
class CreatePartitionsTopic(Message):
    """Versions 0 to 3."""

    name: str
    count: int
    assignments: tuple[CreatePartitionsAssignment, ...] | None
    remove_last_partitions: bool = False  # Version 3.


@message
class CreatePartitionsRequest(Request[CreatePartitionsResponse]):
    """Versions 0 to 3."""

    api_key: ClassVar[int] = 37
    topics: tuple[CreatePartitionsTopic, ...]
    timeout_ms: int
    validate_only: bool


@message
class ElectLeadersResponsePartitionResult(WithErrorMessage):
    """Versions 0 to 2."""

    partition_id: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None


@message
class ReplicaElectionResult(Message):
    """Versions 0 to 2."""

    topic: str
    partition_result: tuple[ElectLeadersResponsePartitionResult, ...]


@message
class ElectLeadersResponse(WithError):
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    replica_election_results: tuple[ReplicaElectionResult, ...]
    error_code: ErrorCode = ErrorCode.none  # Versions 1 to 2.


@message
class ElectLeadersRequestTopicPartitions(Message):
    """Versions 0 to 2."""

    topic: str
    partitions: tuple[int, ...] = ()


@message
class ElectLeadersRequest(Request[ElectLeadersResponse]):
    """Versions 0 to 2."""

    api_key: ClassVar[int] = 43
    topic_partitions: tuple[ElectLeadersRequestTopicPartitions, ...] | None
    timeout_ms: int = 60000
    election_type: int = 0  # Versions 1 to 2.


@message
class ReassignablePartitionResponse(WithErrorMessage):
    """Versions 0 to 1."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None


@message
class ReassignableTopicResponse(Message):
    """Versions 0 to 1."""

    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]


@message
class AlterPartitionReassignmentsResponse(WithErrorMessage):
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    responses: tuple[ReassignableTopicResponse, ...]
    allow_replication_factor_change: bool = True  # Version 1.


@message
class ReassignablePartition(Message):
    """Versions 0 to 1."""

    partition_index: int
    replicas: tuple[int, ...] | None = None


@message
class ReassignableTopic(Message):
    """Versions 0 to 1."""

    name: str
    partitions: tuple[ReassignablePartition, ...]


@message
class AlterPartitionReassignmentsRequest(Request[AlterPartitionReassignmentsResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 45
    timeout_ms: int = 60000
    topics: tuple[ReassignableTopic, ...]
    allow_replication_factor_change: bool = True  # Version 1.


@message
class OngoingPartitionReassignment(Message):
    """Version 0."""

    partition_index: int
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


@message
class OngoingTopicReassignment(Message):
    """Version 0."""

    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]


@message
class ListPartitionReassignmentsResponse(WithErrorMessage):
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    topics: tuple[OngoingTopicReassignment, ...]


@message
class ListPartitionReassignmentsTopics(Message):
    """Version 0."""

    name: str
    partition_indexes: tuple[int, ...] = ()


@message
class ListPartitionReassignmentsRequest(Request[ListPartitionReassignmentsResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 46
    timeout_ms: int = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None

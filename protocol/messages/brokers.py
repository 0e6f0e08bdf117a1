"""What brokers report to the controllers. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from ..errors import ErrorCode
from .base import Message, Request, message
from .errors import WithError, WithErrorMessage


@message
class BrokerRegistrationResponse(WithError):
    """Versions 0 to 4."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    broker_epoch: int = -1


@message
class BrokerRegistrationRequestListener(Message):
    """Versions 0 to 4."""

    name: str
    host: str
    port: int
    security_protocol: int


@message
class BrokerRegistrationRequestFeature(Message):
    """Versions 0 to 4."""

    name: str
    min_supported_version: int
    max_supported_version: int


@message
class BrokerRegistrationRequest(Request[BrokerRegistrationResponse]):
    """Versions 0 to 4."""

    api_key: ClassVar[int] = 62
    broker_id: int
    cluster_id: str
    incarnation_id: UUID | None
    listeners: tuple[BrokerRegistrationRequestListener, ...]
    features: tuple[BrokerRegistrationRequestFeature, ...]
    rack: str | None
    is_migrating_zk_broker: bool = False  # Versions 1 to 4.
    log_dirs: tuple[UUID, ...] = ()  # Versions 2 to 4.
    previous_broker_epoch: int = -1  # Versions 3 to 4.


@message
class BrokerHeartbeatResponse(WithError):
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool


@message
class ThinReplica(Message):
    """Version 2."""

    topic_id: UUID | None
    partition_index: int
    local_start_offset: int
    local_bytes: int
    age_ms: int


@message
class BrokerHeartbeatRequest(Request[BrokerHeartbeatResponse]):
    """Versions 0 to 2."""

    api_key: ClassVar[int] = 63
    broker_id: int
    broker_epoch: int = -1
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: tuple[UUID, ...] = ()  # Versions 1 to 2.
    cordoned_log_dirs: tuple[UUID, ...] | None = None  # Version 2.
    thin_replicas: tuple[ThinReplica, ...] = ()  # Version 2.


@message
class UnregisterBrokerResponse(WithErrorMessage):
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None


@message
class UnregisterBrokerRequest(Request[UnregisterBrokerResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 64
    broker_id: int


@message
class ControllerRegistrationResponse(WithErrorMessage):
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None


@message
class ControllerRegistrationRequestListener(Message):
    """Version 0."""

    name: str
    host: str
    port: int
    security_protocol: int


@message
class ControllerRegistrationRequestFeature(Message):
    """Version 0."""

    name: str
    min_supported_version: int
    max_supported_version: int


@message
class ControllerRegistrationRequest(Request[ControllerRegistrationResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 70
    controller_id: int
    incarnation_id: UUID | None
    zk_migration_ready: bool
    listeners: tuple[ControllerRegistrationRequestListener, ...]
    features: tuple[ControllerRegistrationRequestFeature, ...]


@message
class AlterPartitionResponsePartitionData(WithError):
    """Versions 2 to 3."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    leader_id: int
    leader_epoch: int
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: int


@message
class AlterPartitionResponseTopicData(Message):
    """Versions 2 to 3."""

    topic_id: UUID | None
    partitions: tuple[AlterPartitionResponsePartitionData, ...]


@message
class AlterPartitionResponse(WithError):
    """Versions 2 to 3."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    topics: tuple[AlterPartitionResponseTopicData, ...]


@message
class BrokerState(Message):
    """Version 3."""

    broker_id: int
    broker_epoch: int = -1


@message
class AlterPartitionRequestPartitionData(Message):
    """Versions 2 to 3."""

    partition_index: int
    leader_epoch: int
    new_isr: tuple[int, ...] = ()  # Version 2.
    leader_recovery_state: int = 0
    partition_epoch: int
    new_isr_with_epochs: tuple[BrokerState, ...] = ()  # Version 3.


@message
class AlterPartitionRequestTopicData(Message):
    """Versions 2 to 3."""

    topic_id: UUID | None
    partitions: tuple[AlterPartitionRequestPartitionData, ...]


@message
class AlterPartitionRequest(Request[AlterPartitionResponse]):
    """Versions 2 to 3."""

    api_key: ClassVar[int] = 56
    broker_id: int
    broker_epoch: int = -1
    topics: tuple[AlterPartitionRequestTopicData, ...]


@message
class AssignReplicasToDirsResponsePartitionData(WithError):
    """Version 0."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


@message
class AssignReplicasToDirsResponseTopicData(Message):
    """Version 0."""

    topic_id: UUID | None
    partitions: tuple[AssignReplicasToDirsResponsePartitionData, ...]


@message
class AssignReplicasToDirsResponseDirectoryData(Message):
    """Version 0."""

    id_: UUID | None
    topics: tuple[AssignReplicasToDirsResponseTopicData, ...]


@message
class AssignReplicasToDirsResponse(WithError):
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    directories: tuple[AssignReplicasToDirsResponseDirectoryData, ...]


@message
class AssignReplicasToDirsRequestPartitionData(Message):
    """Version 0."""

    partition_index: int


@message
class AssignReplicasToDirsRequestTopicData(Message):
    """Version 0."""

    topic_id: UUID | None
    partitions: tuple[AssignReplicasToDirsRequestPartitionData, ...]


@message
class AssignReplicasToDirsRequestDirectoryData(Message):
    """Version 0."""

    id_: UUID | None
    topics: tuple[AssignReplicasToDirsRequestTopicData, ...]


@message
class AssignReplicasToDirsRequest(Request[AssignReplicasToDirsResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 73
    broker_id: int
    broker_epoch: int = -1
    directories: tuple[AssignReplicasToDirsRequestDirectoryData, ...]


@message
class AllocateProducerIdsResponse(WithError):
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    producer_id_start: int
    producer_id_len: int


@message
class AllocateProducerIdsRequest(Request[AllocateProducerIdsResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 67
    broker_id: int
    broker_epoch: int = -1


@message
class EnvelopeResponse(WithError):
    """Version 0."""

    response_data: bytes | None = None
    error_code: ErrorCode = ErrorCode.none


@message
class EnvelopeRequest(Request[EnvelopeResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 58
    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes

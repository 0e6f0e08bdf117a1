"""What brokers report to the controllers. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from ..errors import ErrorCode
from ..values import value
from .base import Request


@value(kw_only=True)
class BrokerRegistrationResponse:
    """Versions 0 to 4."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    broker_epoch: int = -1


@value(kw_only=True)
class BrokerRegistrationRequestListener:
    """Versions 0 to 4."""

    name: str
    host: str
    port: int
    security_protocol: int


@value(kw_only=True)
class BrokerRegistrationRequestFeature:
    """Versions 0 to 4."""

    name: str
    min_supported_version: int
    max_supported_version: int


@value(kw_only=True)
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


@value(kw_only=True)
class BrokerHeartbeatResponse:
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool


@value(kw_only=True)
class ThinReplica:
    """Version 2."""

    topic_id: UUID | None
    partition_index: int
    local_start_offset: int
    local_bytes: int
    age_ms: int


@value(kw_only=True)
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


@value(kw_only=True)
class UnregisterBrokerResponse:
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None


@value(kw_only=True)
class UnregisterBrokerRequest(Request[UnregisterBrokerResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 64
    broker_id: int


@value(kw_only=True)
class ControllerRegistrationResponse:
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None


@value(kw_only=True)
class ControllerRegistrationRequestListener:
    """Version 0."""

    name: str
    host: str
    port: int
    security_protocol: int


@value(kw_only=True)
class ControllerRegistrationRequestFeature:
    """Version 0."""

    name: str
    min_supported_version: int
    max_supported_version: int


@value(kw_only=True)
class ControllerRegistrationRequest(Request[ControllerRegistrationResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 70
    controller_id: int
    incarnation_id: UUID | None
    zk_migration_ready: bool
    listeners: tuple[ControllerRegistrationRequestListener, ...]
    features: tuple[ControllerRegistrationRequestFeature, ...]


@value(kw_only=True)
class AlterPartitionResponsePartitionData:
    """Versions 2 to 3."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    leader_id: int
    leader_epoch: int
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: int


@value(kw_only=True)
class AlterPartitionResponseTopicData:
    """Versions 2 to 3."""

    topic_id: UUID | None
    partitions: tuple[AlterPartitionResponsePartitionData, ...]


@value(kw_only=True)
class AlterPartitionResponse:
    """Versions 2 to 3."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    topics: tuple[AlterPartitionResponseTopicData, ...]


@value(kw_only=True)
class BrokerState:
    """Version 3."""

    broker_id: int
    broker_epoch: int = -1


@value(kw_only=True)
class AlterPartitionRequestPartitionData:
    """Versions 2 to 3."""

    partition_index: int
    leader_epoch: int
    new_isr: tuple[int, ...] = ()  # Version 2.
    leader_recovery_state: int = 0
    partition_epoch: int
    new_isr_with_epochs: tuple[BrokerState, ...] = ()  # Version 3.


@value(kw_only=True)
class AlterPartitionRequestTopicData:
    """Versions 2 to 3."""

    topic_id: UUID | None
    partitions: tuple[AlterPartitionRequestPartitionData, ...]


@value(kw_only=True)
class AlterPartitionRequest(Request[AlterPartitionResponse]):
    """Versions 2 to 3."""

    api_key: ClassVar[int] = 56
    broker_id: int
    broker_epoch: int = -1
    topics: tuple[AlterPartitionRequestTopicData, ...]


@value(kw_only=True)
class AssignReplicasToDirsResponsePartitionData:
    """Version 0."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


@value(kw_only=True)
class AssignReplicasToDirsResponseTopicData:
    """Version 0."""

    topic_id: UUID | None
    partitions: tuple[AssignReplicasToDirsResponsePartitionData, ...]


@value(kw_only=True)
class AssignReplicasToDirsResponseDirectoryData:
    """Version 0."""

    id_: UUID | None
    topics: tuple[AssignReplicasToDirsResponseTopicData, ...]


@value(kw_only=True)
class AssignReplicasToDirsResponse:
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    directories: tuple[AssignReplicasToDirsResponseDirectoryData, ...]


@value(kw_only=True)
class AssignReplicasToDirsRequestPartitionData:
    """Version 0."""

    partition_index: int


@value(kw_only=True)
class AssignReplicasToDirsRequestTopicData:
    """Version 0."""

    topic_id: UUID | None
    partitions: tuple[AssignReplicasToDirsRequestPartitionData, ...]


@value(kw_only=True)
class AssignReplicasToDirsRequestDirectoryData:
    """Version 0."""

    id_: UUID | None
    topics: tuple[AssignReplicasToDirsRequestTopicData, ...]


@value(kw_only=True)
class AssignReplicasToDirsRequest(Request[AssignReplicasToDirsResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 73
    broker_id: int
    broker_epoch: int = -1
    directories: tuple[AssignReplicasToDirsRequestDirectoryData, ...]


@value(kw_only=True)
class AllocateProducerIdsResponse:
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    producer_id_start: int
    producer_id_len: int


@value(kw_only=True)
class AllocateProducerIdsRequest(Request[AllocateProducerIdsResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 67
    broker_id: int
    broker_epoch: int = -1


@value(kw_only=True)
class EnvelopeResponse:
    """Version 0."""

    response_data: bytes | None = None
    error_code: ErrorCode = ErrorCode.none


@value(kw_only=True)
class EnvelopeRequest(Request[EnvelopeResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 58
    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes

"""What clients ask about the cluster as a whole. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from ..errors import ErrorCode
from .base import Message, Request, WrittenOften, message
from .errors import WithError, WithErrorMessage


@message
class ApiVersion(Message):
    """Versions 0 to 4."""

    api_key: int
    min_version: int
    max_version: int


@message
class SupportedFeatureKey(Message):
    """Versions 3 to 4."""

    name: str
    min_version: int
    max_version: int


@message
class FinalizedFeatureKey(Message):
    """Versions 3 to 4."""

    name: str
    max_version_level: int
    min_version_level: int


@message
class ApiVersionsResponse(WithError):
    """Versions 0 to 4."""

    error_code: ErrorCode = ErrorCode.none
    api_keys: tuple[ApiVersion, ...]
    throttle_time_ms: int = 0  # Versions 1 to 4.
    supported_features: tuple[SupportedFeatureKey, ...] = ()  # Versions 3 to 4.
    finalized_features_epoch: int = -1  # Versions 3 to 4.
    finalized_features: tuple[FinalizedFeatureKey, ...] = ()  # Versions 3 to 4.
    zk_migration_ready: bool = False  # Versions 3 to 4.
    incarnation_id: UUID | None = None  # Versions 3 to 4.


@message
class ApiVersionsRequest(Request[ApiVersionsResponse]):
    """Versions 0 to 4."""

    api_key: ClassVar[int] = 18
    client_software_name: str = ""  # Versions 3 to 4.
    client_software_version: str = ""  # Versions 3 to 4.


@message
class MetadataResponseBroker(Message):
    """Versions 0 to 13."""

    node_id: int
    host: str
    port: int
    rack: str | None = None  # Versions 1 to 13.


@message
class MetadataResponsePartition(WithError, WrittenOften):
    """Versions 0 to 13. All clients ask for the same ones, all at once when a broker goes."""

    error_code: ErrorCode = ErrorCode.none
    partition_index: int
    leader_id: int
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()  # Versions 5 to 13.
    leader_epoch: int = -1  # Versions 7 to 13.


@message
class MetadataResponseTopic(WithError, WrittenOften):
    """Versions 0 to 13. All clients ask for the same ones."""

    error_code: ErrorCode = ErrorCode.none
    name: str | None
    partitions: tuple[MetadataResponsePartition, ...]
    is_internal: bool = False  # Versions 1 to 13.
    topic_authorized_operations: int = -2147483648  # Versions 8 to 13.
    topic_id: UUID | None = None  # Versions 10 to 13.


@message
class MetadataResponse(WithError):
    """Versions 0 to 13."""

    brokers: tuple[MetadataResponseBroker, ...]
    topics: tuple[MetadataResponseTopic, ...]
    controller_id: int = -1  # Versions 1 to 13.
    cluster_id: str | None = None  # Versions 2 to 13.
    throttle_time_ms: int = 0  # Versions 3 to 13.
    cluster_authorized_operations: int = -2147483648  # Versions 8 to 10.
    error_code: ErrorCode = ErrorCode.none  # Version 13.


@message
class MetadataRequestTopic(Message):
    """Versions 0 to 13."""

    name: str | None
    topic_id: UUID | None = None  # Versions 10 to 13.


@message
class MetadataRequest(Request[MetadataResponse]):
    """Versions 0 to 13."""

    api_key: ClassVar[int] = 3
    topics: tuple[MetadataRequestTopic, ...] | None
    allow_auto_topic_creation: bool = True  # Versions 4 to 13.
    include_cluster_authorized_operations: bool = False  # Versions 8 to 10.
    include_topic_authorized_operations: bool = False  # Versions 8 to 13.


@message
class DescribeClusterBroker(Message):
    """Versions 0 to 2."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False  # Version 2.


@message
class DescribeClusterResponse(WithErrorMessage):
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    cluster_id: str
    controller_id: int = -1
    brokers: tuple[DescribeClusterBroker, ...]
    cluster_authorized_operations: int = -2147483648
    endpoint_type: int = 1  # Versions 1 to 2.


@message
class DescribeClusterRequest(Request[DescribeClusterResponse]):
    """Versions 0 to 2."""

    api_key: ClassVar[int] = 60
    include_cluster_authorized_operations: bool
    endpoint_type: int = 1  # Versions 1 to 2.
    include_fenced_brokers: bool = False  # Version 2.


@message
class UpdatableFeatureResult(WithErrorMessage):
    """Versions 0 to 1."""

    feature: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None


@message
class UpdateFeaturesResponse(WithErrorMessage):
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    results: tuple[UpdatableFeatureResult, ...] = ()  # Versions 0 to 1.


@message
class FeatureUpdateKey(Message):
    """Versions 0 to 2."""

    feature: str
    max_version_level: int
    allow_downgrade: bool = False  # Version 0.
    upgrade_type: int = 1  # Versions 1 to 2.


@message
class UpdateFeaturesRequest(Request[UpdateFeaturesResponse]):
    """Versions 0 to 2."""

    api_key: ClassVar[int] = 57
    timeout_ms: int = 60000
    feature_updates: tuple[FeatureUpdateKey, ...]
    validate_only: bool = False  # Versions 1 to 2.


@message
class DescribeLogDirsPartition(Message):
    """Versions 1 to 5."""

    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool
    warming_bytes_left: int = -1  # Version 5.
    warming_bytes_per_second: int = 0  # Version 5.
    warm_in_ms: int = -1  # Version 5.
    is_out_of_service: bool = False  # Version 5.
    tier_error: str = ""  # Version 5.


@message
class DescribeLogDirsTopic(Message):
    """Versions 1 to 5."""

    name: str
    partitions: tuple[DescribeLogDirsPartition, ...]


@message
class DescribeLogDirsResult(WithError):
    """Versions 1 to 5."""

    error_code: ErrorCode = ErrorCode.none
    log_dir: str
    topics: tuple[DescribeLogDirsTopic, ...]
    total_bytes: int = -1  # Versions 4 to 5.
    usable_bytes: int = -1  # Versions 4 to 5.
    is_cordoned: bool = False  # Version 5.


@message
class DescribeLogDirsResponse(WithError):
    """Versions 1 to 5."""

    throttle_time_ms: int = 0
    results: tuple[DescribeLogDirsResult, ...]
    error_code: ErrorCode = ErrorCode.none  # Versions 3 to 5.


@message
class DescribableLogDirTopic(Message):
    """Versions 1 to 5."""

    topic: str
    partitions: tuple[int, ...] = ()


@message
class DescribeLogDirsRequest(Request[DescribeLogDirsResponse]):
    """Versions 1 to 5."""

    api_key: ClassVar[int] = 35
    topics: tuple[DescribableLogDirTopic, ...] | None


@message
class AlterReplicaLogDirPartitionResult(WithError):
    """Versions 1 to 2."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


@message
class AlterReplicaLogDirTopicResult(Message):
    """Versions 1 to 2."""

    topic_name: str
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...]


@message
class AlterReplicaLogDirsResponse(Message):
    """Versions 1 to 2."""

    throttle_time_ms: int = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...]


@message
class AlterReplicaLogDirTopic(Message):
    """Versions 1 to 2."""

    name: str
    partitions: tuple[int, ...] = ()


@message
class AlterReplicaLogDir(Message):
    """Versions 1 to 2."""

    path: str
    topics: tuple[AlterReplicaLogDirTopic, ...]


@message
class AlterReplicaLogDirsRequest(Request[AlterReplicaLogDirsResponse]):
    """Versions 1 to 2."""

    api_key: ClassVar[int] = 34
    dirs: tuple[AlterReplicaLogDir, ...]

"""What the coordinator takes from the broker's configuration; Kafka's keys and defaults."""

from __future__ import annotations

from dataclasses import field

from ...light_dataclass import dataclass
from ...protocol.records import Compression
from ..config.broker_config import BrokerConfig
from .core.consumer.decision import ConsumerSettings
from .core.group_state import GroupSettings
from .core.share.heartbeat import ShareSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """`group.*` and `offsets.*`."""

    group: GroupSettings = field(default_factory=GroupSettings)
    consumer: ConsumerSettings = field(default_factory=ConsumerSettings)
    share: ShareSettings = field(default_factory=ShareSettings)
    topic_partitions: int = 50
    topic_replication_factor: int = 3
    topic_segment_bytes: int = 100 * 1024 * 1024
    compression: Compression = Compression.NONE
    commit_timeout_ms: int = 5_000
    metadata_bytes_max: int = 4_096
    retention_ms: int = 7 * 24 * 3_600_000
    retention_check_interval_ms: int = 600_000


def coordinator_settings(config: BrokerConfig) -> CoordinatorSettings:
    return CoordinatorSettings(
        group=GroupSettings(
            session_timeout_min_ms=config.group_min_session_timeout_ms,
            session_timeout_max_ms=config.group_max_session_timeout_ms,
            size_max=config.group_max_size,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        ),
        consumer=ConsumerSettings(
            session_timeout_ms=config.group_consumer_session_timeout_ms,
            session_timeout_min_ms=config.group_consumer_min_session_timeout_ms,
            session_timeout_max_ms=config.group_consumer_max_session_timeout_ms,
            heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            heartbeat_interval_min_ms=config.group_consumer_min_heartbeat_interval_ms,
            heartbeat_interval_max_ms=config.group_consumer_max_heartbeat_interval_ms,
            size_max=config.group_consumer_max_size,
            assignors=config.group_consumer_assignors,
            migration_policy=config.group_consumer_migration_policy,
            regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        ),
        share=ShareSettings(
            session_timeout_ms=config.group_share_session_timeout_ms,
            session_timeout_min_ms=config.group_share_min_session_timeout_ms,
            session_timeout_max_ms=config.group_share_max_session_timeout_ms,
            heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
            heartbeat_interval_min_ms=config.group_share_min_heartbeat_interval_ms,
            heartbeat_interval_max_ms=config.group_share_max_heartbeat_interval_ms,
            size_max=config.group_share_max_size,
        ),
        topic_partitions=config.offsets_topic_num_partitions,
        topic_replication_factor=config.offsets_topic_replication_factor,
        topic_segment_bytes=config.offsets_topic_segment_bytes,
        compression=Compression(config.offsets_topic_compression_codec),
        commit_timeout_ms=config.offsets_commit_timeout_ms,
        metadata_bytes_max=config.offset_metadata_max_bytes,
        retention_ms=config.offsets_retention_minutes * 60_000,
        retention_check_interval_ms=config.offsets_retention_check_interval_ms,
    )

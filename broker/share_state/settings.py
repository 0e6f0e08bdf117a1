"""What the coordinator takes from the broker's configuration; Kafka's keys and defaults."""

from __future__ import annotations

from ...light_dataclass import dataclass
from ...protocol.records import Compression
from ..config.broker_config import BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateSettings:
    """`share.coordinator.*`."""

    topic_partitions: int = 50
    topic_replication_factor: int = 3
    topic_min_isr: int = 2
    topic_segment_bytes: int = 100 * 1024 * 1024
    compression: Compression = Compression.NONE
    updates_per_snapshot: int = 500
    write_timeout_ms: int = 5_000
    prune_interval_ms: int = 300_000


def share_state_settings(config: BrokerConfig) -> ShareStateSettings:
    return ShareStateSettings(
        topic_partitions=config.share_coordinator_state_topic_num_partitions,
        topic_replication_factor=config.share_coordinator_state_topic_replication_factor,
        topic_min_isr=config.share_coordinator_state_topic_min_isr,
        topic_segment_bytes=config.share_coordinator_state_topic_segment_bytes,
        compression=Compression(config.share_coordinator_state_topic_compression_codec),
        updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
        write_timeout_ms=config.share_coordinator_write_timeout_ms,
        prune_interval_ms=config.share_coordinator_state_topic_prune_interval_ms,
    )

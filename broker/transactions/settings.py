"""What the coordinator takes from the broker's configuration; Kafka's keys and defaults."""

from __future__ import annotations

from typing import Final

from ...light_dataclass import dataclass
from ..config.broker_config import BrokerConfig

APPEND_TIMEOUT_MS: Final = 5_000
"""How long a request waits for its record; Kafka takes `request.timeout.ms`, which is longer than clients wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """`transaction.*` and `transactional.*`."""

    timeout_max_ms: int = 15 * 60_000
    retention_ms: int = 7 * 24 * 3_600_000
    abort_interval_ms: int = 10_000
    expire_interval_ms: int = 3_600_000
    is_verified: bool = True
    topic_partitions: int = 50
    topic_replication_factor: int = 3
    topic_min_isr: int = 2
    topic_segment_bytes: int = 100 * 1024 * 1024
    append_timeout_ms: int = APPEND_TIMEOUT_MS
    request_timeout_ms: int = 30_000


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        timeout_max_ms=config.transaction_max_timeout_ms,
        retention_ms=config.transactional_id_expiration_ms,
        abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        expire_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        is_verified=config.transaction_partition_verification_enable,
        topic_partitions=config.transaction_state_log_num_partitions,
        topic_replication_factor=config.transaction_state_log_replication_factor,
        topic_min_isr=config.transaction_state_log_min_isr,
        topic_segment_bytes=config.transaction_state_log_segment_bytes,
        request_timeout_ms=config.request_timeout_ms,
    )

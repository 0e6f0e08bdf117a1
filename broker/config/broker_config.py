"""A broker's configuration: Kafka's `.properties` keys with Kafka's names, defaults and units.

Rules of this file:

* A field is the Kafka key with dots as underscores: `log_retention_ms` is `log.retention.ms`. The few keys of our own
  are `bootstrap.*`, `thin.replica.*`, `remote.log.storage.manager.plugin` and `metrics.*`.
* An unknown key is a warning with the nearest known key; a key of Kafka's that has no effect here is a warning that
  says so; a wrong value is a `ConfigError` that names key, value and what is expected. Nothing is guessed.
* Dynamic keys (`DYNAMIC_KEYS`) may also come from the cluster's broker configs, the default for all brokers first, then
  this broker's own; `with_dynamic` gives the configuration in force. All others need a restart.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ...log.core import (
    INT32_MAX,
    INT64_MAX,
    Boolean,
    ConfigError,
    Listener,
    NaturalInt,
    Paths,
    PositiveInt,
    PositiveLong,
    PropertyKeys,
    Unlimited,
    as_text,
    boolean,
    comma_list,
    config_types,
    keys_of,
    nearest_key,
    parse_listener,
    read_properties,
    unknown_key,
    validated,
)
from ...plugin_registry import BOOTSTRAP_POLICY, REPLICA_SELECTOR, PluginKind, installed_plugins
from ...protocol.net import UNLIMITED, ServerLimits
from ...protocol.wire import ConfigType
from ...quorum import QuorumKeys
from ...security.core import (
    AuthorizerSettings,
    NodeSecurity,
    authorizer_settings,
    broker_security,
    inter_broker_listener,
    is_security_key,
)
from ..core.read_replicas import KAFKAS_SELECTORS

__all__ = [
    "CONFIG_TYPES",
    "DEFAULT_PROPERTIES",
    "DYNAMIC_KEYS",
    "KEYS",
    "BrokerConfig",
    "ConfigError",
    "Listener",
    "load_broker_config",
    "parse_broker_config",
    "unknown_keys",
]

_PLUGIN_OF_CLASS = {
    "org.apache.kafka.server.log.remote.storage.LocalTieredStorage": "local",
}
_METADATA_PLUGIN_OF_CLASS = {
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager": "topic",
}
_WITHOUT_EFFECT = re.compile(
    r"(process\.roles|controller\..*|listener\.name\..*|inter\.broker\..*|security\..*|ssl\..*|sasl\..*"
    r"|num\.(network|io)\.threads|background\.threads|num\.recovery\.threads\..*|socket\.(send|receive)\.buffer\.bytes"
    r"|offsets\.load\..*|group\.(consumer|coordinator|share|streams)\..*|transaction\.two\.phase\..*|transaction\.state\.log\.load\..*|share\..*"
    r"|log\.cleaner\.(threads|io\.buffer\..*)|leader\.imbalance\..*|auto\.leader\..*|log\.dir\.failure\.timeout\.ms"
    r"|max\.connection\.creation\.rate|compression\.(gzip|lz4|zstd)\.level|log\.roll\.jitter\..*"
    r"|(delete\.topic|unclean\.leader\.election)\.enable|config\.providers.*|client\.quota\..*|kafka\.metrics\..*"
    r"|log\.flush\.(offset|start\.offset)\.checkpoint\.interval\.ms|producer\.id\.expiration\..*|queued\.max\..*"
    r"|replica\.placement\..*|remote\.log\.metadata\.manager\.listener\.name|metric\.reporters|zookeeper\..*|.*\.quota\..*)"
)


def _listeners(value: object) -> object:
    if not isinstance(value, str):
        return value
    items = comma_list(value)
    assert isinstance(items, tuple)
    listeners = tuple(parse_listener(item) for item in items)
    names = [listener.name for listener in listeners]
    if len(set(names)) < len(names):
        raise ValueError("expected listeners with different names")
    return listeners


def _policy(value: object) -> object:
    if isinstance(value, str):
        _check_installed(BOOTSTRAP_POLICY, value)
    return value


def _check_installed(kind: PluginKind, name: str) -> None:
    known = installed_plugins(kind)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"{guess}expected one of {', '.join(known)}, or the entry point of an installed plugin")


def _plugin(value: object) -> object:
    return _PLUGIN_OF_CLASS.get(value, value) if isinstance(value, str) else value


def _selector(value: str) -> str:
    if value not in KAFKAS_SELECTORS:
        _check_installed(REPLICA_SELECTOR, value)
    return value


def _metadata_plugin(value: object) -> object:
    return _METADATA_PLUGIN_OF_CLASS.get(value, value) if isinstance(value, str) else value


UnlimitedOrInherit = Annotated[int, Field(ge=-2, le=INT64_MAX)]
"""-1 means without a limit, -2 the value of the whole log."""
Names = Annotated[frozenset[Literal["delete", "compact"]], BeforeValidator(comma_list)]


class NodeKeys(PropertyKeys):
    """Who the broker is, where it listens and where its data lies."""

    node_id: NaturalInt
    broker_rack: str | None = None
    listeners: Annotated[tuple[Listener, ...], BeforeValidator(_listeners)] = (
        Listener("PLAINTEXT", "127.0.0.1", 9092),
    )
    advertised_listeners: Annotated[tuple[Listener, ...], BeforeValidator(_listeners)] | None = None
    log_dirs: Paths
    process_roles: Annotated[tuple[Literal["broker", "controller"], ...], BeforeValidator(comma_list)] = ("broker",)
    controller_listener_names: Annotated[tuple[str, ...], BeforeValidator(comma_list)] = ("CONTROLLER",)
    broker_heartbeat_interval_ms: PositiveInt = 2000
    initial_broker_registration_timeout_ms: PositiveInt = 60_000
    controlled_shutdown_timeout_ms: NaturalInt = 30_000
    """How long a stop waits for others to take over what this broker leads."""
    metrics_host: str = "127.0.0.1"
    metrics_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    metrics_partitions: Literal["all", "none"] = "all"
    """Prometheus endpoint; absent: none; 0: the system chooses."""
    max_connections: PositiveInt = 10_000
    max_connections_per_ip: PositiveInt = UNLIMITED
    max_connection_creation_rate: PositiveInt = UNLIMITED
    """New connections a second."""
    queued_max_request_bytes: PositiveLong = ServerLimits().request_memory_max
    """Memory of requests that have arrived and are not answered; those of Fetch have their own."""
    connections_max_idle_ms: PositiveLong = 600_000
    quota_window_num: PositiveInt = 11
    quota_window_size_seconds: PositiveInt = 1
    """The windows over which the rates of clients are measured that have a quota."""
    socket_request_max_bytes: PositiveInt = 100 * 1024 * 1024
    socket_send_buffer_bytes: Annotated[int, Field(ge=-1, le=INT32_MAX)] = 1024 * 1024
    """`SO_SNDBUF` of a connection; -1: the kernel decides. What is in flight should fit into the processor's cache."""
    request_timeout_ms: PositiveInt = 30_000
    fetch_max_bytes: Annotated[int, Field(ge=1024, le=INT32_MAX)] = 55 * 1024 * 1024
    max_incremental_fetch_session_cache_slots: NaturalInt = 1000
    auto_create_topics_enable: Annotated[Literal[False], BeforeValidator(boolean)] = False
    num_partitions: PositiveInt = 1
    default_replication_factor: Annotated[int, Field(ge=1, le=32767), ConfigType.INT] = 1


class LogKeys(PropertyKeys):
    """Defaults of the topics' configs, and the upkeep of the log directories."""

    log_segment_bytes: Annotated[int, Field(ge=1024 * 1024, le=INT32_MAX)] = 1024 * 1024 * 1024
    log_roll_hours: PositiveInt = 168
    log_roll_ms: PositiveLong | None = None
    log_index_size_max_bytes: Annotated[int, Field(ge=4, le=INT32_MAX)] = 10 * 1024 * 1024
    log_index_interval_bytes: NaturalInt = 4096
    log_retention_hours: Annotated[int, Field(ge=-1, le=INT32_MAX)] = 168
    log_retention_minutes: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None
    log_retention_ms: Unlimited | None = None
    log_retention_bytes: Unlimited = -1
    log_local_retention_ms: UnlimitedOrInherit = -2
    log_local_retention_bytes: UnlimitedOrInherit = -2
    log_retention_check_interval_ms: PositiveLong = 300_000
    log_flush_interval_messages: PositiveLong = INT64_MAX
    log_flush_interval_ms: PositiveLong | None = None
    log_cleanup_policy: Names = frozenset({"delete"})
    log_cleaner_enable: Boolean = True
    log_cleaner_backoff_ms: Annotated[int, Field(ge=0, le=INT64_MAX)] = 15_000
    log_cleaner_dedupe_buffer_size: PositiveLong = 128 * 1024 * 1024
    log_cleaner_io_max_bytes_per_second: Annotated[float, Field(gt=0)] = sys.float_info.max
    log_cleaner_min_cleanable_ratio: Annotated[float, Field(ge=0, le=1)] = 0.5
    log_cleaner_min_compaction_lag_ms: Annotated[int, Field(ge=0, le=INT64_MAX)] = 0
    log_cleaner_max_compaction_lag_ms: PositiveLong = INT64_MAX
    log_cleaner_delete_retention_ms: Annotated[int, Field(ge=0, le=INT64_MAX)] = 24 * 3_600_000
    log_message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    log_message_timestamp_before_max_ms: Annotated[int, Field(ge=0, le=INT64_MAX)] = INT64_MAX
    log_message_timestamp_after_max_ms: Annotated[int, Field(ge=0, le=INT64_MAX)] = 3_600_000
    log_preallocate: Boolean = False
    producer_id_expiration_ms: PositiveInt = 86_400_000
    log_segment_delete_delay_ms: Annotated[NaturalInt, ConfigType.LONG] = 60_000
    message_max_bytes: NaturalInt = 1024 * 1024 + 12
    compression_type: Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"] = "producer"
    min_insync_replicas: PositiveInt = 1

    @property
    def retention_ms(self) -> int:
        """`ms` wins over `minutes`, `minutes` over `hours`; -1 without limit."""
        if self.log_retention_ms is not None:
            return self.log_retention_ms
        if self.log_retention_minutes is not None:
            return -1 if self.log_retention_minutes < 0 else self.log_retention_minutes * 60_000
        return -1 if self.log_retention_hours < 0 else self.log_retention_hours * 3_600_000

    @property
    def roll_ms(self) -> int:
        return self.log_roll_ms if self.log_roll_ms is not None else self.log_roll_hours * 3_600_000


class ReplicaKeys(PropertyKeys):
    """How this broker follows others and judges its followers."""

    replica_fetch_max_bytes: NaturalInt = 4 * 1024 * 1024
    replica_fetch_response_max_bytes: NaturalInt = 32 * 1024 * 1024
    replica_fetch_min_bytes: NaturalInt = 1
    replica_fetch_wait_max_ms: NaturalInt = 500
    replica_fetch_backoff_ms: NaturalInt = 1000
    replica_lag_time_max_ms: PositiveLong = 30_000
    replica_socket_timeout_ms: PositiveInt = 30_000
    replica_high_watermark_checkpoint_interval_ms: PositiveLong = 5000
    log_dir_free_bytes_min: NaturalInt = 64 * 1024 * 1024
    """Produce is refused while the disk of a partition's log directory has less room than this; 0: never."""
    log_dir_hang_timeout_ms: NaturalInt = 20_000
    """A log directory whose disk does not return from a call for so long goes offline; 0: never."""
    num_replica_fetchers: PositiveInt = 1
    leader_replication_throttled_rate: Annotated[int, Field(ge=0, le=INT64_MAX)] = INT64_MAX
    follower_replication_throttled_rate: Annotated[int, Field(ge=0, le=INT64_MAX)] = INT64_MAX
    """Bytes for each second of the replicas that topics' `*.replication.throttled.replicas` name."""
    num_replica_alter_log_dirs_threads: PositiveInt | None = None
    """The number of replicas that move between log directories at the same time; None: one for each directory."""
    replica_alter_log_dirs_io_max_bytes_per_second: Annotated[int, Field(ge=1, le=INT64_MAX)] = INT64_MAX
    """Bytes for each second of the replicas that move between log directories of this broker."""
    follower_fetch_last_tiered_offset_enable: Boolean = False
    bootstrap_policy: Annotated[str, BeforeValidator(_policy)] = "tier-first"
    bootstrap_bounded_local_bytes: Unlimited = -1
    bootstrap_bounded_local_ms: Unlimited = -1
    bootstrap_config: dict[str, str] = Field(default_factory=dict, repr=False)
    """The options of bootstrap policies that are no keys of the broker, with their prefixes."""
    replica_selector_class: Annotated[str, AfterValidator(_selector)] | None = None
    replica_selector_config: dict[str, str] = Field(default_factory=dict, repr=False)
    thin_replica_warm_bytes: PositiveLong = 256 * 1024 * 1024
    thin_replica_warm_ms: PositiveLong = 600_000
    """A thin replica reports that it is thin until it holds this much, or has been in sync for this long."""
    thin_replica_warmer_enable: Boolean = False
    thin_replica_warmer_max_bytes_per_second: PositiveLong = 20 * 1024 * 1024

    @property
    def bootstrap_properties(self) -> dict[str, str]:
        """The options of all bootstrap policies, with their prefixes."""
        return {
            **self.bootstrap_config,
            "bootstrap.bounded.local.bytes": str(self.bootstrap_bounded_local_bytes),
            "bootstrap.bounded.local.ms": str(self.bootstrap_bounded_local_ms),
        }

    @model_validator(mode="after")
    def _fetch_wait_is_below_lag(self) -> Self:
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            raise ValueError(
                f"replica.fetch.wait.max.ms ({self.replica_fetch_wait_max_ms}) must be at most replica.lag.time.max.ms "
                f"({self.replica_lag_time_max_ms}): an idle follower would leave the ISR"
            )
        return self


class TransactionKeys(PropertyKeys):
    """Transactions and their coordinator."""

    transaction_max_timeout_ms: PositiveInt = 15 * 60_000
    transactional_id_expiration_ms: PositiveInt = 7 * 24 * 3_600_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: PositiveInt = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: PositiveInt = 3_600_000
    transaction_partition_verification_enable: bool = True
    transaction_state_log_num_partitions: PositiveInt = 50
    transaction_state_log_replication_factor: Annotated[int, Field(ge=1, le=32767)] = 3
    transaction_state_log_min_isr: PositiveInt = 2
    transaction_state_log_segment_bytes: Annotated[int, Field(ge=1024 * 1024, le=INT32_MAX)] = 100 * 1024 * 1024


def _check_group_timeouts(keys: PropertyKeys, kind: str) -> None:
    """Check the timeouts of a kind of group (`group.<kind>.*`). ValueError."""

    def value_of(name: str) -> int:
        value: int = getattr(keys, f"group_{kind}_{name}_ms")
        return value

    session_ms, interval_ms = value_of("session_timeout"), value_of("heartbeat_interval")
    for what, value in (("session_timeout", session_ms), ("heartbeat_interval", interval_ms)):
        least, most = value_of(f"min_{what}"), value_of(f"max_{what}")
        if not least <= value <= most:
            key = what.replace("_", ".")
            raise ValueError(
                f"group.{kind}.{key}.ms ({value}) must be from group.{kind}.min.{key}.ms ({least})"
                f" to group.{kind}.max.{key}.ms ({most})"
            )
    if interval_ms >= session_ms:
        raise ValueError(
            f"group.{kind}.heartbeat.interval.ms ({interval_ms}) must be below "
            f"group.{kind}.session.timeout.ms ({session_ms})"
        )


class ShareKeys(PropertyKeys):
    """Share groups, and the coordinator of their state."""

    group_share_session_timeout_ms: PositiveInt = 45_000
    group_share_min_session_timeout_ms: PositiveInt = 45_000
    group_share_max_session_timeout_ms: PositiveInt = 60_000
    group_share_heartbeat_interval_ms: PositiveInt = 5_000
    group_share_min_heartbeat_interval_ms: PositiveInt = 5_000
    group_share_max_heartbeat_interval_ms: PositiveInt = 15_000
    group_share_max_size: Annotated[int, Field(ge=1, le=1000), ConfigType.INT] = 200
    group_share_record_lock_duration_ms: Annotated[int, Field(ge=1000, le=3_600_000)] = 30_000
    group_share_min_record_lock_duration_ms: Annotated[int, Field(ge=1000, le=30_000), ConfigType.INT] = 15_000
    group_share_max_record_lock_duration_ms: Annotated[int, Field(ge=30_000, le=3_600_000)] = 60_000
    group_share_delivery_count_limit: Annotated[int, Field(ge=2, le=10), ConfigType.INT] = 5
    group_share_min_delivery_count_limit: Annotated[int, Field(ge=2, le=5), ConfigType.INT] = 2
    group_share_max_delivery_count_limit: Annotated[int, Field(ge=5, le=25), ConfigType.INT] = 10
    group_share_partition_max_record_locks: Annotated[int, Field(ge=100, le=10_000), ConfigType.INT] = 2_000
    group_share_min_partition_max_record_locks: Annotated[int, Field(ge=100, le=2_000), ConfigType.INT] = 100
    group_share_max_partition_max_record_locks: Annotated[int, Field(ge=2_000, le=10_000), ConfigType.INT] = 10_000
    group_share_max_share_sessions: PositiveInt = 2_000
    share_coordinator_state_topic_num_partitions: PositiveInt = 50
    share_coordinator_state_topic_replication_factor: Annotated[int, Field(ge=1, le=32767)] = 3
    share_coordinator_state_topic_min_isr: Annotated[int, Field(ge=1, le=32767)] = 2
    share_coordinator_state_topic_segment_bytes: Annotated[int, Field(ge=1024 * 1024, le=INT32_MAX)] = 100 * 1024 * 1024
    share_coordinator_state_topic_compression_codec: Annotated[int, Field(ge=0, le=4), ConfigType.INT] = 0
    """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
    share_coordinator_state_topic_prune_interval_ms: PositiveInt = 300_000
    """How often records that are no longer needed are deleted."""
    share_coordinator_snapshot_update_records_per_snapshot: Annotated[int, Field(ge=0, le=500), ConfigType.INT] = 500
    share_coordinator_write_timeout_ms: PositiveInt = 5_000

    @model_validator(mode="after")
    def _check_share_groups(self) -> Self:
        _check_group_timeouts(self, "share")
        return self


class GroupKeys(PropertyKeys):
    """Consumer groups and their offsets."""

    group_min_session_timeout_ms: PositiveInt = 6_000
    group_max_session_timeout_ms: PositiveInt = 1_800_000
    group_max_size: PositiveInt = INT32_MAX
    group_initial_rebalance_delay_ms: NaturalInt = 3_000
    group_consumer_session_timeout_ms: PositiveInt = 45_000
    group_consumer_min_session_timeout_ms: PositiveInt = 45_000
    group_consumer_max_session_timeout_ms: PositiveInt = 60_000
    group_consumer_heartbeat_interval_ms: PositiveInt = 5_000
    group_consumer_min_heartbeat_interval_ms: PositiveInt = 5_000
    group_consumer_max_heartbeat_interval_ms: PositiveInt = 15_000
    group_consumer_max_size: PositiveInt = INT32_MAX
    group_consumer_assignors: Annotated[
        tuple[Literal["uniform", "range"], ...], BeforeValidator(comma_list), Field(min_length=1)
    ] = ("uniform", "range")
    group_consumer_migration_policy: Literal["bidirectional", "upgrade", "downgrade", "disabled"] = "bidirectional"
    group_consumer_regex_refresh_interval_ms: Annotated[int, Field(ge=10_000, le=INT32_MAX)] = 600_000
    offsets_topic_num_partitions: PositiveInt = 50
    offsets_topic_replication_factor: Annotated[int, Field(ge=1, le=32767)] = 3
    offsets_topic_segment_bytes: Annotated[int, Field(ge=1024 * 1024, le=INT32_MAX)] = 100 * 1024 * 1024
    offsets_topic_compression_codec: Annotated[int, Field(ge=0, le=4), ConfigType.INT] = 0
    """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
    offsets_commit_timeout_ms: PositiveInt = 5_000
    offset_metadata_max_bytes: NaturalInt = 4_096
    offsets_retention_minutes: PositiveInt = 7 * 24 * 60
    offsets_retention_check_interval_ms: PositiveLong = 600_000

    @model_validator(mode="after")
    def _check_consumer_groups(self) -> Self:
        _check_group_timeouts(self, "consumer")
        return self

    @model_validator(mode="after")
    def _check_session_timeouts(self) -> Self:
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ValueError(
                f"group.min.session.timeout.ms ({self.group_min_session_timeout_ms}) must be at most "
                f"group.max.session.timeout.ms ({self.group_max_session_timeout_ms})"
            )
        return self


class RemoteKeys(PropertyKeys):
    """The remote log manager and its two plugins."""

    remote_log_storage_system_enable: Boolean = False
    remote_log_storage_manager_plugin: str | None = None
    remote_log_storage_manager_class_name: Annotated[str | None, BeforeValidator(_plugin)] = None
    remote_log_storage_manager_impl_prefix: str = "rsm.config."
    remote_log_metadata_manager_class_name: Annotated[str, BeforeValidator(_metadata_plugin)] = "topic"
    remote_log_metadata_manager_impl_prefix: str = "rlmm.config."
    remote_log_metadata_custom_metadata_max_bytes: NaturalInt = 128
    remote_log_manager_task_interval_ms: PositiveLong = 30_000
    remote_log_manager_task_retry_backoff_ms: PositiveInt = 500
    remote_log_manager_task_retry_backoff_max_ms: PositiveInt = 30_000
    remote_log_manager_copier_thread_pool_size: PositiveInt = 10
    remote_log_manager_expiration_thread_pool_size: PositiveInt = 10
    remote_log_manager_copy_max_bytes_per_second: PositiveLong = INT64_MAX
    remote_log_manager_fetch_max_bytes_per_second: PositiveLong = INT64_MAX
    remote_log_manager_copy_timeout_ms: PositiveInt = 300_000
    remote_log_manager_copy_worker_enable: bool = True
    remote_log_index_file_cache_total_size_bytes: PositiveLong = 1024 * 1024 * 1024
    remote_log_reader_threads: PositiveInt = 10
    remote_log_reader_chunk_bytes: PositiveInt = 4 * 1024 * 1024
    remote_log_reader_cache_bytes: PositiveLong = 64 * 1024 * 1024
    remote_fetch_max_wait_ms: PositiveInt = 500
    remote_list_offsets_request_timeout_ms: PositiveLong = 30_000
    rsm_config: dict[str, str] = Field(default_factory=dict, repr=False)
    rlmm_config: dict[str, str] = Field(default_factory=dict, repr=False)

    @property
    def storage_plugin(self) -> str | None:
        """The name of the storage plugin's entry point."""
        return self.remote_log_storage_manager_plugin or self.remote_log_storage_manager_class_name

    @model_validator(mode="after")
    def _chunks_fit_into_the_cache(self) -> Self:
        if self.remote_log_reader_chunk_bytes > self.remote_log_reader_cache_bytes:
            raise ValueError(
                f"remote.log.reader.chunk.bytes ({self.remote_log_reader_chunk_bytes}) must be at most "
                f"remote.log.reader.cache.bytes ({self.remote_log_reader_cache_bytes})"
            )
        return self

    @model_validator(mode="after")
    def _enabled_needs_a_plugin(self) -> Self:
        if self.remote_log_storage_system_enable and self.storage_plugin is None:
            raise ValueError(
                "remote.log.storage.system.enable=true needs remote.log.storage.manager.plugin (local, s3, fsspec, or "
                "the entry point of another plugin)"
            )
        return self


class BrokerConfig(NodeKeys, LogKeys, ReplicaKeys, TransactionKeys, GroupKeys, ShareKeys, RemoteKeys, QuorumKeys):
    """All keys of one broker, checked."""

    security_properties: dict[str, str] = Field(default_factory=dict, repr=False)
    """The keys of TLS and SASL as the file has them; `security` is what they say."""

    @model_validator(mode="after")
    def _check_cluster_settings(self) -> Self:
        if "broker" not in self.process_roles:
            raise ValueError("process.roles does not name broker: this is a controller's configuration")
        if not (self.controller_quorum_voters or self.controller_quorum_bootstrap_servers):
            raise ValueError("controller.quorum.bootstrap.servers (or controller.quorum.voters) must say who governs")
        if "controller" not in self.process_roles and self.node_id in self.controller_quorum_voters:
            raise ValueError(
                f"node.id={self.node_id} is that of a voter in controller.quorum.voters, which would take what this "
                f"broker fetches for what the voter has: give the broker another node.id"
            )
        return self

    @model_validator(mode="after")
    def _check_listeners(self) -> Self:
        names = [listener.name for listener in self.listeners]
        strangers = [item.name for item in self.advertised_listeners or () if item.name not in names]
        if strangers:
            raise ValueError(f"advertised.listeners: {strangers[0]} is not among the listeners ({', '.join(names)})")
        self.authorizer  # noqa: B018 - the same
        self.security  # noqa: B018 - raises what is wrong with it
        return self

    @property
    def authorizer(self) -> AuthorizerSettings:
        """What decides which requests are allowed. AuthorizerConfigError, which validation raises first."""
        return authorizer_settings(self.security_properties)

    @property
    def security(self) -> NodeSecurity:
        """How listeners and connections are protected. SecurityConfigError, which validation raises first."""
        names = [listener.name for listener in self.listeners]
        return broker_security(self.security_properties, names, self.controller_listener_names[0].upper())

    @property
    def inter_broker_listener(self) -> Listener:
        """The listener that brokers use among themselves."""
        names = [listener.name for listener in self.listeners]
        return self.listeners[names.index(inter_broker_listener(self.security_properties, names))]

    @property
    def broker_listener(self) -> str | None:
        """The name of the listener that only brokers use; None if clients use it too."""
        return self.inter_broker_listener.name if len(self.listeners) > 1 else None

    def advertised(self, listener: Listener) -> Listener:
        """Return what clients and other brokers are given for a listener."""
        return next((item for item in self.advertised_listeners or () if item.name == listener.name), listener)

    def with_dynamic(self, *overrides: Mapping[str, str]) -> BrokerConfig:
        """This configuration with dynamic keys replaced, later mappings winning; ConfigError for a value that is wrong.

        Keys that are not dynamic are ignored here; the controller that accepted them reports them.
        """
        merged = {key: value for mapping in overrides for key, value in mapping.items() if key in DYNAMIC_KEYS}
        if not merged:
            return self
        values = self.model_dump(by_alias=True, exclude_unset=True)
        return validated(BrokerConfig, {**values, **merged}, "dynamic broker configs")


_GROUPS = {"rsm.config", "rlmm.config", "security.properties", "bootstrap.config", "replica.selector.config"}
KEYS = keys_of(BrokerConfig) - _GROUPS
DYNAMIC_KEYS = frozenset(
    key
    for key in KEYS
    if key == "follower.fetch.last.tiered.offset.enable"
    or key.startswith(("bootstrap.", "log.retention.", "log.local.retention.", "log.segment.", "log.flush.interval."))
    or key
    in {
        "log.roll.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.after.max.ms",
        "log.index.interval.bytes",
        "message.max.bytes",
        "min.insync.replicas",
        "compression.type",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.delete.retention.ms",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.fetch.max.bytes.per.second",
        "thin.replica.warmer.enable",
        "thin.replica.warmer.max.bytes.per.second",
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
) - {"log.retention.check.interval.ms", "log.retention.hours", "log.retention.minutes", "log.segment.delete.delay.ms"}
DEFAULT_PROPERTIES: Mapping[str, str] = {
    key: as_text(default)
    for key in sorted(KEYS)
    if not (field := BrokerConfig.model_fields[key.replace(".", "_")]).is_required()
    and (default := field.get_default(call_default_factory=True)) is not None
}
"""What a key says where nobody sets it; without the keys that then have no value."""
CONFIG_TYPES = config_types(BrokerConfig)
_ALIASES = {"broker.id": "node.id", "log.dir": "log.dirs"}
_OWN = ""
"""The group of the broker's own keys."""


def load_broker_config(path: Path) -> tuple[BrokerConfig, list[str]]:
    """Read a `.properties` file; returns the configuration and warnings. ConfigError names the file."""
    return parse_broker_config(read_properties(path), str(path))


def parse_broker_config(properties: Mapping[str, str], source: str) -> tuple[BrokerConfig, list[str]]:
    """Check properties; returns the configuration and warnings. `source` names them in messages."""
    values: dict[str, str] = {}
    groups: dict[str, dict[str, str]] = {}
    warnings: list[str] = []
    ignored: list[str] = []
    prefixes = _prefixes(properties)
    for given, value in properties.items():
        group = _group_of(given, prefixes)
        if group is None and _is_without_effect(given):
            warnings.append(f"{source}: key {given!r} has no effect in tierfetch")
        elif group is None:
            ignored.append(f"{source}: {unknown_key(given, KEYS)}")
            warnings.append(ignored[-1])
        elif group == _OWN:
            values.setdefault(_ALIASES.get(given, given), value)
        else:
            groups.setdefault(group, {})[given.removeprefix(prefixes.get(group, ""))] = value
    for key in ("listeners", "advertised.listeners"):
        if key in values:
            values[key] = _without_controllers(values[key], properties.get("controller.listener.names", "CONTROLLER"))
    return validated(BrokerConfig, {**values, **groups}, source, ignored), warnings


def unknown_keys(properties: Mapping[str, str]) -> list[str]:
    """Return the keys that neither tierfetch nor Kafka knows: in a file each is a warning."""
    prefixes = _prefixes(properties)
    return [key for key in properties if _group_of(key, prefixes) is None and not _is_without_effect(key)]


def _prefixes(properties: Mapping[str, str]) -> dict[str, str]:
    """Return with what the keys of plugins begin, by group."""
    return {
        "rsm.config": properties.get("remote.log.storage.manager.impl.prefix", "rsm.config."),
        "rlmm.config": properties.get("remote.log.metadata.manager.impl.prefix", "rlmm.config."),
        "replica.selector.config": REPLICA_SELECTOR.prefix,
    }


def _group_of(given: str, prefixes: Mapping[str, str]) -> str | None:
    """Return the group of keys that a property belongs to; None if it is unknown."""
    if _ALIASES.get(given, given) in KEYS:
        return _OWN
    if is_security_key(given):
        return "security.properties"
    of_plugin = next((group for group, prefix in prefixes.items() if prefix and given.startswith(prefix)), None)
    return of_plugin or ("bootstrap.config" if _is_policy_option(given) else None)


def _is_policy_option(key: str) -> bool:
    return key.startswith("bootstrap.") and any(
        key.startswith(BOOTSTRAP_POLICY.prefix_of(name)) for name in installed_plugins(BOOTSTRAP_POLICY)
    )


def _without_controllers(listeners: str, controller_names: str) -> str:
    """A node that is a controller too names its listeners beside the broker's."""
    names = {name.strip().upper() for name in controller_names.split(",")}
    items = [item.strip() for item in listeners.split(",")]
    return ",".join(item for item in items if item.partition("://")[0].upper() not in names)


def _is_without_effect(key: str) -> bool:
    return _WITHOUT_EFFECT.fullmatch(key) is not None and nearest_key(key, KEYS) is None

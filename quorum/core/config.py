"""The timeouts and limits of the quorum, under Kafka's names (`controller.quorum.*`)."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Final

from ...light_dataclass import dataclass
from ...log.core import INT64_MAX, UNLIMITED, LogConfig
from .state import Endpoint, ReplicaKey
from .voters import VoterSet

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""The largest record batch."""
SNAPSHOT_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The largest snapshot, unless configured: one of a million partitions has some 200 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """The configuration of one replica, given at its start. Times in ms.

    | field                   | key                                      |
    |-------------------------|------------------------------------------|
    | election_timeout_ms     | controller.quorum.election.timeout.ms    |
    | fetch_timeout_ms        | controller.quorum.fetch.timeout.ms       |
    | election_backoff_max_ms | controller.quorum.election.backoff.max.ms |
    | retry_backoff_ms        | controller.quorum.retry.backoff.ms       |
    | append_linger_ms        | controller.quorum.append.linger.ms       |
    | request_timeout_ms      | controller.quorum.request.timeout.ms     |
    | bootstrap_servers       | controller.quorum.bootstrap.servers      |
    | auto_join               | controller.quorum.auto.join.enable       |
    | cluster_id              | cluster.id of meta.properties; None while not known |
    | key                     | node.id and directory.id of meta.properties |
    | endpoints               | the CONTROLLER listeners of this node; empty for a broker, which never votes |

    `append_linger_ms` is 0 by default, Kafka's is 25: appends that come while the last write is not yet on disk go
    together into the next one, so waiting gains nothing. The last three fields are limits of ours.
    """

    key: ReplicaKey
    cluster_id: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    bootstrap_servers: tuple[Endpoint, ...] = ()
    auto_join: bool = False
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    retry_backoff_ms: int = 20
    append_linger_ms: int = 0
    request_timeout_ms: int = 2000
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 8 * 1024 * 1024
    append_batch_bytes_max: int = 8 * 1024 * 1024
    append_pending_bytes_max: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogConfig:
    """`metadata.log.segment.{bytes,ms}`, `metadata.max.retention.{bytes,ms}`; -1 is without a limit. And
    `metadata.log.max.snapshot.bytes`, which always is one.
    """

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 7 * 24 * 3_600_000
    snapshot_bytes_max: int = SNAPSHOT_BYTES_MAX

    @property
    def log_config(self) -> LogConfig:
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            retention_ms=UNLIMITED,
            retention_bytes=UNLIMITED,
            max_message_bytes=BATCH_BYTES_MAX,
            message_timestamp_after_max_ms=INT64_MAX,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """The configuration of one replica. It is a voter where `raft.endpoints` name its listeners and the voter set
    contains it, otherwise an observer.

    `static_voters` come from `controller.quorum.voters` and are empty with dynamic voters. `is_locked` means that the
    caller holds the lock of `directory`.
    """

    raft: RaftConfig
    directory: Path
    static_voters: VoterSet = field(default_factory=VoterSet)
    log: MetadataLogConfig = field(default_factory=MetadataLogConfig)
    is_locked: bool = False

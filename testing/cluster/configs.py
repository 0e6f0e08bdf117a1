"""The configuration of a test's cluster: Kafka's own keys, with timeouts that fit a test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Final, Literal

from ...light_dataclass import dataclass

CONTROLLER_ID: Final = 100
MEMORY: Final = Path("/dev/shm")
MEMORY_FREE_MIN: Final = 512 << 20
"""A directory in memory is used where at least this many bytes are free."""

TierName = Literal["local", "s3"]

CONTROLLER_CONFIGS: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "1500",
    "controller.quorum.election.timeout.ms": "50",
    "controller.quorum.fetch.timeout.ms": "100",
    "controller.quorum.election.backoff.max.ms": "50",
    "metadata.log.segment.bytes": str(8 << 20),
}
BROKER_CONFIGS: Final[Mapping[str, str]] = {
    "broker.heartbeat.interval.ms": "100",
    "controlled.shutdown.timeout.ms": "3000",
    "replica.fetch.wait.max.ms": "50",
    "replica.fetch.backoff.ms": "20",
    "replica.lag.time.max.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "1",
}
TIER_CONFIGS: Final[Mapping[str, str]] = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "50",
    "remote.log.manager.task.retry.backoff.ms": "50",
    "remote.log.manager.task.retry.backoff.max.ms": "200",
    "follower.fetch.last.tiered.offset.enable": "true",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
}


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """What a test may choose; the marker `tierfetch` has the same names."""

    brokers: int = 1
    tier: TierName | None = "local"
    """None: no remote storage system. "s3" needs the extra [testing]."""
    policy: str | None = None
    """The `bootstrap.policy` of empty followers; None: the product's default."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """More configs of every broker, by Kafka's names."""
    controller_configs: Mapping[str, str] = field(default_factory=dict)
    fsync: bool = False
    """Whether syncs reach the device. Without it, acknowledged records outlive `kill`, and not the machine."""
    log_dirs: int = 1
    """The log directories of each broker. A broker stops if the first one fails."""

    def __post_init__(self) -> None:
        if self.brokers < 1 or self.log_dirs < 1:
            raise ValueError(f"brokers={self.brokers}, log_dirs={self.log_dirs}: at least 1 is needed of each")
        if self.tier not in ("local", "s3", None):
            raise ValueError(f"tier={self.tier!r}: it is 'local', 's3' or None")


def new_directory() -> Path:
    """Make a directory for a cluster, in memory where there is room."""
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_FREE_MIN
    if has_room:
        try:
            return Path(tempfile.mkdtemp(prefix="tierfetch-", dir=MEMORY))
        except OSError:  # not ours to write
            pass
    return Path(tempfile.mkdtemp(prefix="tierfetch-"))


def controller_properties(options: ClusterOptions, base: Path, port: int) -> dict[str, str]:
    """The configuration of the only controller."""
    return {
        "node.id": str(CONTROLLER_ID),
        "process.roles": "controller",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{port}",
        "log.dirs": str(base / "controller"),
        **CONTROLLER_CONFIGS,
        **options.controller_configs,
    }


def log_directories(options: ClusterOptions, base: Path, broker: int) -> list[Path]:
    """The log directories of a broker; the first one has the metadata log."""
    return [base / f"broker-{broker}" / str(number) for number in range(options.log_dirs)]


def broker_properties(
    options: ClusterOptions, base: Path, broker: int, ports: tuple[int, int], tier: Mapping[str, str]
) -> dict[str, str]:
    """The configuration of a broker. `ports` are its own and the controller's; `tier` has the plugin's keys."""
    port, controller_port = ports
    properties = {
        "node.id": str(broker),
        "process.roles": "broker",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": ",".join(map(str, log_directories(options, base, broker))),
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "default.replication.factor": str(min(3, options.brokers)),
        "offsets.topic.replication.factor": str(min(3, options.brokers)),
        "transaction.state.log.replication.factor": str(min(3, options.brokers)),
        "transaction.state.log.min.isr": str(min(2, options.brokers)),
        "share.coordinator.state.topic.replication.factor": str(min(3, options.brokers)),
        "share.coordinator.state.topic.min.isr": str(min(2, options.brokers)),
        **BROKER_CONFIGS,
    }
    if options.tier is not None:
        factor = str(min(3, options.brokers))
        properties |= {
            **TIER_CONFIGS,
            "rlmm.config.remote.log.metadata.topic.replication.factor": factor,
            "remote.log.storage.manager.plugin": options.tier,
            **{f"rsm.config.{key}": value for key, value in tier.items()},
        }
    if options.policy is not None:
        properties["bootstrap.policy"] = options.policy
    return properties | dict(options.configs)

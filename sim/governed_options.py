"""What a seed of the governed scenario chooses beside its faults, as the configurations of its nodes and topics."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from ..broker.config import BrokerConfig, parse
from ..quorum.controller_config import ControllerConfig
from .controllers import CONTROLLER_PORT, controller_config, controller_host
from .schedule import Schedule, Targets, generate

BROKERS: Final = {"broker-1": 1, "broker-2": 2, "broker-3": 3}
"""Ids by host."""
CONTROLLERS: Final = {controller_host(node_id): node_id for node_id in (11, 12, 13)}
CLIENTS: Final = ("producers", "readers")
PORT: Final = 9092
SAFETY_MS: Final = 15_000
FLUSH_NEVER: Final = 2**63 - 1
SMALL_FETCH_BYTES: Final = 1_500
"""Of a replica's fetch that brings a batch or two."""
HEARTBEATS_A_SESSION: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernedOptions:
    """`replication_factor` is the main topic's; the metadata topic's is 3. Times in ms unless they say otherwise."""

    partitions: int
    replication_factor: int
    min_insync_replicas: int
    flush_messages: int
    segment_bytes: int
    local_retention_ms: int
    bootstrap_policy: str
    follows_tier: bool
    replica_fetch_max_bytes: int
    session_timeout_ms: int
    fast_failover: bool
    lag_time_max_ms: int
    election_timeout_ms: int
    fetch_timeout_ms: int
    snapshot_bytes: int
    copy_timeout_ms: int
    producers: int
    weak_producers: int
    transactional_producers: int
    gap_ms: int
    administrator_pace_ms: int

    @classmethod
    def drawn(cls, rng: Random) -> GovernedOptions:
        replication_factor = rng.choice((2, 3, 3))
        return cls(
            partitions=rng.choice((1, 1, 2)),
            replication_factor=replication_factor,
            min_insync_replicas=rng.choice((1, 2, 2)) if replication_factor == 3 else rng.choice((1, 1, 2)),
            flush_messages=rng.choice((1, 5, FLUSH_NEVER, FLUSH_NEVER)),
            segment_bytes=rng.choice((3_000, 6_000, 15_000)),
            local_retention_ms=rng.choice((500, 2_000, 8_000)),
            bootstrap_policy=rng.choice(("tier-first", "earliest-pending-upload", "local-log-start", "bounded-local")),
            follows_tier=rng.random() < 0.85,
            replica_fetch_max_bytes=rng.choice((SMALL_FETCH_BYTES, 4 * 1024 * 1024)),
            session_timeout_ms=rng.choice((700, 1_500, 3_000)),
            fast_failover=rng.random() < 0.7,
            lag_time_max_ms=rng.choice((1_000, 2_500)),
            election_timeout_ms=rng.choice((300, 1_000)),
            fetch_timeout_ms=rng.choice((700, 2_000)),
            snapshot_bytes=rng.choice((2_000, 20_000, 20 * 1024 * 1024)),
            copy_timeout_ms=rng.choice((1_500, 300_000)),
            producers=rng.choice((1, 2)),
            weak_producers=rng.choice((0, 0, 1)),
            transactional_producers=rng.choice((0, 1, 1)),
            gap_ms=rng.choice((100, 200, 400)),
            administrator_pace_ms=rng.choice((700, 3_000)),
        )

    @staticmethod
    def schedule(rng: Random) -> Schedule:
        targets = Targets(
            nodes=(*BROKERS, *CONTROLLERS), wiped=tuple(BROKERS), clients=CLIENTS, has_store=True, has_quorum=True
        )
        return generate(rng, targets, SAFETY_MS)

    @property
    def heartbeat_interval_ms(self) -> int:
        return self.session_timeout_ms // HEARTBEATS_A_SESSION

    @property
    def assignments(self) -> list[list[int]]:
        """Of the main topic."""
        ids = list(BROKERS.values())
        return [
            [ids[(number + place) % len(ids)] for place in range(self.replication_factor)]
            for number in range(self.partitions)
        ]

    @property
    def topic_configs(self) -> dict[str, str]:
        return {
            "remote.storage.enable": "true",
            "internal.segment.bytes": str(self.segment_bytes),
            "index.interval.bytes": "300",
            "segment.ms": "3000",
            "local.retention.ms": str(self.local_retention_ms),
            "retention.ms": "-1",
            "flush.messages": str(self.flush_messages),
            "min.insync.replicas": str(self.min_insync_replicas),
            "file.delete.delay.ms": "500",
        }

    @property
    def _quorum_keys(self) -> dict[str, str]:
        return {
            "controller.quorum.election.timeout.ms": str(self.election_timeout_ms),
            "controller.quorum.fetch.timeout.ms": str(self.fetch_timeout_ms),
            "controller.quorum.request.timeout.ms": "1000",
        }

    def controller_config(self, name: str) -> ControllerConfig:
        return controller_config(
            CONTROLLERS[name],
            tuple(CONTROLLERS.values()),
            {
                **self._quorum_keys,
                "broker.session.timeout.ms": str(self.session_timeout_ms),
                "fast.failover.enable": str(self.fast_failover).lower(),
                "leader.imbalance.check.interval.seconds": "5",
                "metadata.log.max.record.bytes.between.snapshots": str(self.snapshot_bytes),
                "thin.replica.warm.ms": "3000",
            },
        )

    def broker_config(self, name: str) -> BrokerConfig:
        voters = ",".join(f"{node_id}@{host}:{CONTROLLER_PORT}" for host, node_id in CONTROLLERS.items())
        properties = {
            **self._quorum_keys,
            "node.id": str(BROKERS[name]),
            "listeners": f"PLAINTEXT://{name}:{PORT}",
            "log.dirs": "/data",
            "controller.quorum.voters": voters,
            "broker.heartbeat.interval.ms": str(self.heartbeat_interval_ms),
            "controlled.shutdown.timeout.ms": "5000",
            "replica.lag.time.max.ms": str(self.lag_time_max_ms),
            "replica.fetch.wait.max.ms": "500",
            "replica.fetch.backoff.ms": "200",
            "replica.fetch.max.bytes": str(self.replica_fetch_max_bytes),
            "replica.socket.timeout.ms": "3000",
            "replica.high.watermark.checkpoint.interval.ms": "1000",
            "log.retention.check.interval.ms": "1000",
            "request.timeout.ms": "5000",
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.plugin": "local",
            "remote.log.manager.task.interval.ms": "300",
            "remote.log.manager.copy.timeout.ms": str(self.copy_timeout_ms),
            "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
            "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
            "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
            "rlmm.config.remote.log.metadata.topic.min.isr": "2",
            "follower.fetch.last.tiered.offset.enable": str(self.follows_tier).lower(),
            "bootstrap.policy": self.bootstrap_policy,
        }
        config, warnings = parse(properties, name)
        assert not warnings, warnings
        return config

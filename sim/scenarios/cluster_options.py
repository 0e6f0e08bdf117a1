"""What a seed of the cluster scenario chooses beside its faults, as the configurations of its nodes and topics."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from random import Random
from typing import Final

from ...broker import CombinedConfig, parse_combined
from ...broker.config import BrokerConfig, parse_broker_config
from ...controller import METADATA_VERSION, NEW_CLUSTER_LEVELS
from ...controller.records import FeatureLevelRecord, encode_record
from ...light_dataclass import dataclass
from ...quorum import ControllerConfig, VoterSet, parse_controller_config
from ..faults.actions import moments
from ..faults.directories import directory_moves, sick_directories
from ..faults.hardware import hardware, open_files
from ..faults.log_scenes import log_scene
from ..faults.scenes import Stage, scenes
from ..faults.schedule import Schedule, Targets, generate
from ..faults.table import Cast, beside
from ..machine.chance import Chance
from ..machine.filesystem import LOG_DIRECTORIES
from .client import FETCH_BYTES_MAX
from .controllers import CONTROLLER_PORT, controller_host, first_voters, servers

BROKERS: Final = {"broker-1": 1, "broker-2": 2, "broker-3": 3}
"""Ids by host."""
CONTROLLER_IDS: Final = (11, 12, 13)
SPARE_ID: Final = 14
"""The id of a controller that is no voter at first."""
RACKS: Final = {"broker-1": "a", "broker-2": "b", "broker-3": "b"}
READERS_RACK: Final = "b"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
CLIENTS: Final = ("producers", "readers")
PORT: Final = 9092
METRICS_PORT: Final = 9404
SAFETY_MS: Final = 15_000
FLUSH_NEVER: Final = 2**63 - 1
SMALL_FETCH_BYTES: Final = 1_500
"""The size of a replica's fetch that brings a batch or two."""
HEARTBEATS_A_SESSION: Final = 4
FREQUENT_BYTES: Final = 300
"""Between two snapshots of the metadata: a few records."""
FREQUENT_SHARE: Final = 0.25
NEWCOMER_SHARE: Final = 0.5
"""The share of seeds in which a broker gets an empty disk once everything is at rest."""
SLOW_TIER_SHARE: Final = 0.1
"""The share of seeds in which the tier is slow for a while once everything is at rest."""
PIPELINED_SHARE: Final = 0.4
"""The share of seeds whose producers keep several batches in flight."""
RETENTION_SHARE: Final = 0.4
"""The share of seeds in which the main topic expires."""
NO_LIMIT: Final = -1
WARMS_SHARE: Final = 0.2
CLASSIC_SHARE: Final = 0.5
"""The share of seeds of `workers` whose group is of the classic protocol."""
EXPIRY_CHECK_MS: Final = 100_000
"""How often brokers look for groups and transactional ids that have expired: most runs are over by then."""
CONSUMER_SESSION_MS: Final = 2_000
SHARE_SESSION_MS: Final = 2_000
DIRECTORIES_SHARE: Final = 0.1
"""The share of seeds whose brokers have several log directories, with faults of single ones."""
DIRECTORY_HANG_MS: Final = 1_500
UNCLEAN_SHARE: Final = 0.15
"""The share of seeds in which unclean elections are allowed at times, and the main topic begins so."""
AUTHORIZER_SHARE: Final = 0.2
AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
METADATA_VERSION_MAX: Final = NEW_CLUSTER_LEVELS[METADATA_VERSION]
METADATA_VERSIONS: Final = (METADATA_VERSION_MAX,) * 27 + (25, 28, 29)
"""What clusters begin with; 4.0-IV3, and those around the one that brokers ask for pending uploads from."""
RENEWS_SHARE: Final = 0.4
RESETS_SHARE: Final = 0.4
LATE_SHARE: Final = 0.2
VOTERS_SHARE: Final = 0.12
"""The share of seeds whose controllers' voters change."""
JOINS_SHARE: Final = 0.3
"""The share of those whose controllers add themselves."""
MOVES_SHARE: Final = 0.4
"""The share of those in which an administrator moves replicas between them."""
MOVE_RATES: Final = (1_500, 10_000, 10_000_000)
"""How many bytes a second are copied between log directories: a log of a few thousand takes seconds, or no time."""
WARMER_BYTES_A_SECOND: Final = 20_000
SMALL_CHUNKS_SHARE: Final = 0.12
"""The share of seeds in which a segment is several chunks for those who read the tier, which come in runs."""
CHUNK_BYTES: Final = 4 * 1024 * 1024
SMALL_CHUNK_BYTES: Final = (600, 1_500)
SEVERAL_CHUNKS_BYTES: Final = 6_000
SOON_MS: Final = 2_000
CACHE_CHUNKS: Final = (12, 24, 1_000)
"""The chunks that fit into a broker's memory where they are small: few beside those under way, or all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """`replication_factor` is the main topic's; the metadata topic's is 3. Times in ms unless they say otherwise.

    `combined` of the nodes are broker and controller in one process. Where thin replicas are warmed (`warms`) local
    retention is long, or nothing would be missing. With `racks`, readers in one read from followers (KIP-392). The main
    topic has one of the two retentions, or none. Brokers have one log directory, or several. `workers`: the places of a
    group that consumes and produces, in the classic protocol or that of KIP-848. `sharers`: those of a share group.
    `unclean`: unclean elections are allowed at times. `authorizes`: nodes have an authorizer, whose super user all are.
    The cluster begins at `metadata_version`. Members of the share group renew locks (`renews`); the offsets of another
    one are reset (`resets`); share.version rises late. Voters of the quorum change (`changing_voters`), `spares` more
    controllers may become some; with `auto_join` by themselves. Brokers fetch chunks of `chunk_bytes` from the tier for
    readers, and keep `cache_chunks`.
    """

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
    thin_warm_ms: int = 3_000
    warms: bool = False
    racks: bool = False
    combined: int = 0
    newcomer: bool = False
    slow_tier: bool = False
    pipelined: bool = False
    retention_ms: int = NO_LIMIT
    retention_bytes: int = NO_LIMIT
    log_directories: int = 1
    move_bytes_per_s: int = MOVE_RATES[-1]
    workers: int = 0
    classic_group: bool = True
    sharers: int = 0
    unclean: bool = False
    authorizes: bool = False
    metadata_version: int = METADATA_VERSION_MAX
    renews: bool = False
    resets: bool = False
    late_shares: bool = False
    changing_voters: bool = False
    spares: int = 0
    auto_join: bool = False
    chunk_bytes: int = CHUNK_BYTES
    cache_chunks: int = 16

    @classmethod
    def drawn(cls, chance: Chance) -> ClusterOptions:
        rng = chance("more options")
        drawn = replace(
            cls._drawn(chance("options")),
            thin_warm_ms=rng.choice((3_000, 15_000)),
            racks=rng.random() < 0.3,
            combined=rng.choice((0, 0, 0, 1, 3)),
            newcomer=chance("newcomer").random() < NEWCOMER_SHARE,
            slow_tier=chance("slow tier").random() < SLOW_TIER_SHARE,
            pipelined=chance("pipelined").random() < PIPELINED_SHARE,
            log_directories=2 if chance("log directories").random() < DIRECTORIES_SHARE else 1,
            move_bytes_per_s=chance("move rate").choice(MOVE_RATES),
            unclean=chance("unclean").random() < UNCLEAN_SHARE,
            authorizes=chance("authorizer").random() < AUTHORIZER_SHARE,
            metadata_version=chance("metadata version").choice(METADATA_VERSIONS),
        )._with_voters(chance("metadata voters"))
        drawn = drawn._with_chunks(chance("chunks"))
        warms = rng.random() < WARMS_SHARE
        if rng.random() < FREQUENT_SHARE:
            drawn = replace(drawn, snapshot_bytes=FREQUENT_BYTES)
        if not warms:
            return drawn._with_retention(chance("retention"))
        return replace(
            drawn,
            warms=True,
            thin_warm_ms=60_000,
            segment_bytes=3_000,
            local_retention_ms=60_000,
            bootstrap_policy="tier-first",
            follows_tier=True,
        )

    @classmethod
    def with_workers(cls, chance: Chance) -> ClusterOptions:
        """What a seed of `workers` chooses. Transactions have a coordinator: no client writes markers."""
        return replace(
            cls.drawn(chance),
            workers=chance("workers").choice((1, 2, 3)),
            classic_group=chance("group protocol").random() < CLASSIC_SHARE,
            transactional_producers=0,
        )

    @classmethod
    def with_sharers(cls, chance: Chance) -> ClusterOptions:
        """What a seed of `shares` chooses."""
        return replace(
            cls.drawn(chance),
            sharers=chance("sharers").choice((2, 3)),
            renews=chance("renews").random() < RENEWS_SHARE,
            resets=chance("share offsets").random() < RESETS_SHARE,
            late_shares=chance("share.version").random() < LATE_SHARE,
        )

    def _with_voters(self, rng: Random) -> ClusterOptions:
        if rng.random() >= VOTERS_SHARE:
            return self
        spares, joins = rng.choice((0, 1)), rng.random() < JOINS_SHARE
        return replace(self, changing_voters=True, spares=spares, auto_join=joins)

    def _with_chunks(self, rng: Random) -> ClusterOptions:
        """Return these, or others with small chunks, segments of many, and a local log that is soon short."""
        if rng.random() >= SMALL_CHUNKS_SHARE:
            return self
        return replace(
            self,
            chunk_bytes=rng.choice(SMALL_CHUNK_BYTES),
            cache_chunks=rng.choice(CACHE_CHUNKS),
            segment_bytes=max(self.segment_bytes, SEVERAL_CHUNKS_BYTES),
            local_retention_ms=min(self.local_retention_ms, SOON_MS),
        )

    def _with_retention(self, rng: Random) -> ClusterOptions:
        if rng.random() >= RETENTION_SHARE:
            return self
        if rng.random() < 0.5:
            return replace(self, retention_bytes=rng.choice((4_000, 12_000)))
        retention_ms = rng.choice((3_000, 6_000))
        local_ms = min(self.local_retention_ms, retention_ms)
        return replace(self, retention_ms=retention_ms, local_retention_ms=local_ms)

    @property
    def read_bytes(self) -> int:
        """The size of a reader's fetch: where chunks are small, it takes several for a segment."""
        return FETCH_BYTES_MAX if self.chunk_bytes == CHUNK_BYTES else 2 * self.chunk_bytes

    @property
    def expires(self) -> bool:
        """Whether the main topic loses its beginning."""
        return (self.retention_ms, self.retention_bytes) != (NO_LIMIT, NO_LIMIT)

    @classmethod
    def _drawn(cls, rng: Random) -> ClusterOptions:
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
            administrator_pace_ms=rng.choice((400, 1_500)),
        )

    def schedule(self, chance: Chance) -> Schedule:
        """A disk that holds a vote is never lost: a static quorum does not promise to survive that."""
        controllers = self.controllers
        wiped = tuple(host for host in BROKERS if host not in controllers)
        nodes = tuple(dict.fromkeys((*BROKERS, *controllers)))
        targets = Targets(nodes=nodes, wiped=wiped, clients=CLIENTS, has_store=True, has_quorum=True)
        stage = Stage(
            brokers=tuple(BROKERS),
            controllers=tuple(controllers),
            wiped=wiped,
            session_timeout_ms=self.session_timeout_ms,
            safety_ms=SAFETY_MS,
        )
        cast = Cast(nodes=nodes, brokers=tuple(BROKERS), clients=CLIENTS, has_store=True)
        failing = hardware(chance("hardware"), nodes, SAFETY_MS, has_store=True)
        ill = {target for fault in failing for target in fault.targets}
        failing += open_files(chance("open files"), nodes, ill, SAFETY_MS)
        more = [
            *scenes(chance("scenes"), stage),
            *log_scene(chance("log scenes"), stage),
            *failing,
            *beside(chance("table"), cast, SAFETY_MS),
        ]
        if self.log_directories > 1:
            ill = {target for fault in failing for target in fault.targets}
            sick = sick_directories(chance("directories"), tuple(BROKERS), ill, SAFETY_MS)
            more += sick
            if chance("log directory moves").random() < MOVES_SHARE:
                more += directory_moves(chance("directory moves"), tuple(BROKERS), sick, SAFETY_MS)
        actions = moments(chance("actions"), self.administrator_pace_ms, SAFETY_MS)
        return generate(chance("faults"), targets, SAFETY_MS).with_more(more).with_actions(actions)

    @property
    def controllers(self) -> dict[str, int]:
        """Ids by host."""
        combined = list(BROKERS.items())[: self.combined]
        alone = [(controller_host(node_id), node_id) for node_id in CONTROLLER_IDS[self.combined :]]
        spare = [(controller_host(SPARE_ID), SPARE_ID)] if self.spares else []
        return dict([*alone, *combined, *spare])

    def first_voters(self, rng: Random) -> VoterSet:
        """Return the voters that the quorum is formatted with."""
        hosts = {node_id: host for host, node_id in self.controllers.items() if node_id != SPARE_ID}
        return first_voters(hosts, rng)

    @property
    def heartbeat_interval_ms(self) -> int:
        return self.session_timeout_ms // HEARTBEATS_A_SESSION

    @property
    def assignments(self) -> list[list[int]]:
        """The replicas of the main topic's partitions."""
        ids = list(BROKERS.values())
        return [
            [ids[(number + place) % len(ids)] for place in range(self.replication_factor)]
            for number in range(self.partitions)
        ]

    @property
    def first_records(self) -> tuple[bytes, ...]:
        """What the metadata log begins with, as formatting with a release does; nothing for this one."""
        if self.metadata_version == METADATA_VERSION_MAX:
            return ()
        return (encode_record(FeatureLevelRecord(name=METADATA_VERSION, feature_level=self.metadata_version)),)

    @property
    def rises(self) -> dict[str, int]:
        """The features that begin lower than they can be, and how high that is."""
        rises = {METADATA_VERSION: METADATA_VERSION_MAX} if self.metadata_version < METADATA_VERSION_MAX else {}
        return rises | ({"share.version": 1} if self.late_shares else {})

    @property
    def topic_configs(self) -> dict[str, str]:
        """The configs of the main topic."""
        retention = {"retention.ms": str(self.retention_ms), "retention.bytes": str(self.retention_bytes)}
        unclean = {"unclean.leader.election.enable": "true"} if self.unclean else {}
        return self.side_configs | retention | unclean

    @property
    def side_configs(self) -> dict[str, str]:
        """The configs of all other topics, where nothing expires."""
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
        voters = ",".join(f"{node_id}@{host}:{CONTROLLER_PORT}" for host, node_id in self.controllers.items())
        known = {"controller.quorum.voters": voters}
        if self.changing_voters:
            known = {"controller.quorum.bootstrap.servers": servers(self.controllers)}
        return {
            **known,
            "controller.quorum.election.timeout.ms": str(self.election_timeout_ms),
            "controller.quorum.fetch.timeout.ms": str(self.fetch_timeout_ms),
            "controller.quorum.request.timeout.ms": "1000",
            "thin.replica.warm.ms": str(self.thin_warm_ms),
            **(AUTHORIZER if self.authorizes else {}),
        }

    @property
    def _controller_keys(self) -> dict[str, str]:
        joins = {"controller.quorum.auto.join.enable": "true"} if self.auto_join else {}
        return {
            **joins,
            "broker.session.timeout.ms": str(self.session_timeout_ms),
            "fast.failover.enable": str(self.fast_failover).lower(),
            "leader.imbalance.check.interval.seconds": "5",
            "metadata.log.max.record.bytes.between.snapshots": str(self.snapshot_bytes),
        }

    def controller_config(self, name: str, port: int = CONTROLLER_PORT) -> ControllerConfig:
        """The configuration of a controller that listens there."""
        listener = {"node.id": str(self.controllers[name]), "listeners": f"CONTROLLER://{name}:{port}"}
        own = {"log.dirs": "/metadata", **listener}
        config, warnings = parse_controller_config({**self._quorum_keys, **self._controller_keys, **own}, name)
        assert not warnings, warnings
        return config

    def combined_config(self, name: str, port: int = CONTROLLER_PORT) -> CombinedConfig:
        """The configuration of a controller that listens there, and is a broker, too."""
        properties = {
            **self._broker_keys(name),
            **self._controller_keys,
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{name}:{PORT},CONTROLLER://{name}:{port}",
            "controller.listener.names": "CONTROLLER",
            "metadata.log.dir": "/metadata",
        }
        config, warnings = parse_combined(properties, name)
        assert not warnings, warnings
        return config

    def broker_config(self, name: str) -> BrokerConfig:
        config, warnings = parse_broker_config(self._broker_keys(name), name)
        assert not warnings, warnings
        return config

    @property
    def _share_keys(self) -> dict[str, str]:
        """Share groups with short sessions and locks, where there are some."""
        keys = {
            "group.share.session.timeout.ms": str(SHARE_SESSION_MS),
            "group.share.min.session.timeout.ms": str(SHARE_SESSION_MS),
            "group.share.heartbeat.interval.ms": "500",
            "group.share.min.heartbeat.interval.ms": "500",
            "group.share.min.record.lock.duration.ms": "1000",
            "share.coordinator.snapshot.update.records.per.snapshot": "20",
            "share.coordinator.state.topic.prune.interval.ms": "2000",
            "share.coordinator.write.timeout.ms": "2000",
        }
        return keys if self.sharers else {}

    def _broker_keys(self, name: str) -> dict[str, str]:
        racks = {"broker.rack": RACKS[name], "replica.selector.class": RACK_AWARE} if self.racks else {}
        return {
            **self._quorum_keys,
            **racks,
            **self._share_keys,
            "node.id": str(BROKERS[name]),
            "listeners": f"PLAINTEXT://{name}:{PORT}",
            "metrics.host": name,
            "metrics.port": str(METRICS_PORT),
            "log.dirs": ",".join(str(path) for path in LOG_DIRECTORIES[: self.log_directories]),
            "log.dir.hang.timeout.ms": str(DIRECTORY_HANG_MS),
            "replica.alter.log.dirs.io.max.bytes.per.second": str(self.move_bytes_per_s),
            "broker.heartbeat.interval.ms": str(self.heartbeat_interval_ms),
            "controlled.shutdown.timeout.ms": "5000",
            "replica.lag.time.max.ms": str(self.lag_time_max_ms),
            "replica.fetch.wait.max.ms": "500",
            "replica.fetch.backoff.ms": "200",
            "replica.fetch.max.bytes": str(self.replica_fetch_max_bytes),
            "replica.socket.timeout.ms": "3000",
            "replica.high.watermark.checkpoint.interval.ms": "1000",
            "log.retention.check.interval.ms": "1000",
            "log.cleaner.backoff.ms": "1000",
            "request.timeout.ms": "5000",
            "group.initial.rebalance.delay.ms": "300",
            "group.min.session.timeout.ms": "1000",
            "group.consumer.session.timeout.ms": str(CONSUMER_SESSION_MS),
            "group.consumer.min.session.timeout.ms": str(CONSUMER_SESSION_MS),
            "group.consumer.heartbeat.interval.ms": "500",
            "group.consumer.min.heartbeat.interval.ms": "500",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            "transaction.remove.expired.transaction.cleanup.interval.ms": str(EXPIRY_CHECK_MS),
            "offsets.retention.check.interval.ms": str(EXPIRY_CHECK_MS),
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.plugin": "local",
            "remote.log.manager.task.interval.ms": "300",
            "remote.log.manager.copy.timeout.ms": str(self.copy_timeout_ms),
            "remote.log.reader.chunk.bytes": str(self.chunk_bytes),
            "remote.log.reader.cache.bytes": str(self.cache_chunks * self.chunk_bytes),
            "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
            "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
            "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
            "rlmm.config.remote.log.metadata.topic.min.isr": "2",
            "follower.fetch.last.tiered.offset.enable": str(self.follows_tier).lower(),
            "bootstrap.policy": self.bootstrap_policy,
            "thin.replica.warmer.enable": str(self.warms).lower(),
            "thin.replica.warmer.max.bytes.per.second": str(WARMER_BYTES_A_SECOND),
        }


def start_groups(names: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the order of the first start: controllers alone, then all brokers."""
    return [name for name in names if name not in BROKERS], [name for name in names if name in BROKERS]

"""A controller's configuration: Kafka's `.properties` keys for the quorum, mostly with Kafka's defaults.

    node.id=1
    process.roles=controller
    listeners=CONTROLLER://127.0.0.1:9093
    controller.listener.names=CONTROLLER
    controller.quorum.voters=1@127.0.0.1:9093,2@127.0.0.1:9094,3@127.0.0.1:9095
    log.dirs=data

`controller.quorum.voters` makes a quorum of static voters (kraft.version 0). Without it the voters are in the log,
where formatting put the first ones, and `controller.quorum.bootstrap.servers` says where to ask. Other defaults than
Kafka's: `controller.quorum.append.linger.ms` is 0 (25 there; appends wait for the write before them in any case), and
`controller.quorum.fetch.max.bytes` is 8 MiB (1 MiB there).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from ..log.core import (
    Boolean,
    Listener,
    NaturalInt,
    Paths,
    PositiveInt,
    PositiveLong,
    PropertyKeys,
    Unlimited,
    comma_list,
    keys_of,
    parse_host_and_port,
    parse_listener,
    read_properties,
    unknown_key,
    validated,
)
from ..plugin_registry import REPLICA_PLACEMENT
from ..protocol.net import UNLIMITED
from ..protocol.wire import ConfigType
from ..security.core import AuthorizerSettings, NodeSecurity, authorizer_settings, controller_security, is_security_key
from .core.config import SNAPSHOT_BYTES_MAX, MetadataLogConfig, RaftConfig, ReplicaConfig
from .core.state import Endpoint, ReplicaKey
from .core.voters import VoterNode, VoterSet

SEGMENT_BYTES_MIN: Final = 8 * 1024 * 1024
_WEEK_MS: Final = 7 * 24 * 3_600_000
_OF_OTHERS = re.compile(
    r"(listener\.name\..*|inter\.broker\..*|security\..*|ssl\..*|sasl\..*|num\..*|socket\..*|log\..*"
    r"|offsets\..*|group\..*|transaction\..*|share\..*|remote\..*|replica\..*|broker\..*|default\..*|min\.insync\.replicas"
    r"|unclean\..*|leader\.imbalance\..*|auto\..*|advertised\..*|metric\.reporters|rsm\..*|rlmm\..*"
    r"|initial\.broker\..*|.*\.quota\..*|internal\..*|fetch\..*|follower\..*|bootstrap\..*|static\..*)"
)


def _listeners(value: object) -> object:
    if not isinstance(value, str):
        return value
    items = comma_list(value)
    assert isinstance(items, tuple)
    return tuple(parse_listener(item) for item in items)


def _voters(value: object) -> object:
    """`id@host:port`, separated by commas."""
    if not isinstance(value, str):
        return value
    voters: dict[int, tuple[str, int]] = {}
    for item in (part.strip() for part in value.split(",") if part.strip()):
        id_text, at, address = item.partition("@")
        if not at or not id_text.isdecimal():
            raise ValueError(f"expected id@host:port separated by commas, found {item!r}")
        if int(id_text) in voters:
            raise ValueError(f"node id {id_text} is named twice: every voter needs an id of its own")
        voters[int(id_text)] = parse_host_and_port(address)
    return voters


def _servers(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(parse_host_and_port(part) for part in value.split(",") if part.strip())


class ControllerKeys(PropertyKeys):
    """The controller's id, its listeners, and where its data is stored."""

    node_id: NaturalInt
    process_roles: Annotated[tuple[Literal["controller", "broker"], ...], BeforeValidator(comma_list)] = ("controller",)
    listeners: Annotated[tuple[Listener, ...], BeforeValidator(_listeners)] = (
        Listener("CONTROLLER", "127.0.0.1", 9093),
    )
    advertised_listeners: Annotated[tuple[Listener, ...] | None, BeforeValidator(_listeners)] = None
    controller_listener_names: Annotated[tuple[str, ...], BeforeValidator(comma_list)] = ("CONTROLLER",)
    log_dirs: Paths
    metadata_log_dir: Path | None = None
    max_connections: PositiveInt = 10_000
    max_connections_per_ip: PositiveInt = UNLIMITED
    max_connection_creation_rate: PositiveInt = UNLIMITED
    socket_request_max_bytes: PositiveInt = 100 * 1024 * 1024
    metrics_host: str = "127.0.0.1"
    metrics_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """Prometheus endpoint; absent: none; 0: the system chooses."""


class ClusterKeys(PropertyKeys):
    """What the active controller decides by. The last five are ours."""

    broker_session_timeout_ms: PositiveInt = 9000
    num_partitions: PositiveInt = 1
    default_replication_factor: PositiveInt = 1
    unclean_leader_election_enable: Boolean = False
    auto_leader_rebalance_enable: Boolean = True
    leader_imbalance_check_interval_seconds: PositiveInt = 300
    controller_quota_window_num: PositiveInt = 11
    controller_quota_window_size_seconds: PositiveInt = 1
    """Their product is how many seconds of its controller_mutation_rate a client may save up (KIP-599)."""
    fast_failover_enable: Boolean = True
    """Look at once when a broker's connection ends, and fence it on proof instead of waiting for its session."""
    thin_replica_warm_bytes: PositiveLong = 256 * 1024 * 1024
    thin_replica_warm_ms: PositiveLong = 600_000
    """A replica most of whose log is in the tier comes last for leadership until it holds so much, or so long."""
    replica_placement_plugin: str = "striped"
    replica_placement_config: dict[str, str] = Field(default_factory=dict, repr=False)


class QuorumKeys(PropertyKeys):
    """The quorum's timeouts, its voters and its log."""

    controller_quorum_voters: Annotated[dict[int, tuple[str, int]], BeforeValidator(_voters)] = Field(
        default_factory=dict
    )
    controller_quorum_bootstrap_servers: Annotated[tuple[tuple[str, int], ...], BeforeValidator(_servers)] = ()
    controller_quorum_auto_join_enable: Boolean = False
    """Become a voter by oneself, in place of an older directory of the same node.id; with dynamic voters."""
    controller_quorum_election_timeout_ms: PositiveInt = 1000
    controller_quorum_fetch_timeout_ms: PositiveInt = 2000
    controller_quorum_election_backoff_max_ms: NaturalInt = 1000
    controller_quorum_append_linger_ms: NaturalInt = 0
    controller_quorum_request_timeout_ms: PositiveInt = 2000
    controller_quorum_retry_backoff_ms: NaturalInt = 20
    controller_quorum_fetch_max_bytes: PositiveInt = 8 * 1024 * 1024
    metadata_log_segment_bytes: Annotated[int, Field(ge=SEGMENT_BYTES_MIN), ConfigType.INT] = 1024 * 1024 * 1024
    metadata_log_segment_ms: PositiveLong = _WEEK_MS
    metadata_max_retention_bytes: Unlimited = 100 * 1024 * 1024
    metadata_max_retention_ms: Unlimited = _WEEK_MS
    metadata_log_max_record_bytes_between_snapshots: PositiveLong = 20 * 1024 * 1024
    metadata_log_max_snapshot_bytes: PositiveLong = SNAPSHOT_BYTES_MAX
    """A larger snapshot is neither cut nor fetched, whatever a leader says of its size; ours."""
    metadata_log_max_snapshot_interval_ms: Annotated[NaturalInt, ConfigType.LONG] = 3_600_000

    @property
    def static_voters(self) -> VoterSet:
        """The voters of `controller.quorum.voters`; empty with dynamic voters."""
        return VoterSet.of(
            VoterNode(ReplicaKey(node_id), (Endpoint("CONTROLLER", host, port),))
            for node_id, (host, port) in self.controller_quorum_voters.items()
        )

    @property
    def log_config(self) -> MetadataLogConfig:
        return MetadataLogConfig(
            segment_bytes=self.metadata_log_segment_bytes,
            segment_ms=self.metadata_log_segment_ms,
            retention_bytes=self.metadata_max_retention_bytes,
            retention_ms=self.metadata_max_retention_ms,
            snapshot_bytes_max=self.metadata_log_max_snapshot_bytes,
        )

    def raft_config(self, node_id: int, endpoints: tuple[Endpoint, ...]) -> RaftConfig:
        """`endpoints` is empty for an observer."""
        return RaftConfig(
            key=ReplicaKey(node_id),
            endpoints=endpoints,
            bootstrap_servers=tuple(
                Endpoint("CONTROLLER", host, port) for host, port in self.controller_quorum_bootstrap_servers
            ),
            auto_join=self.controller_quorum_auto_join_enable,
            election_timeout_ms=self.controller_quorum_election_timeout_ms,
            fetch_timeout_ms=self.controller_quorum_fetch_timeout_ms,
            election_backoff_max_ms=self.controller_quorum_election_backoff_max_ms,
            retry_backoff_ms=self.controller_quorum_retry_backoff_ms,
            append_linger_ms=self.controller_quorum_append_linger_ms,
            request_timeout_ms=self.controller_quorum_request_timeout_ms,
            fetch_max_bytes=self.controller_quorum_fetch_max_bytes,
        )

    def replica_config(
        self, node_id: int, directory: Path, endpoints: tuple[Endpoint, ...], *, is_locked: bool = False
    ) -> ReplicaConfig:
        """Return the configuration of a replica in `directory`; `endpoints` is empty for an observer."""
        return ReplicaConfig(
            raft=self.raft_config(node_id, endpoints),
            directory=directory,
            static_voters=self.static_voters,
            log=self.log_config,
            is_locked=is_locked,
        )


class ControllerConfig(ControllerKeys, ClusterKeys, QuorumKeys):
    """All keys of one controller, checked."""

    security_properties: dict[str, str] = Field(default_factory=dict, repr=False)
    """The keys of TLS and SASL as the file has them; `security` is what they say."""

    @property
    def authorizer(self) -> AuthorizerSettings:
        """What decides which requests are allowed. AuthorizerConfigError, which validation raises first."""
        return authorizer_settings(self.security_properties)

    @property
    def security(self) -> NodeSecurity:
        """How the listener and connections are protected. SecurityConfigError, which validation raises first."""
        return controller_security(self.security_properties, self.controller_listener_names[0].upper())

    @property
    def metadata_directory(self) -> Path:
        """The directory of the metadata log: the first of `log.dirs` unless it is said."""
        return self.metadata_log_dir or self.log_dirs[0]

    @property
    def directories(self) -> tuple[Path, ...]:
        """All that formatting marks, the metadata directory first."""
        return tuple(dict.fromkeys((self.metadata_directory, *self.log_dirs)))

    @property
    def listener(self) -> Listener:
        """The controller listener that the quorum uses: the first of `controller.listener.names`."""
        return _named(self.listeners, self.controller_listener_names[0])

    @property
    def endpoint(self) -> Endpoint:
        """Where other nodes find it."""
        name = self.controller_listener_names[0].upper()
        advertised = [item for item in self.advertised_listeners or () if item.name == name]
        listener = advertised[0] if advertised else self.listener
        return Endpoint(listener.name, listener.host, listener.port)

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if "controller" not in self.process_roles:
            raise ValueError("process.roles does not name controller: this is a broker's configuration")
        names = {listener.name for listener in self.listeners}
        if self.controller_listener_names[0].upper() not in names:
            raise ValueError(
                f"controller.listener.names begins with {self.controller_listener_names[0]!r}, which is not among the "
                f"listeners ({', '.join(sorted(names))})"
            )
        self.authorizer  # noqa: B018 - the same
        self.security  # noqa: B018 - raises what is wrong with it
        voters = self.controller_quorum_voters
        if voters and self.controller_quorum_auto_join_enable:
            raise ValueError(
                "controller.quorum.auto.join.enable=true needs voters that are in the log: controller.quorum.voters "
                "makes them static; name the controllers in controller.quorum.bootstrap.servers instead"
            )
        if not voters and not self.controller_quorum_bootstrap_servers:
            raise ValueError("either controller.quorum.voters or controller.quorum.bootstrap.servers must be set")
        if voters and self.node_id not in voters:
            raise ValueError(
                f"node.id={self.node_id} is not among controller.quorum.voters "
                f"({', '.join(map(str, sorted(voters)))}): a controller of a static quorum is one of its voters"
            )
        return self


def _named(listeners: tuple[Listener, ...], name: str) -> Listener:
    return next(listener for listener in listeners if listener.name == name.upper())


CONTROLLER_KEYS: Final = keys_of(ControllerConfig) - {"security.properties", "replica.placement.config"}
_ALIASES: Final = {"broker.id": "node.id", "log.dir": "log.dirs"}


def load_controller_config(path: Path) -> tuple[ControllerConfig, list[str]]:
    """Read a `.properties` file; returns the configuration and warnings. ConfigError names the file."""
    return parse_controller_config(read_properties(path), str(path))


def parse_controller_config(properties: Mapping[str, str], source: str) -> tuple[ControllerConfig, list[str]]:
    """Check properties; `source` names them in messages."""
    values: dict[str, str | dict[str, str]] = {}
    security: dict[str, str] = {}
    placement: dict[str, str] = {}
    warnings: list[str] = []
    ignored: list[str] = []
    for given, value in properties.items():
        key = _ALIASES.get(given, given)
        if key in CONTROLLER_KEYS:
            values.setdefault(key, value)
        elif given.startswith(REPLICA_PLACEMENT.prefix):
            placement[given.removeprefix(REPLICA_PLACEMENT.prefix)] = value
            values["replica.placement.config"] = placement
        elif is_security_key(key):
            values["security.properties"] = security
            security[key] = value
        elif _OF_OTHERS.fullmatch(given):
            warnings.append(f"{source}: key {given!r} has no effect on a controller here")
        else:
            ignored.append(f"{source}: {unknown_key(given, CONTROLLER_KEYS)}")
            warnings.append(ignored[-1])
    return validated(ControllerConfig, values, source, ignored), warnings

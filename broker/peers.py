"""How this broker reaches other brokers: its clients, and the fetcher that it runs for each leader."""

from __future__ import annotations

from dataclasses import field
from random import Random
from typing import Final

from ..fetcher import (
    NO_DETAILS,
    AuxStateBuilder,
    Bootstrapper,
    BootstrapSettings,
    BrokerEndpoint,
    ConfiguredPolicies,
    FetcherConfig,
    ReplicaDetails,
    ReplicaFetcher,
)
from ..fetcher.core import LocalLogStart
from ..light_dataclass import dataclass
from ..protocol import TopicIdPartition
from ..protocol.fetch import HIGH_WATERMARK_UNKNOWN, LOCAL_LOG_START_UNKNOWN
from ..protocol.net import Address, BrokerUnavailableError, ClientLimits, KafkaClient
from ..security import ClientIdentity
from .cluster.topic_config import TopicConfigs
from .cluster.view import ClusterImage, ClusterView
from .config.broker_config import BrokerConfig
from .core.metadata_view import knows_pending_uploads
from .environment import NodeEnvironment
from .replicas.hosted_partitions import HostedPartitions
from .replicas.replication_throttles import Throttle
from .replicas.thin_replicas import ThinReplicas

MS_PER_S: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherFactory:
    """Makes fetchers that share `client` for short requests; each has a connection of its own for fetches.

    `aux_states` is None on a broker without a tier.
    """

    config: BrokerConfig
    environment: NodeEnvironment
    view: ClusterView
    configs: TopicConfigs
    hosted: HostedPartitions
    thin: ThinReplicas
    throttle: Throttle
    client: KafkaClient
    identity: ClientIdentity | None
    aux_states: AuxStateBuilder | None
    policies: ConfiguredPolicies = field(default_factory=ConfiguredPolicies)

    def make(self, leader_id: int) -> ReplicaFetcher:
        """Return a new fetcher from one leader."""
        config, environment = self.config, self.environment
        endpoint = BrokerEndpoint(
            leader_id,
            lambda: address_of(self.view.image, leader_id),
            replica_id=config.node_id,
            replica_epoch=lambda: self.view.broker_epoch,
            fetches=make_client(config, environment.rng, self.identity),
            questions=self.client,
            timeout_s=config.replica_socket_timeout_ms / MS_PER_S,
            details=self._replica_details,
        )
        return ReplicaFetcher(
            endpoint,
            Bootstrapper(lambda: bootstrap_settings(self.configs, self.view.image, self.policies), self.aux_states),
            FetcherConfig(
                wait_max_ms=config.replica_fetch_wait_max_ms,
                min_bytes=config.replica_fetch_min_bytes,
                max_bytes=config.replica_fetch_max_bytes,
                response_max_bytes=config.replica_fetch_response_max_bytes,
                backoff_max_ms=config.replica_fetch_backoff_ms,
            ),
            environment.rng,
            throttle=self.throttle,
            wall_clock=lambda: environment.now_ms() / MS_PER_S,
        )

    def _replica_details(self, key: TopicIdPartition) -> ReplicaDetails:
        """Return what a fetch states beyond Kafka's fields; each only if some reader of the leader acts on it."""
        partition = self.hosted.partitions.get(key.topic_partition)
        if partition is None:
            return NO_DETAILS
        local_log_start_offset = self.thin.local_start_of(partition)
        if local_log_start_offset is None and self.config.replica_selector_class is None:
            return NO_DETAILS
        return ReplicaDetails(
            HIGH_WATERMARK_UNKNOWN
            if self.config.replica_selector_class is None
            else partition.log.state.high_watermark,
            LOCAL_LOG_START_UNKNOWN if local_log_start_offset is None else local_log_start_offset,
        )


def bootstrap_settings(configs: TopicConfigs, image: ClusterImage, policies: ConfiguredPolicies) -> BootstrapSettings:
    """Return the bootstrap's settings as configured now: the option and the policy are dynamic."""
    config = configs.broker_config()
    return BootstrapSettings(
        policy=policies.policy(config.bootstrap_policy, config.bootstrap_properties),
        is_option_enabled=config.follower_fetch_last_tiered_offset_enable,
        is_feature_supported=knows_pending_uploads(image),
    )


def bootstrap_text(config: BrokerConfig) -> str:
    """Describe for the log by which policy empty replicas of tiered topics begin, and why it is not the configured."""
    otherwise = LocalLogStart().name
    if not config.remote_log_storage_system_enable:
        return f"{otherwise}: remote.log.storage.system.enable is false"
    if not config.follower_fetch_last_tiered_offset_enable:
        option = "follower.fetch.last.tiered.offset.enable is false"
        return f"{otherwise}: {option}, and bootstrap.policy={config.bootstrap_policy} does not act until then"
    return config.bootstrap_policy


def address_of(image: ClusterImage, broker_id: int) -> Address:
    """Return where a broker listens. Raise BrokerUnavailableError if it is not registered."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise BrokerUnavailableError(f"broker {broker_id} is not registered")
    return Address(broker.host, broker.port)


def make_client(config: BrokerConfig, rng: Random, identity: ClientIdentity | None) -> KafkaClient:
    """Return a client with connections of its own, protected and identified by `identity`; the caller closes it."""
    # A leader sends a batch whole even where it alone is above what was asked for, and none came in a larger request.
    limits = ClientLimits(response_size_max=config.replica_fetch_response_max_bytes + config.socket_request_max_bytes)
    return KafkaClient(client_id=f"tierfetch-broker-{config.node_id}", random=rng, identity=identity, limits=limits)

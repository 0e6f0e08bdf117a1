"""One broker, composed: what it consists of, in which order that starts, and in which order it stops.

    start                                             stop, the other way round
    ------------------------------------------------  ---------------------------------------------------------------
    disk                                              threads end
    cluster view: the first image                     polling ends
    log directories: locked, identified               everything durable, clean-shutdown marker
    plugins of the tier, remote log manager           tasks cancelled: what they were copying is swept by the next
    listener: bound, so that its port is known        what is under way is answered, at most `CLOSE_DEADLINE_S`
    registration in the cluster view                  the broker epoch is noted for the clean-shutdown marker
    logs: recovered; their upkeep                     -
    partitions: roles, fetchers                       fetchers end their local effects, leaderships end
    listener: accepts
    the cluster counts on this broker                 others take over what it leads
    metrics                                           scrapes are cut off

Whoever connects earlier is refused, and tries again: a broker that does not find itself in its own metadata misleads
clients. No log is opened earlier: an image that has this registration has all that was decided before it, while the
first image may be an old one (a metadata log that lost its tail, or its disk), and a log that is not known to be tiered
would be opened without what the tier holds. A start that fails stops what was started.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

from prometheus_client.metrics_core import Metric

from ..fetcher.bootstrap_runner import Bootstrapper, BootstrapSettings
from ..fetcher.core.policies import bootstrap_policy
from ..fetcher.replica_fetcher import FetcherConfig, ReplicaFetcher
from ..log.cleaner.cleaner import CleanerSettings
from ..log.keeper.log_directory import HeldLock
from ..log.keeper.manager import LogManager
from ..log.keeper.upkeep import UpkeepSettings
from ..protocol.api import ApiKey
from ..protocol.authorization.gate import for_brokers_only, guarded
from ..protocol.errors import OUTSIDE, OperatorError
from ..protocol.fetch.messages import HIGH_WATERMARK_NOT_TOLD, LOCAL_LOG_START_NOT_TOLD
from ..protocol.net.client import Address, BrokerUnavailableError, KafkaClient
from ..protocol.net.dispatch import Handlers
from ..protocol.net.server import Server, ServerLimits
from ..protocol.net.service import Service, cancelled
from ..protocol.start_waits import StartWaits
from ..protocol.topics import TopicIdPartition, TopicPartition
from ..rlm.manager import RemoteLogManager
from ..security.authorizer import Authorizer, StandardAuthorizer
from ..security.client import ClientIdentity, open_client
from ..security.listener import open_listener
from .cluster.lifecycle import LifecycleTimes
from .cluster.quorum_view import QuorumClusterView
from .cluster.topic_config import TopicConfigs
from .cluster.view import BrokerRegistration, EndPoint
from .config.broker_config import BrokerConfig, Listener
from .core.metadata_view import knows_pending_uploads
from .environment import NodeEnvironment
from .groups.coordinator import GroupCoordinator
from .groups.settings import coordinator_settings
from .handlers.log_dirs import LogDirHandler
from .handlers.table import HandlerServices, handler_table
from .handlers.versions import VersionsHandler
from .listener_reload import ListenerReload
from .metrics import BrokerMetrics, RequestTimes
from .metrics_endpoint import MetricsEndpoint
from .replicas.fetcher_pool import FetcherPool
from .replicas.hosted_partitions import HostedPartitions
from .replicas.leader_endpoint import NO_DETAILS, BrokerEndpoint, ReplicaDetails
from .replicas.leadership import monotonic_ms
from .replicas.manager import ReplicaManager
from .replicas.partition import PartitionServices
from .replicas.replication_throttles import ReplicationThrottles
from .replicas.thin_replicas import ThinReplicas, WarmingLimits
from .replicas.warmer import Warmer, WarmerSettings
from .shared_lock import SharedLocks
from .tier import Tier

CLOSE_DEADLINE_S: Final = 10.0

_log = logging.getLogger(__name__)


class StartError(OperatorError):
    """The broker cannot start; the message is for its operator."""


class Broker(Service):
    """`async with Broker(config) as broker:` has it serving, on the machine that `environment` stands for."""

    def __init__(
        self, config: BrokerConfig, environment: NodeEnvironment | None = None, waits: StartWaits | None = None
    ) -> None:
        """`waits`: those of the whole, where this is a part of another service."""
        super().__init__()
        self.waits = waits or self.waits
        self.config = config
        self._environment = environment or NodeEnvironment()
        self.disk = self._environment.disk
        self._rng = self._environment.rng
        self._locks = SharedLocks(self._environment.lock_directory)
        self._upkeep: asyncio.Task[None] | None = None
        self.more_metrics: Callable[[], Iterable[Metric]] = tuple
        """Of what else runs in this process, for its one endpoint."""

    @property
    def failed(self) -> asyncio.Future[str] | None:
        """Done, with the reason, when this broker cannot go on; None where nothing of that kind can happen."""
        return self.view.failed if isinstance(self.view, QuorumClusterView) else None

    @property
    def address(self) -> Address:
        """The address of the inter-broker listener, as it is advertised."""
        end_point = self._end_point(self.config.inter_broker_listener)
        return Address(end_point.host, end_point.port)

    def _end_point(self, listener: Listener) -> EndPoint:
        """Return what clients and other brokers are given for a listener, with the port that is really bound."""
        advertised = self.config.advertised(listener)
        protocol = self.config.security.listeners[listener.name].protocol
        return EndPoint(listener.name, advertised.host, advertised.port or self.servers[listener.name].port, protocol)

    async def start(self) -> None:
        """StartError if it cannot serve."""
        try:
            await super().start()
        except (*OUTSIDE, OperatorError) as error:
            raise StartError(f"broker {self.config.node_id} cannot start: {error}") from error

    async def _start(self) -> None:
        config, stack = self.config, self._stack
        self._to_brokers = open_client(config.security.to_brokers)
        stack.push_async_callback(self.disk.close)
        self.view = self._environment.cluster_view or make_quorum_view(
            config, self._environment, self._locks.lock, self.waits
        )
        stack.push_async_callback(self.view.close)
        await self.view.start()
        self.configs = TopicConfigs(self.view, config)
        self.throttles = ReplicationThrottles(self.view, self.configs, config.node_id, asyncio.get_running_loop().time)
        self.logs = await self._identify_logs()
        self.hosted = HostedPartitions(self.view)
        self._requests = RequestTimes()
        self._questions = self._make_client()
        stack.push_async_callback(self._questions.close)
        self.tier = await self._open_tier()
        self.groups = await self._coordinate_groups()
        self.servers = await self._listen()
        self.server = self.servers[config.inter_broker_listener.name]
        reload = ListenerReload(config, self.servers)
        reload.apply(self.view.image)
        self.view.subscribe(reload.on_image)
        await self._register()
        await self._open_logs()
        await self._host_partitions()
        for server in self.servers.values():
            await server.serve()
        stack.push_async_callback(self.view.leave)
        await self.view.serve()
        if config.metrics_port is not None:
            await self._serve_metrics(config.metrics_host, config.metrics_port)
        _log.info("broker %d serves %s with cluster %s", config.node_id, self.address, self.view.image.cluster_id)

    async def _identify_logs(self) -> LogManager:
        config = self.config
        logs = LogManager(
            config.log_dirs,
            self.disk,
            cluster_id=self.view.image.cluster_id,
            node_id=config.node_id,
            config_of=self.configs.config_of,
            directory_of=self._directory_of,
            rng=self._rng,
            now_ms=self._environment.now_ms,
            lock=self._locks.lock,
            upkeep=UpkeepSettings(
                checkpoint_interval_ms=config.replica_high_watermark_checkpoint_interval_ms,
                retention_check_interval_ms=config.log_retention_check_interval_ms,
                cleaner=CleanerSettings(
                    enabled=config.log_cleaner_enable,
                    backoff_ms=config.log_cleaner_backoff_ms,
                    dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
                    io_bytes_per_second_max=config.log_cleaner_io_max_bytes_per_second,
                ),
            ),
        )
        self._stack.push_async_callback(logs.close)
        self._stack.push_async_callback(self._end_upkeep)
        await logs.identify()
        return logs

    async def _open_logs(self) -> None:
        with self.waits.waiting("its logs to be recovered"):
            await self.logs.load()
        self._upkeep = asyncio.create_task(self.logs.upkeep.run(), name="log-upkeep")

    async def _end_upkeep(self) -> None:
        if self._upkeep is not None:
            await cancelled(self._upkeep)

    def _directory_of(self, partition: TopicPartition) -> UUID | None:
        registration = self.view.image.partition(partition)
        return None if registration is None else registration.directory_of(self.config.node_id)

    async def _open_tier(self) -> Tier | None:
        if not self.config.remote_log_storage_system_enable:
            return None
        tier = await Tier.open(
            self.config, self._environment, self.view, self._questions, self._make_client, self._give_up
        )
        self._stack.push_async_callback(tier.close)
        return tier

    def _give_up(self, reason: str) -> None:
        if isinstance(self.view, QuorumClusterView):
            self.view.lifecycle.fail(reason)

    async def _coordinate_groups(self) -> GroupCoordinator:
        groups = GroupCoordinator(self.view, coordinator_settings(self.config), self._rng, self._environment.now_ms)
        self._stack.push_async_callback(groups.close)
        await groups.start()
        return groups

    async def _listen(self) -> dict[str, Server]:
        """Bind every listener; all of them serve the same requests."""
        config = self.config
        self._log_dirs = LogDirHandler(self.logs, self.disk)
        services = HandlerServices(
            config=config,
            view=self.view,
            hosted=self.hosted,
            rng=self._rng,
            now_ms=self._environment.now_ms,
            groups=self.groups,
            remote_reads=self.tier.reads if self.tier is not None else None,
            remote_offsets=self.tier.offsets if self.tier is not None else None,
            controllers=self.view.channel if isinstance(self.view, QuorumClusterView) else None,
            log_dirs=self._log_dirs,
            throttles=self.throttles,
            is_ongoing=self._environment.is_ongoing,
            broker_listener=config.inter_broker_listener.name if len(config.listeners) > 1 else None,
        )
        table = for_brokers_only(handler_table(services), services.broker_listener)
        handlers = self._requests.timed(
            guarded(table, self._authorizer(), lambda item: self.view.image.topic_names.get(item))
        )
        return {listener.name: await self._bind(listener, handlers) for listener in config.listeners}

    def _authorizer(self) -> Authorizer | None:
        settings = self.config.authorizer
        if not settings.is_configured:
            return None
        return StandardAuthorizer(settings.rules, lambda: self.view.image.acls, asyncio.get_running_loop().time)

    async def _bind(self, listener: Listener, handlers: Handlers) -> Server:
        config = self.config
        settings = config.security.listeners[listener.name]
        server = Server(
            handlers,
            listener_name=listener.name,
            limits=ServerLimits(
                connections_max=config.max_connections,
                request_size_max=config.socket_request_max_bytes,
                idle_timeout_s=config.connections_max_idle_ms / 1000,
                send_buffer_size=config.socket_send_buffer_bytes if config.socket_send_buffer_bytes >= 0 else None,
            ),
            identity=await open_listener(settings, lambda: self.view.image.scram, listener.host),
        )
        if isinstance(self.view, QuorumClusterView):
            versions = VersionsHandler(
                self.view,
                lambda: server.handlers,
                self.view.replayed_offset,
                self.view.incarnation_id,
                self.view.kraft_version,
            )
            server.handlers[ApiKey.API_VERSIONS] = versions.api_versions
        self._stack.push_async_callback(server.close, deadline_s=CLOSE_DEADLINE_S)
        await server.bind(listener.host, listener.port)
        return server

    async def _register(self) -> None:
        """Announce the endpoint, with the port that is really bound, and the directories."""
        registration = BrokerRegistration(
            self.config.node_id,
            self.address.host,
            self.address.port,
            self.config.broker_rack,
            self.logs.directory_ids,
            epoch=self.logs.previous_broker_epoch,
            end_points=tuple(map(self._end_point, self.config.listeners)),
        )
        if isinstance(self.view, QuorumClusterView):
            self.view.lifecycle.offline_directories = lambda: self.logs.offline_directory_ids
        await self.view.register(registration)
        self._stack.callback(self._note_broker_epoch)

    def _note_broker_epoch(self) -> None:
        """For the next run: it comes back to the cluster as the one that left in order."""
        self.logs.broker_epoch = self.view.broker_epoch

    async def _host_partitions(self) -> None:
        config = self.config
        services = PartitionServices(
            node_id=config.node_id,
            view=self.view,
            rng=self._rng,
            now_ms=self._environment.now_ms,
            lag_time_max_ms=config.replica_lag_time_max_ms,
        )
        self.thin = ThinReplicas(
            monotonic_ms,
            self.hosted.partitions,
            WarmingLimits(config.thin_replica_warm_bytes, config.thin_replica_warm_ms),
        )
        self.fetchers = FetcherPool(self._make_fetcher, config.num_replica_fetchers)
        self._log_dirs.warm_in_ms, self._log_dirs.out_of_service = self.thin.warm_in_ms, self.hosted.out_of_service
        manager = ReplicaManager(
            self.hosted,
            services,
            self.configs,
            self.logs,
            self.fetchers,
            self.tier.manager if self.tier is not None else None,
            self.groups,
            self.thin,
        )
        self._stack.push_async_callback(manager.close)
        await manager.start()
        if isinstance(self.view, QuorumClusterView):
            lifecycle = self.view.lifecycle
            lifecycle.thin_replicas, self.thin.on_change = self.thin.report, lifecycle.report_soon

            def tell_offline() -> None:
                lifecycle.report()
                manager.try_again()

            self.logs.upkeep.on_offline = tell_offline
        if self.tier is not None:
            await self._warm(self.tier.manager)

    async def _warm(self, tier: RemoteLogManager) -> None:
        warmer = Warmer(self.thin, tier, self._warmer_settings, self._rng, self._environment.now_ms)
        self._log_dirs.warming = lambda: warmer.progress
        task = asyncio.create_task(warmer.run(), name="warmer")
        self._stack.push_async_callback(cancelled, task)

    def _warmer_settings(self) -> WarmerSettings:
        config = self.configs.broker_config()
        return WarmerSettings(config.thin_replica_warmer_enable, config.thin_replica_warmer_max_bytes_per_second)

    async def _serve_metrics(self, host: str, port: int) -> None:
        tier = self.tier.manager if self.tier is not None else None
        metrics = BrokerMetrics(
            self.hosted,
            self.fetchers,
            tier,
            self.groups,
            self.logs.upkeep.cleaner,
            self.disk,
            self.server,
            self._requests,
        )
        endpoint = MetricsEndpoint(lambda: chain(metrics.families(), self.more_metrics()))
        self._stack.push_async_callback(endpoint.close)
        await endpoint.start(host, port)

    def _make_client(self) -> KafkaClient:
        return make_client(self.config, self._rng, self._to_brokers)

    def _make_fetcher(self, leader_id: int) -> ReplicaFetcher:
        config = self.config
        endpoint = BrokerEndpoint(
            leader_id,
            lambda: self._address_of(leader_id),
            replica_id=config.node_id,
            replica_epoch=lambda: self.view.broker_epoch,
            fetches=self._make_client(),
            questions=self._questions,
            timeout_s=config.replica_socket_timeout_ms / 1000,
            details=self._replica_details,
        )
        bootstrapper = Bootstrapper(self._bootstrap_settings, self.tier.aux_states if self.tier is not None else None)
        return ReplicaFetcher(
            endpoint,
            bootstrapper,
            FetcherConfig(
                wait_max_ms=config.replica_fetch_wait_max_ms,
                min_bytes=config.replica_fetch_min_bytes,
                max_bytes=config.replica_fetch_max_bytes,
                response_max_bytes=config.replica_fetch_response_max_bytes,
                backoff_max_ms=config.replica_fetch_backoff_ms,
            ),
            self._rng,
            throttle=self.throttles.follower,
            wall_clock=lambda: self._environment.now_ms() / 1000,
        )

    def _replica_details(self, key: TopicIdPartition) -> ReplicaDetails:
        partition = self.hosted.partitions.get(key.topic_partition)
        if partition is None:
            return NO_DETAILS
        local_log_start_offset = self.thin.local_start_of(partition)
        if local_log_start_offset is None and self.config.replica_selector_class is None:
            return NO_DETAILS
        return ReplicaDetails(
            HIGH_WATERMARK_NOT_TOLD if self.config.replica_selector_class is None else partition.log.high_watermark,
            LOCAL_LOG_START_NOT_TOLD if local_log_start_offset is None else local_log_start_offset,
        )

    def _bootstrap_settings(self) -> BootstrapSettings:
        """As configured now: the option and the policy are dynamic."""
        config = self.configs.broker_config()
        return BootstrapSettings(
            policy=bootstrap_policy(
                config.bootstrap_policy,
                local_bytes_min=max(0, config.bootstrap_bounded_local_bytes),
                local_ms_min=max(0, config.bootstrap_bounded_local_ms),
            ),
            is_option_enabled=config.follower_fetch_last_tiered_offset_enable,
            is_feature_supported=knows_pending_uploads(self.view.image),
        )

    def _address_of(self, broker_id: int) -> Address:
        broker = self.view.image.brokers.get(broker_id)
        if broker is None:
            raise BrokerUnavailableError(f"broker {broker_id} is not registered")
        return Address(broker.host, broker.port)


def make_client(config: BrokerConfig, rng: Random, identity: ClientIdentity | None) -> KafkaClient:
    """Return a client for connections to other nodes, which are protected and identified by `identity`."""
    return KafkaClient(client_id=f"tierfetch-broker-{config.node_id}", random=rng, identity=identity)


def make_quorum_view(
    config: BrokerConfig, environment: NodeEnvironment, lock: Callable[[Path], HeldLock], waits: StartWaits
) -> QuorumClusterView:
    """The view of a broker under controllers."""
    identity = open_client(config.security.to_controllers)
    return QuorumClusterView(
        config,
        node_id=config.node_id,
        listener_name=config.inter_broker_listener.name,
        directory=config.log_dirs[0],
        disk=environment.disk,
        rng=environment.rng,
        now_ms=environment.now_ms,
        lock=lock,
        make_client=lambda: make_client(config, environment.rng, identity),
        identity=identity,
        times=LifecycleTimes(
            heartbeat_interval_s=config.broker_heartbeat_interval_ms / 1000,
            registration_s=config.initial_broker_registration_timeout_ms / 1000,
            leaving_s=config.controlled_shutdown_timeout_ms / 1000,
        ),
        request_timeout_s=config.request_timeout_ms / 1000,
        waits=waits,
    )

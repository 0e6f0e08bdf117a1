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

A client that connects earlier is refused, and tries again: a broker that does not find itself in its own metadata
misleads clients. No log is opened earlier: an image that has this registration has all that was decided before it,
while the first image may be an old one (a metadata log that lost its tail, or its disk), and a log that is not known to
be tiered would be opened without what the tier holds.

A `Broker` exists only while it serves: `open_broker` makes it whole, or stops what was started and raises StartError.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final
from uuid import UUID

from prometheus_client.metrics_core import Metric

from ..fetcher import load_bootstrap_policy
from ..light_dataclass import dataclass
from ..log.cleaner import CleanerSettings
from ..log.keeper import LogManager, LogServices, UpkeepSettings
from ..protocol import OUTSIDE, ApiKey, OperatorError, StartWaits, TopicPartition
from ..protocol.authorization import for_brokers_only, guarded
from ..protocol.net import Address, Handlers, KafkaClient, Server, ServerLimits, cancelled, monotonic_ms
from ..security import Authorizer, StandardAuthorizer, open_client, open_listener
from .cluster.lifecycle import LifecycleTimes
from .cluster.quorum_view import QuorumClusterView, QuorumViewConfig
from .cluster.topic_config import TopicConfigs
from .cluster.view import BrokerRegistration, ClusterView, EndPoint, share_version
from .config.broker_config import BrokerConfig, Listener
from .environment import NodeDisk, NodeEnvironment
from .groups.coordinator import GroupCoordinator
from .groups.settings import coordinator_settings
from .handlers.log_dirs import LogDirHandler
from .handlers.offsets import OffsetHandlers
from .handlers.table import HandlerServices, handler_table
from .handlers.txn_markers import TransactionMarkerHandler
from .handlers.versions import VersionsHandler
from .listener_reload import ListenerReload
from .metadata_topic import BrokerMetadataTopic
from .metrics import (
    RequestTimes,
    copy_lag_metrics,
    fetcher_metrics,
    follower_metrics,
    group_metrics,
    hosting_metrics,
    log_metrics,
    move_metrics,
    partition_metrics,
    server_metrics,
    thin_metrics,
    tier_metrics,
)
from .metrics_endpoint import monitoring_endpoint
from .node_process import process_metrics
from .peers import FetcherFactory, address_of, bootstrap_text, make_client
from .quotas.clients import BrokerQuotas
from .quotas.metrics import quota_families
from .replicas.directory_moves import DirectoryMoves
from .replicas.fetcher_pool import FetcherPool
from .replicas.hosted_partitions import HostedPartitions
from .replicas.leadership import PartitionServices
from .replicas.manager import ReplicaManager
from .replicas.partition import RoleListeners
from .replicas.replica_directories import ReplicaDirectories
from .replicas.replication_throttles import ReplicationThrottles
from .replicas.thin_replicas import ThinReplicas, WarmingLimits
from .replicas.warmer import Warmer, WarmerSettings
from .share.coordinated import CoordinatedPersister
from .share.parts import ShareGroups
from .share.settings import ShareLimits, group_settings
from .share_state.client import ShareStateClient
from .share_state.coordinator import ShareCoordinator
from .share_state.settings import share_state_settings
from .shared_lock import SharedLocks
from .tier import Tier, open_tier
from .transactions.parts import Brokers, Transactions
from .transactions.settings import transaction_settings

CLOSE_DEADLINE_S: Final = 10.0

_log = logging.getLogger(__name__)


class StartError(OperatorError):
    """The broker cannot start; the message is for its operator."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Broker:
    """A broker that serves. `tier` is None without a remote storage system, `quorum` where no controllers are."""

    config: BrokerConfig
    disk: NodeDisk
    view: ClusterView
    quorum: QuorumClusterView | None
    configs: TopicConfigs
    logs: LogManager
    hosted: HostedPartitions
    thin: ThinReplicas
    moves: DirectoryMoves
    fetchers: FetcherPool
    tier: Tier | None
    groups: GroupCoordinator
    transactions: Transactions
    shares: ShareCoordinator
    servers: Mapping[str, Server]
    """The listeners by name; all of them serve the same requests."""

    @property
    def failed(self) -> asyncio.Future[str] | None:
        """Done, with the reason, when this broker must stop; None where nothing of that kind can happen."""
        return None if self.quorum is None else self.quorum.failed

    @property
    def server(self) -> Server:
        """The inter-broker listener."""
        return self.servers[self.config.inter_broker_listener.name]

    @property
    def address(self) -> Address:
        """The address of the inter-broker listener, as it is advertised."""
        end_point = advertised_end_point(self.config, self.config.inter_broker_listener, self.servers)
        return Address(end_point.host, end_point.port)


def advertised_end_point(config: BrokerConfig, listener: Listener, servers: Mapping[str, Server]) -> EndPoint:
    """Return what clients and other brokers are given for a listener, with the port that is really bound."""
    advertised, protocol = config.advertised(listener), config.security.listeners[listener.name].protocol
    return EndPoint(listener.name, advertised.host, advertised.port or servers[listener.name].port, protocol)


def no_broker(_: Broker) -> None:
    """Do nothing about the broker, which is about to host partitions."""


def no_metrics() -> Iterable[Metric]:
    """Return nothing: the broker is alone in its process."""
    return ()


@asynccontextmanager
async def open_broker(
    config: BrokerConfig,
    environment: NodeEnvironment | None = None,
    *,
    waits: StartWaits | None = None,
    more_metrics: Callable[[], Iterable[Metric]] = no_metrics,
    on_hosting: Callable[[Broker], None] = no_broker,
) -> AsyncIterator[Broker]:
    """Run a broker on the machine that `environment` stands for. Raise StartError if it cannot serve.

    `waits` say what the start waits for; `more_metrics` are those of the rest of the process, for its one endpoint.
    `on_hosting` is called before partitions are hosted: the broker may lead some while its start still waits to hear
    that it is unfenced.
    """
    try:
        broker, running = await _start(
            config, environment or NodeEnvironment(), waits or StartWaits(), more_metrics, on_hosting
        )
    except (*OUTSIDE, OperatorError) as error:
        raise StartError(f"broker {config.node_id} cannot start: {error}") from error
    async with running:
        yield broker


async def _start(
    config: BrokerConfig,
    environment: NodeEnvironment,
    waits: StartWaits,
    more_metrics: Callable[[], Iterable[Metric]],
    on_hosting: Callable[[Broker], None],
) -> tuple[Broker, AsyncExitStack]:
    """Return the broker, and the stack that stops it."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(environment.disk.close)
        hang_ms = config.log_dir_hang_timeout_ms
        for directory in config.log_dirs:  # before the view: the first one has the metadata log too
            environment.disk.separate(directory, hang_s=hang_ms / 1000 if hang_ms else None)
        environment = replace(environment, lock_directory=SharedLocks(environment.lock_directory).lock)
        view = environment.cluster_view or make_quorum_view(config, environment, waits)
        stack.push_async_callback(view.close)
        await view.start()
        broker = await _Composition(config, environment, waits, view, stack).compose(more_metrics, on_hosting)
        _log.info("broker %d serves %s with cluster %s", config.node_id, broker.address, view.image.cluster_id)
        return broker, stack.pop_all()


class _Composition:
    """Makes the parts of one broker around its cluster view, and puts on `stack` how each is stopped."""

    def __init__(
        self,
        config: BrokerConfig,
        environment: NodeEnvironment,
        waits: StartWaits,
        view: ClusterView,
        stack: AsyncExitStack,
    ) -> None:
        self._config = config
        self._environment = environment
        self._waits = waits
        self._view = view
        self._quorum = view if isinstance(view, QuorumClusterView) else None
        self._stack = stack
        self._to_brokers = open_client(config.security.to_brokers)
        self._configs = TopicConfigs(view, config)
        self._throttles = ReplicationThrottles(view, self._configs, config.node_id, asyncio.get_running_loop().time)
        self._quotas = BrokerQuotas(
            lambda: view.image.quotas,
            samples=config.quota_window_num,
            window_s=config.quota_window_size_seconds,
            broker_listener=config.broker_listener,
        )
        self._hosted = HostedPartitions(view)
        self._thin = ThinReplicas(
            monotonic_ms,
            self._hosted.partitions,
            WarmingLimits(config.thin_replica_warm_bytes, config.thin_replica_warm_ms),
        )

    async def compose(
        self, more_metrics: Callable[[], Iterable[Metric]], on_hosting: Callable[[Broker], None]
    ) -> Broker:
        """Start every part in the order of the module's table."""
        config, environment, stack = self._config, self._environment, self._stack
        logs = self._make_logs()
        stack.push_async_callback(logs.close)
        upkeep = await stack.enter_async_context(AsyncExitStack())
        await logs.identify()
        self._moves = self._make_moves(logs)
        requests = RequestTimes()
        client = self._make_client()
        stack.push_async_callback(client.close)
        tier = await self._open_tier(client)
        groups = self._groups = GroupCoordinator(
            self._view, coordinator_settings(config), environment.rng, environment.now_ms
        )
        stack.push_async_callback(groups.close)
        await groups.start()
        transactions = self._make_transactions(groups, client)
        self._make_share_groups(client, tier)
        warmer = self._make_warmer(tier)
        servers = await self._listen(logs, tier, warmer, requests)
        reload = ListenerReload(config, servers)
        reload.apply(self._view.image)
        self._view.subscribe(reload.on_image)
        await self._register(logs, servers)
        with self._waits.waiting("its logs to be recovered"):
            await logs.load()
        upkeep.push_async_callback(cancelled, asyncio.create_task(logs.upkeep.run(), name="log-upkeep"))
        fetchers = FetcherPool(self._fetcher_factory(client, tier).make, config.num_replica_fetchers)
        broker = Broker(
            config=config,
            disk=environment.disk,
            view=self._view,
            quorum=self._quorum,
            configs=self._configs,
            logs=logs,
            hosted=self._hosted,
            thin=self._thin,
            moves=self._moves,
            fetchers=fetchers,
            tier=tier,
            groups=groups,
            transactions=transactions,
            shares=self._shares,
            servers=servers,
        )
        on_hosting(broker)
        if config.metrics_port is not None:
            await self._serve_metrics(broker, warmer, requests, more_metrics, config.metrics_port)
        await self._host_partitions(logs, fetchers, tier, self._roles())
        if warmer is not None:
            stack.push_async_callback(cancelled, asyncio.create_task(warmer.run(), name="warmer"))
        for server in servers.values():
            await server.serve()
        stack.push_async_callback(self._view.leave)
        await self._view.serve()
        return broker

    def _roles(self) -> RoleListeners:
        """Return what begins and ends with leaderships."""
        return RoleListeners(self._groups, self._transactions.coordinator, self._shares, self._share.partitions)

    def _make_client(self) -> KafkaClient:
        return make_client(self._config, self._environment.rng, self._to_brokers)

    # Logs.

    def _make_logs(self) -> LogManager:
        config, environment = self._config, self._environment
        return LogManager(
            config.log_dirs,
            LogServices(
                disk=environment.disk,
                rng=environment.rng,
                now_ms=environment.now_ms,
                config_of=self._configs.config_of,
                lock=environment.lock_directory,
                free_bytes_min=config.log_dir_free_bytes_min,
            ),
            cluster_id=self._view.image.cluster_id,
            node_id=config.node_id,
            directory_of=self._directory_of,
            upkeep=UpkeepSettings(
                checkpoint_interval_ms=config.replica_high_watermark_checkpoint_interval_ms,
                retention_check_interval_ms=config.log_retention_check_interval_ms,
                producer_expiration_ms=config.producer_id_expiration_ms,
                cleaner=CleanerSettings(
                    enabled=config.log_cleaner_enable,
                    backoff_ms=config.log_cleaner_backoff_ms,
                    dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
                    io_bytes_per_second_max=config.log_cleaner_io_max_bytes_per_second,
                ),
            ),
        )

    def _directory_of(self, partition: TopicPartition) -> UUID | None:
        registration = self._view.image.partition(partition)
        return None if registration is None else registration.directory_of(self._config.node_id)

    def _make_moves(self, logs: LogManager) -> DirectoryMoves:
        config = self._config
        return DirectoryMoves(
            self._hosted,
            logs,
            ReplicaDirectories(self._view, logs, config.node_id),
            config.node_id,
            moves_max=config.num_replica_alter_log_dirs_threads or len(config.log_dirs),
            bytes_per_second=lambda: self._configs.broker_config().replica_alter_log_dirs_io_max_bytes_per_second,
        )

    # The tier.

    async def _open_tier(self, client: KafkaClient) -> Tier | None:
        if not self._config.remote_log_storage_system_enable:
            return None
        config, environment = self._config, self._environment
        topic = BrokerMetadataTopic(
            self._view, client, self._make_client, environment.now_ms, timeout_s=config.request_timeout_ms / 1000
        )
        opened = open_tier(config, environment, topic, self._give_up, self._configs.broker_config)
        return await self._stack.enter_async_context(opened)

    def _give_up(self, reason: str) -> None:
        if self._quorum is not None:
            self._quorum.lifecycle.fail(reason)

    def _make_warmer(self, tier: Tier | None) -> Warmer | None:
        if tier is None:
            return None
        environment = self._environment
        return Warmer(self._thin, tier.manager, self._warmer_settings, environment.rng, environment.now_ms)

    def _warmer_settings(self) -> WarmerSettings:
        config = self._configs.broker_config()
        return WarmerSettings(config.thin_replica_warmer_enable, config.thin_replica_warmer_max_bytes_per_second)

    # Transactions.

    def _make_transactions(self, groups: GroupCoordinator, client: KafkaClient) -> Transactions:
        config, environment = self._config, self._environment
        self._markers = TransactionMarkerHandler(self._hosted, groups, environment.now_ms)
        transactions = self._transactions = Transactions(
            self._view,
            transaction_settings(config),
            Brokers(config.node_id, client, self._make_client, address_of),
            self._markers.write,
            environment.rng,
            environment.now_ms,
        )
        self._stack.push_async_callback(transactions.close)
        return transactions

    # Share groups.

    def _make_share_states(self, client: KafkaClient) -> ShareStateClient:
        environment = self._environment
        shares = self._shares = ShareCoordinator(
            self._view, share_state_settings(self._config), environment.rng, environment.now_ms
        )
        self._stack.push_async_callback(shares.close)
        timeout_s = self._config.request_timeout_ms / 1000
        states = ShareStateClient(shares, client, environment.rng, timeout_s=timeout_s)
        self._groups.use(states)
        return states

    def _make_share_groups(self, client: KafkaClient, tier: Tier | None) -> None:
        config, environment = self._config, self._environment
        states = self._make_share_states(client)
        share = self._share = ShareGroups(
            self._hosted,
            environment.share_persister or CoordinatedPersister(states),
            lambda: environment.share_persister is not None or share_version(self._view) > 0,
            lambda group_id: group_settings(config, self._view.image.group_configs.get(group_id, {})),
            ShareLimits(sessions_max=config.group_share_max_share_sessions, response_bytes_max=config.fetch_max_bytes),
            OffsetHandlers(
                self._hosted,
                None if tier is None else tier.offsets,
                search_timeout_ms=config.remote_list_offsets_request_timeout_ms,
            ),
            None if tier is None else tier.reads,
            self._quotas,
            environment.now_ms,
        )
        self._stack.push_async_callback(share.close)

    # Requests.

    async def _listen(
        self,
        logs: LogManager,
        tier: Tier | None,
        warmer: Warmer | None,
        requests: RequestTimes,
    ) -> dict[str, Server]:
        """Return the listeners, bound and not accepting yet. All of them serve the same requests."""
        config, quorum = self._config, self._quorum
        log_dirs = LogDirHandler(
            logs,
            self._environment.disk,
            warming=dict if warmer is None else (lambda: warmer.progress),
            warm_in_ms=self._thin.warm_in_ms,
            out_of_service=lambda: self._hosted.out_of_service() | self._hosted.refusing_produce(),
            tier_errors=dict if tier is None else tier.manager.errors,
            move=self._moves.request,
        )
        services = HandlerServices(
            config=config,
            view=self._view,
            hosted=self._hosted,
            rng=self._environment.rng,
            now_ms=self._environment.now_ms,
            groups=self._groups,
            transactions=self._transactions,
            shares=self._shares,
            markers=self._markers,
            remote_reads=None if tier is None else tier.reads,
            remote_offsets=None if tier is None else tier.offsets,
            controllers=None if quorum is None else quorum.channel,
            log_dirs=log_dirs,
            throttles=self._throttles,
            share_records=self._share.handlers,
            quotas=self._quotas,
            is_ongoing=self._environment.is_ongoing,
            broker_listener=config.broker_listener,
        )
        table = for_brokers_only(handler_table(services), services.broker_listener)
        guard = guarded(table, self._authorizer(), lambda item: self._view.image.topic_names.get(item))
        handlers = requests.timed(self._quotas.limited(guard))
        return {listener.name: await self._bind(listener, handlers) for listener in config.listeners}

    def _authorizer(self) -> Authorizer | None:
        settings = self._config.authorizer
        if not settings.is_configured:
            return None
        return StandardAuthorizer(settings.rules, lambda: self._view.image.acls, asyncio.get_running_loop().time)

    async def _bind(self, listener: Listener, handlers: Handlers) -> Server:
        config, quorum = self._config, self._quorum
        settings = config.security.listeners[listener.name]
        server = Server(
            handlers,
            listener_name=listener.name,
            limits=ServerLimits(
                connections_max=config.max_connections,
                connections_per_ip_max=config.max_connections_per_ip,
                connection_rate_max=config.max_connection_creation_rate,
                request_memory_max=config.queued_max_request_bytes,
                request_size_max=config.socket_request_max_bytes,
                idle_timeout_s=config.connections_max_idle_ms / 1000,
                send_buffer_size=config.socket_send_buffer_bytes if config.socket_send_buffer_bytes >= 0 else None,
            ),
            identity=await open_listener(settings, lambda: self._view.image.scram, listener.host),
        )
        server.address_quota = self._quotas.accept
        server.connection_watcher = self._share.connection_watcher(listener.name)
        if quorum is not None:
            versions = VersionsHandler(
                quorum, lambda: server.handlers, quorum.replayed_offset, quorum.incarnation_id, quorum.kraft_version
            )
            server.handlers[ApiKey.API_VERSIONS] = versions.api_versions
        server.handlers |= self._quotas.limited({ApiKey.API_VERSIONS: server.handlers[ApiKey.API_VERSIONS]})
        self._stack.push_async_callback(server.close, deadline_s=CLOSE_DEADLINE_S)
        await server.bind(listener.host, listener.port)
        return server

    async def _serve_metrics(
        self,
        broker: Broker,
        warmer: Warmer | None,
        requests: RequestTimes,
        more: Callable[[], Iterable[Metric]],
        port: int,
    ) -> None:
        def families() -> Iterator[Metric]:
            tier = None if broker.tier is None else broker.tier.manager
            yield from hosting_metrics(broker.hosted)
            yield from fetcher_metrics(broker.fetchers)
            if warmer is not None:
                yield from thin_metrics(broker.thin, warmer.progress)
            if tier is not None:
                yield from tier_metrics(tier, broker.hosted)
            if self._config.metrics_partitions == "all":
                yield from partition_metrics(broker.hosted)
                yield from follower_metrics(broker.fetchers)
                if tier is not None:
                    yield from copy_lag_metrics(tier, broker.hosted)
            yield from group_metrics(broker.groups)
            yield from self._share.metrics()
            yield from log_metrics(broker.logs, broker.disk)
            yield from move_metrics(broker.moves)
            yield from server_metrics(broker.server)
            yield from requests.histogram.collect()
            yield from (self._environment.process_metrics or process_metrics)()
            yield from quota_families(self._quotas)
            yield from more()

        endpoint = monitoring_endpoint(families, self._waiting_for)
        self._stack.push_async_callback(endpoint.close)
        await endpoint.start(self._config.metrics_host, port, self._config.security.metrics)

    def _waiting_for(self) -> str | None:
        """Return what this broker waits for until it is ready, None once it is."""
        return None if self._quorum is None else self._quorum.lifecycle.waiting_for

    # The broker in its cluster.

    async def _register(self, logs: LogManager, servers: Mapping[str, Server]) -> None:
        """Announce the listeners, with the ports that are really bound, and the directories."""
        config = self._config
        end_points = {each.name: advertised_end_point(config, each, servers) for each in config.listeners}
        address = end_points[config.inter_broker_listener.name]
        registration = BrokerRegistration(
            config.node_id,
            address.host,
            address.port,
            config.broker_rack,
            logs.directory_ids,
            epoch=logs.previous_broker_epoch,
            end_points=tuple(end_points.values()),
        )
        if self._quorum is not None:
            self._quorum.lifecycle.offline_directories = lambda: logs.offline_directory_ids
        await self._view.register(registration)

        def note_broker_epoch() -> None:
            # The next run registers with it, and so returns as the broker that left in order (KIP-966).
            logs.broker_epoch = self._view.broker_epoch

        self._stack.callback(note_broker_epoch)

    async def _host_partitions(
        self, logs: LogManager, fetchers: FetcherPool, tier: Tier | None, roles: RoleListeners
    ) -> None:
        services = PartitionServices(
            node_id=self._config.node_id,
            view=self._view,
            rng=self._environment.rng,
            now_ms=self._environment.now_ms,
            lag_time_max_ms=self._config.replica_lag_time_max_ms,
        )
        manager = ReplicaManager(
            self._hosted,
            services,
            self._configs,
            logs,
            fetchers,
            None if tier is None else tier.manager,
            roles,
            self._thin,
            self._moves,
        )
        self._stack.push_async_callback(manager.close)
        await manager.start()
        if self._quorum is not None:
            lifecycle = self._quorum.lifecycle
            # Only now: before, the manager had not looked at every log, and a heartbeat would name too few.
            lifecycle.thin_replicas, self._thin.on_change = self._thin.report, lifecycle.report_soon

            def report_offline() -> None:
                lifecycle.report()
                manager.try_again()

            logs.upkeep.on_offline = report_offline

    def _fetcher_factory(self, client: KafkaClient, tier: Tier | None) -> FetcherFactory:
        load_bootstrap_policy(self._config.bootstrap_policy, self._config.bootstrap_properties)  # refuses what is wrong
        _log.info("bootstrap policy of empty replicas: %s", bootstrap_text(self._configs.broker_config()))
        return FetcherFactory(
            config=self._config,
            environment=self._environment,
            view=self._view,
            configs=self._configs,
            hosted=self._hosted,
            thin=self._thin,
            throttle=self._throttles.follower,
            client=client,
            identity=self._to_brokers,
            aux_states=None if tier is None else tier.aux_states,
        )


def make_quorum_view(config: BrokerConfig, environment: NodeEnvironment, waits: StartWaits) -> QuorumClusterView:
    """Return the view of a broker under controllers, not started yet."""
    identity = open_client(config.security.to_controllers)
    return QuorumClusterView(
        QuorumViewConfig(
            keys=config,
            node_id=config.node_id,
            listener_name=config.inter_broker_listener.name,
            directory=config.log_dirs[0],
            times=LifecycleTimes(
                heartbeat_interval_s=config.broker_heartbeat_interval_ms / 1000,
                registration_s=config.initial_broker_registration_timeout_ms / 1000,
                leaving_s=config.controlled_shutdown_timeout_ms / 1000,
            ),
            request_timeout_s=config.request_timeout_ms / 1000,
        ),
        environment,
        lambda: make_client(config, environment.rng, identity),
        waits,
        identity=identity,
    )

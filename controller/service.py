"""A controller process below its command: the quorum's replica with its listener, and the controller on top of it.

    start                                               stop, in this order
    --------------------------------------------------  ---------------------------------------------------------
    listener bound, replica opened (`quorum.service`)   registration ends
    worker started: requests are decided                leadership handed over, log closed, listener closed
    replica started, listener accepts                   worker cancelled, jobs that wait are rejected
    this controller registers with the active one

The listener serves the quorum's requests, brokers' and operators'. Which connection carries a broker's heartbeats is
remembered: its end is the first sign that the process is dead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Final
from uuid import UUID

from ..light_dataclass import dataclass
from ..protocol import OUTSIDE, ApiKey, ErrorCode, listed_reasons
from ..protocol.authorization import guarded
from ..protocol.messages import Request, ResponseT
from ..protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationRequestFeature,
    ControllerRegistrationRequestListener,
    EnvelopeRequest,
    EnvelopeResponse,
)
from ..protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ..protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from ..protocol.messages.security import DescribeAclsRequest, DescribeAclsResponse
from ..protocol.net import (
    Address,
    FinalizedFeatures,
    Handler,
    KafkaClient,
    RequestContext,
    SupportedFeature,
    api_versions_error,
    api_versions_response,
    cancelled,
)
from ..quorum import ControllerConfig as ProcessConfig
from ..quorum import Machine, QuorumGate, QuorumHandlers, QuorumListener, QuorumNode, QuorumService, open_quorum
from ..quorum.storage import read_bootstrap
from ..security import StandardAuthorizer, open_client
from .core.cluster import Asked, describe_cluster
from .core.config import NEW_CLUSTER_LEVELS, SUPPORTED_FEATURES, ControllerConfig, WarmingPolicy
from .core.describe_configs import NodeConfigs, describe_configs
from .core.features import finalized_levels, offered_features
from .core.machine import HANDLERS, ControllerCore
from .core.quotas.mutations import STRICT_SINCE, MutationClient
from .core.security.acls import describe_acls
from .envelope import refused, unwrap
from .node import ControllerNode
from .placement_registry import load_replica_placement
from .records import BrokerEndpoint, BrokerFeature, RegisterControllerRecord, decode_record
from .snapshotter import Snapshotter

REGISTRATION_INTERVAL_S: Final = 1.0
"""Between two looks whether the cluster knows this controller as it is."""
KNOWN_INTERVAL_S: Final = 10.0
"""Between two looks, once it does."""

NO_CONTROLLER: Final = -1
"""The controller id in DescribeCluster while no controller is active."""

OF_CLIENTS: Final = frozenset(HANDLERS) - {
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ALTER_PARTITION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.ALLOCATE_PRODUCER_IDS,
}
"""What a broker may forward for its clients."""
OF_CLIENTS_TO_THE_QUORUM: Final = frozenset({ApiKey.DESCRIBE_QUORUM, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER})
"""What a broker may forward for its clients to the quorum itself."""

_log = logging.getLogger(__name__)


def core_config(process: ProcessConfig) -> ControllerConfig:
    """What the decisions need; the cluster id comes from the formatted directory."""
    return ControllerConfig(
        cluster_id="",
        node_id=process.node_id,
        session_timeout_ms=process.broker_session_timeout_ms,
        num_partitions=process.num_partitions,
        default_replication_factor=process.default_replication_factor,
        unclean_leader_election_enable=process.unclean_leader_election_enable,
        auto_leader_rebalance_enable=process.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_ms=process.leader_imbalance_check_interval_seconds * 1000,
        fast_failover=process.fast_failover_enable,
        has_authorizer=process.authorizer.is_configured,
        mutation_burst_s=process.controller_quota_window_num * process.controller_quota_window_size_seconds,
        placement=load_replica_placement(process.replica_placement_plugin, process.replica_placement_config),
        warming=WarmingPolicy(process.thin_replica_warm_bytes, process.thin_replica_warm_ms),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ControllerService:
    """A controller that serves: `open_controller` makes it."""

    quorum: QuorumService
    controller: ControllerNode

    @property
    def node(self) -> QuorumNode:
        return self.quorum.node

    def without_leader(self, _now_s: float) -> str | None:
        """What a controller without an active one waits for; None where there is one. A controller starts without a
        majority, and waits for it as long as it takes: the others may be started later.
        """
        node = self.node
        if node.has_leader_responded:
            return None
        voters = ", ".join(str(voter.id) for voter in node.status.voters.voters)
        why = listed_reasons(node.unanswered.reasons()) or "no election was won yet"
        return f"waiting for a majority of the voters {voters or '(none is known)'} to elect a controller: {why}"


def accept_all(_: Mapping[str, str]) -> None:
    """Accept every dynamic config of brokers."""


@asynccontextmanager
async def open_controller(
    config: ProcessConfig,
    machine: Machine,
    *,
    check_broker_configs: Callable[[Mapping[str, str]], None] = accept_all,
    listeners: Sequence[QuorumListener] = (),
    first_levels: Mapping[str, int] = NEW_CLUSTER_LEVELS,
) -> AsyncIterator[ControllerService]:
    """Run a controller until the block ends. Raise QuorumStartError, and the OSError of its listener.

    `listeners` follow the metadata log, each batch before the controller. `check_broker_configs` raises for a dynamic
    config that brokers would reject. A new cluster begins at `first_levels` of features.
    """
    # The controller's tasks end last: until the listener is closed, requests that are under way get a response.
    async with AsyncExitStack() as working, AsyncExitStack() as serving:
        formatted = await read_bootstrap(machine.disk, config.metadata_directory)
        registration = _registration(config, machine.rng)
        identity = open_client(config.security.to_controllers)
        core = ControllerCore(core_config(config).checking(check_broker_configs), machine.rng)
        quorum = await serving.enter_async_context(
            open_quorum(config, machine, credentials=lambda: core.state.image.scram)
        )
        controller = ControllerNode(
            core,
            quorum.node,
            machine.rng,
            registration=registration,
            identity=identity,
            formatted=tuple(decode_record(value).record for value in formatted),
            first_levels=first_levels,
            snapshotter=Snapshotter(
                quorum.node,
                bytes_max=config.metadata_log_max_record_bytes_between_snapshots,
                interval_ms=config.metadata_log_max_snapshot_interval_ms,
            ),
        )
        working.push_async_callback(controller.close)
        controller.start()
        service = ControllerService(quorum, controller)
        gate = _gate(config, service)
        requests = ControllerRequests(config, service, gate)
        quorum.server.connection_watcher = requests.connection_ended
        await quorum.begin((*listeners, controller), handlers=requests.handlers(), gate=gate)
        client = KafkaClient(
            client_id=f"tierfetch-controller-{config.node_id}",
            random=machine.rng,
            identity=identity,
        )
        serving.push_async_callback(client.close)
        timeout_s = config.controller_quorum_request_timeout_ms / 1000
        registering = asyncio.create_task(_keep_registered(service, client, timeout_s), name="controller-registration")
        serving.push_async_callback(cancelled, registering)
        yield service


def _gate(config: ProcessConfig, service: ControllerService) -> QuorumGate:
    core, node = service.controller.core, service.node

    def topic_name(topic_id: UUID) -> str | None:
        topic = core.state.image.topics.get(topic_id)
        return None if topic is None else topic.name

    if not config.authorizer.is_configured:
        return QuorumGate(None, topic_name)
    authorizer = StandardAuthorizer(
        config.authorizer.rules,
        lambda: core.state.image.acls,
        asyncio.get_running_loop().time,
        lambda: node.has_leader_responded and core.state.image.metadata_version > 0,
    )
    return QuorumGate(authorizer, topic_name)


def _registration(config: ProcessConfig, rng: Random) -> RegisterControllerRecord:
    endpoint = config.endpoint
    return RegisterControllerRecord(
        controller_id=config.node_id,
        incarnation_id=UUID(int=rng.getrandbits(128), version=4),
        zk_migration_ready=False,
        end_points=(
            BrokerEndpoint(
                name=endpoint.name,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=int(config.security.controller_protocol),
            ),
        ),
        features=tuple(
            BrokerFeature(name=name, min_supported_version=item.min_level, max_supported_version=item.max_level)
            for name, item in sorted(SUPPORTED_FEATURES.items())
        ),
    )


class ControllerRequests:
    """The handlers of one controller's listener."""

    def __init__(self, config: ProcessConfig, service: ControllerService, gate: QuorumGate) -> None:
        self.config = config
        self.quorum = service.quorum
        self.node = service.node
        self.controller = service.controller
        self._protocol = int(config.security.controller_protocol)
        self._has_authorizer = gate.authorizer is not None
        self._brokers: dict[int, tuple[int, int]] = {}
        """The id and epoch of the broker whose heartbeats a connection carries, by connection."""
        of_clients: dict[int, Handler] = dict.fromkeys(OF_CLIENTS, self._handle)
        of_quorum = QuorumHandlers(service.node).table()
        of_clients |= {api: handler for api, handler in of_quorum.items() if api in OF_CLIENTS_TO_THE_QUORUM}
        self._of_clients = guarded(of_clients, gate.authorizer, gate.topic_name)
        """The handlers of requests in an Envelope, which pass the same gate."""

    def handlers(self) -> Mapping[int, Handler]:
        """Return the handlers by API key."""
        handlers: dict[int, Handler] = dict.fromkeys(HANDLERS, self._handle)
        handlers[ApiKey.BROKER_HEARTBEAT] = self._heartbeat
        handlers[ApiKey.API_VERSIONS] = self._api_versions
        handlers[ApiKey.ENVELOPE] = self._envelope
        handlers[ApiKey.DESCRIBE_CLUSTER] = self._describe_cluster
        handlers[ApiKey.DESCRIBE_CONFIGS] = self._describe_configs
        handlers[ApiKey.DESCRIBE_ACLS] = self._describe_acls
        return handlers

    async def _handle(self, context: RequestContext, request: Request[ResponseT]) -> ResponseT:
        strict_since = STRICT_SINCE.get(context.api)
        if strict_since is None:
            return await self.controller.request(request)
        client = MutationClient(
            context.principal.name, context.client_id or "", is_strict=context.api_version >= strict_since
        )
        return await self.controller.request(request, client)

    async def _heartbeat(self, context: RequestContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        if self.controller.core.knows(request.broker_id, request.broker_epoch):
            self._brokers[context.connection_id] = request.broker_id, request.broker_epoch
        return await self.controller.heartbeat(request)

    async def _envelope(self, context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
        if not self.controller.is_active:
            return refused(ErrorCode.not_controller)
        return await unwrap(context, request, self._of_clients)

    async def _describe_cluster(self, _: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
        node = self.node
        leader_id = node.status.leader_and_epoch.leader_id
        asked = Asked(
            cluster_id=node.config.cluster_id or "",
            listener_name=self.config.endpoint.name,
            leader_id=NO_CONTROLLER if leader_id is None else leader_id,
            voters={
                voter.id: [BrokerEndpoint(name=at.name, host=at.host, port=at.port, security_protocol=self._protocol)]
                for voter in node.status.voters.voters
                if (at := voter.endpoint) is not None
            },
        )
        return describe_cluster(self.controller.core.state, request, asked)

    async def _describe_configs(self, _: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        config = self.config
        node = NodeConfigs(config.node_id, config.as_properties(), config.static_properties())
        return describe_configs(self.controller.core.state, request, node)

    async def _describe_acls(self, _: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
        acls = self.controller.core.state.image.acls
        return describe_acls(acls, request, has_authorizer=self._has_authorizer)

    def connection_ended(self, connection_id: int) -> None:
        broker = self._brokers.pop(connection_id, None)
        if broker is not None and broker not in self._brokers.values():
            self.controller.connection_lost(*broker)

    async def _api_versions(self, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        state = self.controller.core.state
        features = sorted(offered_features(state).items())
        return api_versions_response(
            self.quorum.server.handlers,
            context.api_version,
            error_code=api_versions_error(request, context.api_version),
            supported_features=[SupportedFeature(name, *item) for name, item in features],
            finalized_features=FinalizedFeatures(self.node.applied_offset, finalized_levels(state)),
        )


async def _keep_registered(service: ControllerService, client: KafkaClient, timeout_s: float) -> None:
    """Register this controller with the active one, whenever the cluster knows it otherwise."""
    controller, node = service.controller, service.node
    registration = controller.registration
    interval_s = REGISTRATION_INTERVAL_S
    while True:
        await asyncio.sleep(interval_s)
        is_known = controller.core.state.image.controllers.get(registration.controller_id) == registration
        interval_s = KNOWN_INTERVAL_S if is_known else REGISTRATION_INTERVAL_S
        endpoint = node.status.leader_endpoint
        if is_known or controller.is_active or endpoint is None:
            continue
        try:
            address = Address(endpoint.host, endpoint.port)
            await client.send(address, _registration_request(registration), timeout_s=timeout_s)
        except OUTSIDE as error:
            _log.debug("controller %d could not register: %s", registration.controller_id, error)


def _registration_request(record: RegisterControllerRecord) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(
        controller_id=record.controller_id,
        incarnation_id=record.incarnation_id,
        zk_migration_ready=False,
        listeners=tuple(
            ControllerRegistrationRequestListener(
                name=item.name, host=item.host, port=item.port, security_protocol=item.security_protocol
            )
            for item in record.end_points
        ),
        features=tuple(
            ControllerRegistrationRequestFeature(
                name=item.name,
                min_supported_version=item.min_supported_version,
                max_supported_version=item.max_supported_version,
            )
            for item in record.features
        ),
    )

"""The cluster as the controllers' metadata log has it: `ClusterView` over an observer of the quorum.

    metadata log --observer--> MetadataView --image--> listeners of this broker
    requests     --ControllerChannel--> active controller --records--> metadata log --> the image

What this broker asks for comes back twice: as the answer, and as records. Its parts act on the image: a call that
changes something returns with the answer, and what hangs on it happens when the log says so.

Start: cluster id (from `meta.properties`, else asked of a controller, and the directory is formatted with a new
directory id: a wiped broker is another one) -> observer -> caught up once with what the leader has committed.
`register` announces this incarnation, `serve` has it unfenced, `leave` hands its leaderships over.

| wait of a start | on | ends at the latest |
|---|---|---|
| cluster id, catching up, registration | any controller, then the active one | together within `registration_s` |
| this broker's registration in the log | the quorum's commits | `CATCH_UP_TIMEOUT_S` |
| unfenced | the active controller | never, as in Kafka: its heartbeats continue, and each failure is logged |

`waits` says which of them it is at and what is in the way; out of time is an OSError. What the last run left on the
disk (who led the quorum) is not taken for news: `has_leader_responded`.

In a process that is a controller too the view listens to the controller's replica instead (`share`, before that starts,
and `attach`): one node has one replica of the log.

What fails of itself completes `failed`: the observer (its disk, mostly), and the heartbeats by an internal error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final
from uuid import UUID

from ...controller import KRAFT_VERSION, registered_features
from ...light_dataclass import dataclass
from ...log.core import META_PROPERTIES, decode_meta_properties
from ...log.disk import make_directory_durably
from ...protocol import (
    CONTROLLER_ENDPOINTS,
    ErrorCode,
    KafkaError,
    StartWaits,
    TopicIdPartition,
    WaitLimit,
    cluster_of,
    listed_reasons,
)
from ...protocol.messages import WithError, WithErrorMessage
from ...protocol.messages.brokers import (
    AllocateProducerIdsRequest,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsResponse,
)
from ...protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ...protocol.net import Address, KafkaClient, cancelled
from ...protocol.wire import Steps
from ...quorum import (
    CommittedBatch,
    LeaderAndEpoch,
    Machine,
    QuorumKeys,
    QuorumNode,
    ReplicaKey,
    SnapshotContent,
    open_replica,
)
from ...quorum.storage import FormatOrder, format_directories, new_directory_id
from ...security import ClientIdentity
from ..core.metadata_view import MetadataView
from .controller_channel import ControllerChannel, ControllerUnavailableError
from .directory_assignments import DirectoryAssignments
from .isr_changes import IsrChanges
from .lifecycle import BrokerIdentity, BrokerLifecycle, LifecycleTimes
from .view import (
    NO_EPOCHS,
    BrokerRegistration,
    ClusterImage,
    EndPoint,
    ImageListener,
    NewTopic,
    PartitionRegistration,
    ProducerIdBlock,
    TopicImage,
)

CATCH_UP_TIMEOUT_S: Final = 60.0
REGISTRATION_TIMEOUT: Final = "initial.broker.registration.timeout.ms"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumViewConfig:
    """What the configuration says of a broker under controllers. `directory` holds the metadata log."""

    keys: QuorumKeys
    node_id: int
    listener_name: str
    directory: Path
    times: LifecycleTimes
    request_timeout_s: float


class QuorumClusterView:
    """The metadata directory is locked from `start` to `close`; `make_client` gives clients of its own, and `identity`
    protects the connections of the metadata log's replica.
    """

    def __init__(
        self,
        config: QuorumViewConfig,
        machine: Machine,
        make_client: Callable[[], KafkaClient],
        waits: StartWaits | None = None,
        *,
        identity: ClientIdentity | None = None,
    ) -> None:
        rng, times = machine.rng, config.times
        self._config = config
        self._machine = machine
        self._identity = identity
        self._waits = waits or StartWaits()
        self._limit: WaitLimit | None = None
        self._listeners: list[ImageListener] = []
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._applied_epoch = -1
        """The epoch of the batch applied last. A controller believes what is reported about the metadata of its own
        epoch.
        """
        self._stack = AsyncExitStack()
        self._node: QuorumNode | None = None
        self._is_sharing = False
        self._metadata = MetadataView("", config.listener_name)
        self.channel = ControllerChannel(make_client(), rng, leader=self._leader, others=self._controllers)
        heartbeats = ControllerChannel(make_client(), rng, leader=self._leader, others=self._controllers)
        self.lifecycle = BrokerLifecycle(heartbeats, rng, self.replayed_offset, times)
        heartbeats.on_connection_lost(self.lifecycle.connection_lost)
        self._isr_changes = IsrChanges(self.channel, config.node_id, lambda: self.lifecycle.broker_epoch)
        self._directories = DirectoryAssignments(self._assign_directories, rng)
        self._stack.push_async_callback(self.channel.close)
        self._stack.push_async_callback(heartbeats.close)

    # The port: looking.

    @property
    def image(self) -> ClusterImage:
        return self._metadata.cluster

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 before it has one."""
        return self.lifecycle.broker_epoch

    @property
    def is_heard(self) -> bool:
        """Whether a controller has answered a request that this broker sent a short while ago."""
        return self.lifecycle.is_heard

    @property
    def failed(self) -> asyncio.Future[str]:
        """Done, with the reason, when this broker can no longer follow the metadata log or send heartbeats."""
        return self.lifecycle.failed

    @property
    def incarnation_id(self) -> UUID:
        """The id of this process; another process of the same broker has another."""
        return self.lifecycle.incarnation_id

    def kraft_version(self) -> int:
        """Whether voters are in the log (1), as far as this broker has it."""
        return 0 if self._node is None else self._node.status.voters.kraft_version

    def subscribe(self, listener: ImageListener) -> None:
        self._listeners.append(listener)

    def share(self, cluster_id: str) -> None:
        """This view will be a listener of a replica that another part of the process runs."""
        self._is_sharing = True
        self._metadata = MetadataView(cluster_id, self._config.listener_name)

    def attach(self, node: QuorumNode) -> None:
        """The replica that it listens to, which has started."""
        self._node = node
        node.failed.add_done_callback(self._node_failed)

    async def start(self) -> None:
        """QuorumStartError, LogDirectoryLockedError, OSError without a quorum."""
        self._limit = limit = WaitLimit(self._now_s() + self._config.times.registration_s, REGISTRATION_TIMEOUT)
        if not self._is_sharing:
            await self._observe()
        with self._waits.waiting("an active controller", self._in_the_way, limit):
            try:
                await self._until(self._is_caught_up, limit.left_s(self._now_s()), "no active controller")
            except OSError:
                if self.failed.done():
                    raise
                raise self._no_controllers() from None
        leader = self._node.status.leader_and_epoch if self._node is not None else LeaderAndEpoch(None, -1)
        _log.info("controller %s is active in epoch %d", leader.leader_id, leader.epoch)

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def _in_the_way(self) -> str:
        """Return why this broker does not reach the active controller, as far as that is known."""
        reasons = [*self.channel.unanswered.reasons(), *self.lifecycle.unanswered.reasons()]
        if self._node is not None:
            reasons += self._node.unanswered.reasons()
        if reasons:
            return listed_reasons(reasons)
        return "the controllers that answer know none" if self._node is not None else ""

    def _no_controllers(self) -> ControllerUnavailableError:
        return self._out_of_time("no active controller was found", self._in_the_way())

    def _out_of_time(self, what: str, why: str) -> ControllerUnavailableError:
        why = why or f"no answer from {', '.join(map(str, self._controllers()))}"
        return ControllerUnavailableError(
            f"{what} within {self._config.times.registration_s:g} s ({REGISTRATION_TIMEOUT}): {why}; check "
            "controller.quorum.bootstrap.servers (or controller.quorum.voters), and that the controllers run"
        )

    async def _observe(self) -> None:
        """Run our own observer of the metadata log."""
        await make_directory_durably(self._machine.disk, self._config.directory)
        self._stack.callback(self._machine.lock_directory(self._config.directory).release)
        _log.info("asking the controllers %s", ", ".join(map(str, self._controllers())))
        cluster_id = await self._find_cluster_id()
        self._metadata = MetadataView(cluster_id, self._config.listener_name)
        config = self._config.keys.replica_config(self._config.node_id, self._config.directory, (), is_locked=True)
        opening = open_replica(config, self._machine, identity=self._identity)
        node = await self._stack.enter_async_context(opening)
        self.attach(node)
        node.start([self])

    def _node_failed(self, failed: asyncio.Future[str]) -> None:
        if not (failed.cancelled() or self.lifecycle.failed.done()):
            self.lifecycle.failed.set_result(failed.result())

    async def close(self) -> None:
        await self._directories.close()
        await self._isr_changes.close()
        await self.lifecycle.close()
        await self._stack.aclose()

    def _is_caught_up(self) -> bool:
        """Return whether all is applied that the quorum reported; what it holds now is known after the registration."""
        node = self._node
        is_applied = node is not None and 0 < node.status.high_watermark <= node.applied_offset
        return is_applied and node is not None and node.has_leader_responded

    # The port: this broker's life.

    async def register(self, broker: BrokerRegistration) -> None:
        """Returns when this broker's own registration is part of the image, and with it all that was decided before."""
        features = registered_features({**(self.image.features or {}), KRAFT_VERSION: self.kraft_version()})
        identity = BrokerIdentity(
            broker_id=broker.id,
            cluster_id=self.image.cluster_id,
            end_points=broker.end_points or (EndPoint(self._config.listener_name, broker.host, broker.port),),
            rack=broker.rack,
            directory_ids=broker.directory_ids,
            features=tuple((name, low, high) for name, (low, high) in sorted(features.items())),
        )
        limit = self._limit or WaitLimit(self._now_s() + self._config.times.registration_s, REGISTRATION_TIMEOUT)
        with self._waits.waiting(f"the registration of broker {broker.id}", self._not_registered, limit):
            try:
                epoch = await self.lifecycle.register(identity, broker.epoch, limit.left_s(self._now_s()))
            except ControllerUnavailableError:
                raise self._out_of_time(f"broker {broker.id} was not registered", self._not_registered()) from None
        limit = WaitLimit(self._now_s() + CATCH_UP_TIMEOUT_S, "a fixed limit")
        with self._waits.waiting("this registration in the metadata log", self._replayed, limit):
            await self._until_image(
                lambda image: broker.id in image.brokers and image.brokers[broker.id].epoch >= epoch, CATCH_UP_TIMEOUT_S
            )

    def _not_registered(self) -> str:
        return self.lifecycle.obstacle or self._in_the_way()

    def _replayed(self) -> str:
        return f"replayed up to offset {self.replayed_offset()}, registered at {self.broker_epoch}"

    async def serve(self) -> None:
        """Raise OSError if this broker cannot continue before the controller lets it lead."""
        serving = asyncio.create_task(self.lifecycle.serve(), name="unfencing")
        try:
            either: list[asyncio.Future[None] | asyncio.Future[str]] = [serving, self.failed]
            with self._waits.waiting("the active controller to unfence this broker", self._replayed):
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                raise OSError(self.failed.result())
            await serving
        finally:
            await cancelled(serving)

    async def leave(self) -> None:
        """Returns at once when this broker's replica of the metadata log has failed: its answers to clients while it
        waited would be out of date. The controllers see the connection of its heartbeats end.
        """
        leaving = asyncio.create_task(self.lifecycle.leave(), name="leaving")
        try:
            either: list[asyncio.Future[None] | asyncio.Future[str]] = [leaving]
            if self._node is not None:
                either.append(self._node.failed)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancelled(leaving)

    # The port: changes.

    async def alter_partition(
        self,
        partition: TopicIdPartition,
        *,
        leader_epoch: int,
        partition_epoch: int,
        isr: Sequence[int],
        stated_epochs: Mapping[int, int] = NO_EPOCHS,
    ) -> PartitionRegistration:
        epochs = {**stated_epochs, self._config.node_id: self.broker_epoch}
        return await self._isr_changes.alter(
            partition,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            isr=[(member, epochs.get(member, -1)) for member in isr],
        )

    def assign_directory(self, partition: TopicIdPartition, directory_id: UUID) -> None:
        self._directories.report(partition, directory_id)

    async def _assign_directories(
        self, directories: tuple[AssignReplicasToDirsRequestDirectoryData, ...]
    ) -> AssignReplicasToDirsResponse:
        request = AssignReplicasToDirsRequest(
            broker_id=self._config.node_id, broker_epoch=self.broker_epoch, directories=directories
        )
        return await self.channel.send(request, timeout_s=self._config.request_timeout_s)

    async def create_topic(self, topic: NewTopic) -> TopicImage:
        creatable = CreatableTopic(
            name=topic.name,
            num_partitions=-1 if topic.assignments else topic.partitions,
            replication_factor=-1 if topic.assignments else topic.replication_factor,
            assignments=tuple(
                CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(replicas))
                for number, replicas in enumerate(topic.assignments)
            ),
            configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()),
        )
        request = CreateTopicsRequest(topics=(creatable,), timeout_ms=int(self._config.request_timeout_s * 1000))
        answers = (await self.channel.send(request, timeout_s=self._config.request_timeout_s)).topics
        if len(answers) != 1:
            raise KafkaError(
                ErrorCode.unknown_server_error,
                f"the controller has {len(answers)} answers for topic {topic.name}, expected one",
            )
        _check(answers[0], f"topic {topic.name}")
        await self._until_image(lambda image: topic.name in image.topics)
        return self.image.topics[topic.name]

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        request = AllocateProducerIdsRequest(broker_id=self._config.node_id, broker_epoch=self.broker_epoch)
        answer = await self.channel.send(request, timeout_s=self._config.request_timeout_s)
        _check(answer, "a block of producer ids")
        return ProducerIdBlock(answer.producer_id_start, answer.producer_id_len)

    # From the quorum.

    def on_commit(self, batch: CommittedBatch) -> Steps[None]:
        before = self.image
        if (yield from self._metadata.apply_steps(batch.records)):
            self._publish(before)
        if batch.epoch != self._applied_epoch:
            self._applied_epoch = batch.epoch
            self.lifecycle.controller_changed()
        self._wake()

    def on_load_snapshot(self, snapshot: SnapshotContent) -> Steps[None]:
        before = self.image
        yield from self._metadata.load_steps(snapshot.batches)
        self._publish(before)
        self._wake()

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        if self._node is not None and self._node.has_leader_responded:
            _log.info("controller %s is active in epoch %d", leader.leader_id, leader.epoch)
        if leader.leader_id is not None:
            self.lifecycle.controller_changed()
        self._wake()

    def _publish(self, before: ClusterImage) -> None:
        for listener in self._listeners:
            listener(before, self.image)

    def _wake(self) -> None:
        """The replica counts a batch as applied after it has notified the listeners, so look a moment later."""
        asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        waiting, self._waiting = self._waiting, []
        for condition, reached in waiting:
            if reached.done():
                continue
            if condition():
                reached.set_result(None)
            else:
                self._waiting.append((condition, reached))

    async def _until_image(self, condition: Callable[[ClusterImage], bool], timeout_s: float | None = None) -> None:
        await self._until(
            lambda: condition(self.image),
            timeout_s or self._config.request_timeout_s,
            "the metadata log did not bring the change that the controller confirmed",
        )

    async def _until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """OSError that says `what`, if the condition does not hold in time, or why the log is no longer followed."""
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((condition, reached))
        self._look()
        try:
            either: list[asyncio.Future[None] | asyncio.Future[str]] = [reached, self.failed]
            await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not reached.done():
                raise OSError(self.failed.result() if self.failed.done() else f"{what} ({timeout_s:g} s)")
        finally:
            reached.cancel()

    # Finding controllers.

    def _leader(self) -> Address | None:
        endpoint = None if self._node is None else self._node.status.leader_endpoint
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    def _controllers(self) -> list[Address]:
        keys = self._config.keys
        named = [*keys.controller_quorum_bootstrap_servers, *keys.controller_quorum_voters.values()]
        return [Address(host, port) for host, port in named]

    def replayed_offset(self) -> int:
        """The last offset of the metadata log that this broker has applied; -1 for none."""
        return -1 if self._node is None else self._node.applied_offset - 1

    async def _find_cluster_id(self) -> str:
        path = self._config.directory / META_PROPERTIES
        if await self._machine.disk.exists(path):
            return decode_meta_properties(await self._machine.disk.read_file(path), name=str(path)).cluster_id
        assert self._limit is not None, "asked by `start`"
        with self._waits.waiting("a controller to name the cluster", self._in_the_way, self._limit):
            try:
                left_s = self._limit.left_s(self._now_s())
                answer = await self.channel.send(cluster_of(CONTROLLER_ENDPOINTS), timeout_s=left_s)
            except ControllerUnavailableError:
                raise self._no_controllers() from None
        _check(answer, "the cluster id")
        key = ReplicaKey(self._config.node_id, new_directory_id(self._machine.rng))
        order = FormatOrder(answer.cluster_id, key, [self._config.directory])
        await format_directories(
            self._machine.disk, order, ignore_formatted=True, rng=self._machine.rng, now_ms=self._machine.now_ms
        )
        _log.info("%s is new: formatted for cluster %s", self._config.directory, answer.cluster_id)
        return str(answer.cluster_id)


def _check(answer: WithError, what: str) -> None:
    if answer.error_code is not ErrorCode.none:
        message = answer.error_message if isinstance(answer, WithErrorMessage) else None
        raise KafkaError(answer.error_code, message or what)

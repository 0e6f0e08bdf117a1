"""The nodes of a cluster: how each is started, and what of it runs, for judges to look into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from ...broker import Broker, NodeEnvironment, open_broker
from ...controller import ControllerService
from ...plugins import segment_key
from ...protocol import TopicIdPartition
from ...quorum import QuorumNode, RaftState, ReplicaKey, VoterSet
from ..judges.core.truth import Tap
from ..judges.final_state import directory_id
from ..judges.quorum_replicas import DIRECTORY
from ..machine.process import Process
from ..machine.world import World
from .cluster_options import BROKERS, PORT, ClusterOptions
from .combined import CombinedProcess, broker_in
from .controllers import CONTROLLER_PORT, ControllerProcess, open_controller_process, other_port


class ClusterNodes:
    """The nodes that `options` asks for. `tap` gives a listener for each run of a controller, by host; `on_controller`
    is called with each controller that was made.
    """

    def __init__(
        self,
        world: World,
        options: ClusterOptions,
        tap: Callable[[str], Tap],
        on_controller: Callable[[ControllerService], None],
    ) -> None:
        self.controller_ids = options.controllers
        self.names = tuple(dict.fromkeys((*self.controller_ids, *BROKERS)))
        self.ports = dict.fromkeys(self.controller_ids, CONTROLLER_PORT)
        """Where controllers listen, or will once they have restarted."""
        self._first_voters = options.first_voters(world.rng("directories")) if options.changing_voters else None
        self._lost_disks: set[str] = set()
        self._on_controller = on_controller
        self._world = world
        self._options = options
        self._tap = tap
        self._started_s: dict[str, float] = {}
        self._combined: dict[str, CombinedProcess] = {}
        self._brokers: dict[str, tuple[Process | None, Broker]] = {}
        """The last broker that began to host partitions on each host, and the process that it belongs to."""

    async def start(self, name: str) -> None:
        """What `Host.start` raises."""
        host, options = self._world.host(name), self._options
        self._started_s[name] = self._world.now_s
        tap = self._tap(name)
        if name not in self.controller_ids:
            broker = options.broker_config(name)
            hosts = self._hosts
            await host.start(lambda machine: open_broker(broker, self._environment(machine), on_hosting=hosts(name)))
        elif name in BROKERS:
            await host.start(lambda machine: self._combine(name, self._environment(machine), tap))
        else:
            controller, voters = options.controller_config(name, self.ports[name]), self._first_voters_of(name)
            first = options.first_records
            node = await host.start(
                lambda machine: open_controller_process(
                    controller, machine, listeners=[tap], first=voters, first_records=first
                )
            )
            self._on_controller(node.service)

    def listen_elsewhere(self, name: str) -> None:
        """The controller listens at the other port, from its next start on."""
        self.ports[name] = other_port(self.ports[name])

    def disk_lost(self, name: str) -> None:
        """It is formatted again at its next start, as one more controller of the cluster that there is."""
        self._lost_disks.add(name)

    def has_disk(self, name: str, key: ReplicaKey) -> bool:
        """Whether a controller's machine has the directory of this replica of the metadata log."""
        return not key.has_directory or self.metadata_directory_of(name) == key.directory_id

    def metadata_directory_of(self, name: str) -> UUID | None:
        """The id of the directory of a controller's metadata log; None before it is formatted."""
        return directory_id(self._world.host(name).files, DIRECTORY.parent)

    def _first_voters_of(self, name: str) -> VoterSet | None:
        """What the directory of this controller is formatted with; None if it is none of the first voters."""
        first = self._first_voters
        is_first = first is not None and self.controller_ids[name] in first.by_id and name not in self._lost_disks
        return first if is_first else None

    def _environment(self, machine: NodeEnvironment) -> NodeEnvironment:
        """What a broker gets: without workers only the clients that write markers coordinate transactions."""
        return replace(machine, is_ongoing=None) if self._options.workers else machine

    def _combine(self, name: str, machine: NodeEnvironment, tap: Tap) -> CombinedProcess:
        config, host = self._options.combined_config(name, self.ports[name]), self._world.host(name)
        process = self._combined[name] = CombinedProcess(
            config,
            host,
            machine,
            listeners=[tap],
            on_controller=self._on_controller,
            on_hosting=self._hosts(name),
            first=self._first_voters_of(name),
            first_records=self._options.first_records,
        )
        return process

    def _hosts(self, name: str) -> Callable[[Broker], None]:
        """Return what notes that the process that runs there now hosts partitions with this broker."""
        process = self._world.host(name).process

        def note(broker: Broker) -> None:
            self._brokers[name] = process, broker

        return note

    def up_since_s(self, name: str) -> float | None:
        """When the process of the broker that listens there was started; None if none does: what is about to end has
        closed its listener before.
        """
        is_listening = (name, PORT) in self._world.network.listeners
        return self._started_s[name] if is_listening and self._world.host(name).is_up else None

    def broker_of(self, process: Process) -> Broker | None:
        """The broker that runs as this process, from the moment it hosts partitions; None before."""
        of_process, broker = self._brokers.get(process.host, (None, None))
        return broker if of_process is process else None

    def brokers(self) -> dict[int, Broker | None]:
        """All brokers by id; None for one that is down."""
        return {node_id: broker_in(self._world.host(name).node) for name, node_id in BROKERS.items()}

    def damaged_reads(self) -> dict[int, int]:
        """How often brokers that run have found the bytes of a segment in the tier wrong, by id."""
        tiers = {node_id: broker.tier for node_id, broker in self.brokers().items() if broker is not None}
        return {each: tier.manager.counters.damaged_reads for each, tier in tiers.items() if tier is not None}

    def controllers(self) -> dict[str, ControllerService]:
        """The controllers that run, by host."""
        found = {name: self._controller(name) for name in self.controller_ids}
        return {name: service for name, service in found.items() if service is not None}

    def replica(self, name: str) -> QuorumNode | None:
        """The replica of the metadata log on this host; None while it is down."""
        service = self._controller(name)
        return None if service is None else service.node

    def quorum_leader(self) -> str | None:
        """The host of the quorum's leader: of several that believe to lead, the one with the newest epoch."""
        leading = {
            replica.status.leader_and_epoch.epoch: name
            for name in self.controller_ids
            if (replica := self.replica(name)) is not None and replica.status.state is RaftState.LEADER
        }
        return leading[max(leading)] if leading else None

    def stable_end_of(self, host: str, name: TopicIdPartition) -> int | None:
        """Up to where the broker there may copy a partition to the tier; None if it does not host it."""
        broker = self.brokers()[BROKERS[host]]
        hosted = None if broker is None else broker.hosted.partitions.get(name.topic_partition)
        if hosted is None or hosted.partition != name:
            return None
        return min(hosted.log.state.offsets.last_stable_offset, hosted.log.state.high_watermark)

    def finished_in(self, host: str, name: TopicIdPartition) -> list[str]:
        """Keys of the records of the segments that are finished, as the ledger of the broker there says."""
        broker = self.brokers()[BROKERS[host]]
        ledger = None if broker is None or broker.tier is None else broker.tier.manager.ledger(name)
        return [] if ledger is None else [segment_key(segment, None) for segment in ledger.finished()]

    def _controller(self, name: str) -> ControllerService | None:
        """Also of a process of which the broker has not started yet."""
        host, combined = self._world.host(name), self._combined.get(name)
        if combined is not None:
            return combined.service if combined.process is host.process else None
        return host.node.service if isinstance(host.node, ControllerProcess) else None

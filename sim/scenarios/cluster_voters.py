"""The controllers of a cluster whose voters change (KIP-853): who changes them, who judges that, what they come to.

    options.changing_voters -> formatted with first voters -> rows of `operations.voters` beside those of the cluster

In the end every replica goes by the leader's voters, each of which listens where it is known. With auto-join each
controller is a voter then, with the directory that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...quorum import QuorumNode, VoterSet
from ..faults.injector import FaultInjector
from ..judges.core.acknowledged_writes import Anomaly
from ..judges.core.events import OperatorEvent
from ..judges.core.judge import Judge
from ..judges.core.quorum.voters import VotersJudge
from ..judges.durability import DurableLogs
from ..judges.quorum_replicas import DIRECTORY, PARTITION
from ..machine.world import World
from .cluster_nodes import ClusterNodes
from .cluster_options import BROKERS, ClusterOptions
from .operations.voters import Disks, VoterOperator
from .upkeep import Upkeep


class ClusterVoters:
    """`operator` changes them: None where the options say that they stay. Controllers that are brokers keep their
    disks.
    """

    def __init__(
        self,
        world: World,
        options: ClusterOptions,
        nodes: ClusterNodes,
        upkeep: Upkeep,
        injector: FaultInjector,
        publish: Callable[[OperatorEvent], None],
    ) -> None:
        self._world = world
        self._options = options
        self._nodes = nodes
        self._hosts = {node_id: host for host, node_id in options.controllers.items()}
        disks = Disks(
            [host for host in options.controllers if host not in BROKERS],
            lambda key: not nodes.has_disk(self._hosts[key.id], key),
            injector.exchange_disk_soon,
        )
        self.operator = self._make_operator(upkeep, disks, publish) if options.changing_voters else None

    def _make_operator(self, upkeep: Upkeep, disks: Disks, publish: Callable[[OperatorEvent], None]) -> VoterOperator:
        return VoterOperator(
            self._options.controllers,
            self._nodes.replica,
            self._leader,
            self._world.rng("changes voters"),
            port_of=self._nodes.ports.__getitem__,
            move=upkeep.move,
            upgrade=self._has_dynamic_voters,
            publish=publish,
            record=self._world.record,
            disks=disks,
        )

    def judges(self, durable: DurableLogs) -> list[Judge]:
        """Make the judge of voters, where they change."""
        judge = VotersJudge(
            lambda node_id, end: durable.holds(self._hosts[node_id], DIRECTORY, end),
            self._world.loop.time,
            fetch_timeout_s=self._options.fetch_timeout_ms / 1000,
        )
        return [judge] if self._options.changing_voters else []

    @staticmethod
    async def _has_dynamic_voters() -> bool:
        """Nothing to raise: the cluster was formatted so."""
        return False

    def _leader(self) -> tuple[str, QuorumNode] | None:
        name = self._nodes.quorum_leader()
        replica = None if name is None else self._nodes.replica(name)
        return None if name is None or replica is None else (name, replica)

    def unsettled(self) -> list[tuple[str, str]]:
        """What keeps voters from being at rest: a controller, and why."""
        if self.operator is None or self._leader() is None:
            return []
        replicas = {host: self._nodes.replica(host) for host in self._hosts.values()}
        running = {host: replica for host, replica in replicas.items() if replica is not None}
        return [*self.operator.strayed(running), *self._unjoined(self.operator.voters)]

    def _unjoined(self, voters: VoterSet) -> Iterator[tuple[str, str]]:
        joined = {node.id: node.key.directory_id for node in voters}
        for node_id, host in self._hosts.items() if self._options.auto_join else ():
            if joined.get(node_id) != self._nodes.metadata_directory_of(host):
                yield host, f"has not joined the voters {voters}"

    def anomalies(self) -> list[Anomaly]:
        """Acknowledged changes that are not there, once everything is at rest."""
        operator, joins = self.operator, self._options.auto_join
        return [] if operator is None else operator.anomalies(PARTITION, joins_by_itself=joins)

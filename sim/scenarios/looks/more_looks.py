"""Looks that need more of the world than its metadata: other programs, the store, the nodes themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from ....protocol.net import Address
from ...judges.core.truth import ClusterTruth
from ...machine.world import World
from ..cluster_nodes import ClusterNodes
from ..cluster_options import BROKERS
from ..upkeep import Upkeep
from .controllers import ControllersLook
from .copies import Copies
from .ledger_snapshots import LedgerSnapshots
from .mistakes import Mistakes
from .own_log import OwnLog
from .upgraded_groups import UpgradedGroups

Look = Callable[[], Awaitable[list[str]]]
"""Asks, and returns what is wrong, a line each."""


def more_looks(
    world: World, nodes: ClusterNodes, truth: ClusterTruth, upkeep: Upkeep, has_lost: Callable[[str], bool]
) -> Mapping[str, Look]:
    """Return them by name, in their order; `has_lost`: a topic may have lost something."""
    hosts = {broker_id: name for name, broker_id in BROKERS.items()}
    copies = Copies(world, truth, nodes.brokers, hosts, has_lost)

    def controllers() -> Mapping[int, Address]:
        return {node_id: Address(host, nodes.ports[host]) for host, node_id in nodes.controller_ids.items()}

    def active() -> int | None:
        leader = nodes.quorum_leader()
        return None if leader is None else nodes.controller_ids[leader]

    snapshots = LedgerSnapshots(
        nodes.brokers,
        lambda broker_id: world.host(hosts[broker_id]).process,
        lambda broker_id: upkeep.renew(hosts[broker_id]),
        world.rng("ledger snapshots"),
    )
    return {
        "tier": copies.tier,
        "followed": copies.followed,
        "own log": OwnLog(world).look,
        "controllers": ControllersLook(truth, controllers, active, world.rng("looks at controllers")).look,
        "mistakes": Mistakes(truth, world.rng("mistakes")).look,
        "upgraded groups": UpgradedGroups(truth, has_lost, world.rng("upgraded groups")).look,
        "ledger snapshots": snapshots.look,
    }

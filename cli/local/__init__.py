"""Clusters of processes on loopback, for `cluster up`, demos, benchmarks and tests.

cluster       starts broker processes.
quorum        starts controller processes.
servers       starts processes with both roles.
nodes         starts nodes of one kind below one base directory.
processes     starts, kills and waits for child processes.
security      secures a cluster: certificates, passwords, properties.
certificates  makes the certificates of a demo or a test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .cluster import BrokerFailedError, LocalCluster, TierSettings
    from .nodes import LocalNodes, NodeFailedError
    from .processes import Child, captured, end_with_parent, free_ports, poll, taken_port
    from .quorum import ControllerFailedError, LocalQuorum
    from .security import LocalSecurity
    from .servers import LocalServers

__all__ = [
    "BrokerFailedError",
    "Child",
    "ControllerFailedError",
    "LocalCluster",
    "LocalNodes",
    "LocalQuorum",
    "LocalSecurity",
    "LocalServers",
    "NodeFailedError",
    "TierSettings",
    "captured",
    "end_with_parent",
    "free_ports",
    "poll",
    "taken_port",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "BrokerFailedError": "cluster",
            "Child": "processes",
            "ControllerFailedError": "quorum",
            "LocalCluster": "cluster",
            "LocalNodes": "nodes",
            "LocalQuorum": "quorum",
            "LocalSecurity": "security",
            "LocalServers": "servers",
            "NodeFailedError": "nodes",
            "TierSettings": "cluster",
            "captured": "processes",
            "end_with_parent": "processes",
            "free_ports": "processes",
            "poll": "processes",
            "taken_port": "processes",
        },
    )

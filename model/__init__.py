"""A model of a cluster: how long broker replacement, rebalance and failover take, and what they cost. Pure.

inventory    reads a cluster that a person or a capture wrote (YAML or JSON), and validates it.
inventory_parts  holds its values: brokers, racks, tier, topics, partitions.
checks       finds contradictions and doubtful figures in an inventory.
complaints   words pydantic's errors in terms of the document.
units        parses quantities such as "2 TiB" and "10 Gbit/s".
arrays       holds the same cluster as numpy arrays, for the planner and the engine.
moves        holds the replicas that a plan builds.
bootstraps   computes what a new replica reads from its leader and from the tier, by policy.
engine       simulates the moves as flows that share resources.
resources    declares those resources: NIC, disk, CPU, throttles, racks, tier.
fair_share   computes max-min fair rates.
connections  groups the replicas that share one fetch connection.
tiering      computes how much of a partition waits for its upload.
warming      computes how long thin replicas take to warm.
failures     computes who leads when brokers die, and who carries their load.
recorder     records peaks and bytes by broker over time.
results      holds the engine's answer.
measures     derives what people ask for: under-replication, risk, peaks, headroom, cost.
calibration  holds the measured constants of machines and systems.
growth       adds brokers to a cluster.
synthetic    generates clusters from a few figures.
sweep        runs one case of a sweep: one cluster, one failure, one policy.

Other folders import the names below: the cluster, the constants, and their errors. What computes needs numpy, and is
imported from its module: `arrays`, `moves`, `engine`, `failures`, `growth`, `synthetic`, `sweep`.
"""

from __future__ import annotations

from .calibration import Calibration, CalibrationError, Calibrations, MachineRates, System
from .complaints import complaint, located
from .inventory import Inventory, InventoryError
from .inventory_parts import Broker, Partition, Policy, Topic
from .units import Bytes, Capacity

__all__ = [
    "Broker",
    "Bytes",
    "Calibration",
    "CalibrationError",
    "Calibrations",
    "Capacity",
    "Inventory",
    "InventoryError",
    "MachineRates",
    "Partition",
    "Policy",
    "System",
    "Topic",
    "complaint",
    "located",
]

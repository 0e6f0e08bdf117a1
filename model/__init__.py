"""A model of a cluster: how long broker replacement, rebalance and failover take, and what they cost. Pure.

predicting   is what embedding programs call: `predict_replacement`, `predict_death`.
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

Other folders import what is exported here. All but units and complaints is imported when it is asked for: commands
that need only those start sooner, and what computes needs numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..doors import lazy_door
from .complaints import complaint, located
from .units import Bytes, Capacity

if TYPE_CHECKING:
    from .arrays import NO_BROKER, Bools, ClusterArrays, Floats, Ints, sums
    from .bootstraps import Bootstraps, bootstraps_of
    from .calibration import Calibration, CalibrationError, Calibrations, MachineRates, System
    from .engine import simulate
    from .failures import Death, predict_failover, unavailable_s
    from .growth import with_new_brokers
    from .inventory import Inventory, InventoryError
    from .inventory_parts import Broker, Partition, Policy, Topic
    from .moves import Moves, moves_between, replacement_moves
    from .predicting import (
        FailoverPrediction,
        ReplacementPrediction,
        predict_death,
        predict_replacement,
        read_cluster,
    )
    from .results import ModelResult, Obstacle
    from .sweep import RESULT_FIELDS, run_case, sweep_cases
    from .synthetic import total_by_broker

__all__ = [
    "NO_BROKER",
    "RESULT_FIELDS",
    "Bools",
    "Bootstraps",
    "Broker",
    "Bytes",
    "Calibration",
    "CalibrationError",
    "Calibrations",
    "Capacity",
    "ClusterArrays",
    "Death",
    "FailoverPrediction",
    "Floats",
    "Ints",
    "Inventory",
    "InventoryError",
    "MachineRates",
    "ModelResult",
    "Moves",
    "Obstacle",
    "Partition",
    "Policy",
    "ReplacementPrediction",
    "System",
    "Topic",
    "bootstraps_of",
    "complaint",
    "located",
    "moves_between",
    "predict_death",
    "predict_failover",
    "predict_replacement",
    "read_cluster",
    "replacement_moves",
    "run_case",
    "simulate",
    "sums",
    "sweep_cases",
    "total_by_broker",
    "unavailable_s",
    "with_new_brokers",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "Bools": "arrays",
            "Bootstraps": "bootstraps",
            "Broker": "inventory_parts",
            "Calibration": "calibration",
            "CalibrationError": "calibration",
            "Calibrations": "calibration",
            "ClusterArrays": "arrays",
            "Death": "failures",
            "FailoverPrediction": "predicting",
            "Floats": "arrays",
            "Ints": "arrays",
            "Inventory": "inventory",
            "InventoryError": "inventory",
            "MachineRates": "calibration",
            "ModelResult": "results",
            "Moves": "moves",
            "NO_BROKER": "arrays",
            "Obstacle": "results",
            "Partition": "inventory_parts",
            "Policy": "inventory_parts",
            "RESULT_FIELDS": "sweep",
            "ReplacementPrediction": "predicting",
            "System": "calibration",
            "Topic": "inventory_parts",
            "bootstraps_of": "bootstraps",
            "moves_between": "moves",
            "predict_death": "predicting",
            "predict_failover": "failures",
            "predict_replacement": "predicting",
            "read_cluster": "predicting",
            "replacement_moves": "moves",
            "run_case": "sweep",
            "simulate": "engine",
            "sums": "arrays",
            "sweep_cases": "sweep",
            "total_by_broker": "synthetic",
            "unavailable_s": "failures",
            "with_new_brokers": "growth",
        },
    )

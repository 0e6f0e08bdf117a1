"""A model of a cluster: how long broker replacement, rebalance and failover take, and what they cost. Pure.

predicting   is what embedding programs call: `predict_replacement`, `predict_death`.
inventory    reads a cluster that a person or a capture wrote (YAML or JSON), and validates it.
inventory_parts  holds its values: brokers, racks, tier, topics, partitions.
checks       finds contradictions and doubtful figures in an inventory.
complaints   words pydantic's errors in terms of the document.
unsure       holds the figures of an inventory that are ranges.
uncertainty  predicts with a range: simulates at either end of what is not known exactly.
replicas/    knows what throttles let through, and how sure each replica's time is.
core/        says where a prediction's seconds go, and how sure it is.
units        parses quantities such as "2 TiB" and "10 Gbit/s".
arrays       holds the same cluster as numpy arrays, for the planner and the engine.
moves        holds the replicas that a plan builds.
bootstraps   computes what a new replica reads from its leader and from the tier, by policy.
engine       simulates the moves as flows that share resources.
resources    declares those resources: NIC, disk, CPU, throttles, racks' uplinks and links, tier.
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
    from .calibration import Calibration, CalibrationError, Calibrations, MachineRates, Spread, System
    from .core import (
        CAUSES,
        Cause,
        Correction,
        Effect,
        Lesson,
        Outlook,
        Past,
        Range,
        Seconds,
        Sight,
        combined,
        corrected,
        history_of,
        learned,
        parse_history,
        seconds_of,
    )
    from .engine import simulate
    from .failures import Death, most_live, predict_failover, unavailable_range, unavailable_s
    from .growth import with_new_brokers
    from .inventory import Inventory, InventoryError
    from .inventory_parts import Broker, LogDir, Partition, Policy, Topic
    from .moves import Moves, moves_between, replacement_moves
    from .predicting import (
        FailoverPrediction,
        ReplacementPrediction,
        predict_death,
        predict_replacement,
        read_cluster,
    )
    from .resources import MOVES_SHARE_MIN, BetweenRacks, foreground_between_racks
    from .results import ModelResult, Obstacle
    from .sweep import RESULT_FIELDS, run_case, sweep_cases
    from .synthetic import total_by_broker
    from .uncertainty import Prediction, at_worst, outlook_of, predict

__all__ = [
    "CAUSES",
    "MOVES_SHARE_MIN",
    "NO_BROKER",
    "RESULT_FIELDS",
    "BetweenRacks",
    "Bools",
    "Bootstraps",
    "Broker",
    "Bytes",
    "Calibration",
    "CalibrationError",
    "Calibrations",
    "Capacity",
    "Cause",
    "ClusterArrays",
    "Correction",
    "Death",
    "Effect",
    "FailoverPrediction",
    "Floats",
    "Ints",
    "Inventory",
    "InventoryError",
    "Lesson",
    "LogDir",
    "MachineRates",
    "ModelResult",
    "Moves",
    "Obstacle",
    "Outlook",
    "Partition",
    "Past",
    "Policy",
    "Prediction",
    "Range",
    "ReplacementPrediction",
    "Seconds",
    "Sight",
    "Spread",
    "System",
    "Topic",
    "at_worst",
    "bootstraps_of",
    "combined",
    "complaint",
    "corrected",
    "foreground_between_racks",
    "history_of",
    "learned",
    "located",
    "most_live",
    "moves_between",
    "outlook_of",
    "parse_history",
    "predict",
    "predict_death",
    "predict_failover",
    "predict_replacement",
    "read_cluster",
    "replacement_moves",
    "run_case",
    "seconds_of",
    "simulate",
    "sums",
    "sweep_cases",
    "total_by_broker",
    "unavailable_range",
    "unavailable_s",
    "with_new_brokers",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "BetweenRacks": "resources",
            "Bools": "arrays",
            "Bootstraps": "bootstraps",
            "Broker": "inventory_parts",
            "CAUSES": "core",
            "Calibration": "calibration",
            "CalibrationError": "calibration",
            "Calibrations": "calibration",
            "Cause": "core",
            "ClusterArrays": "arrays",
            "Correction": "core",
            "Death": "failures",
            "Effect": "core",
            "FailoverPrediction": "predicting",
            "Floats": "arrays",
            "Ints": "arrays",
            "Inventory": "inventory",
            "InventoryError": "inventory",
            "Lesson": "core",
            "LogDir": "inventory_parts",
            "MOVES_SHARE_MIN": "resources",
            "MachineRates": "calibration",
            "ModelResult": "results",
            "Moves": "moves",
            "NO_BROKER": "arrays",
            "Obstacle": "results",
            "Outlook": "core",
            "Partition": "inventory_parts",
            "Past": "core",
            "Policy": "inventory_parts",
            "Prediction": "uncertainty",
            "RESULT_FIELDS": "sweep",
            "Range": "core",
            "ReplacementPrediction": "predicting",
            "Seconds": "core",
            "Sight": "core",
            "Spread": "calibration",
            "System": "calibration",
            "Topic": "inventory_parts",
            "at_worst": "uncertainty",
            "bootstraps_of": "bootstraps",
            "combined": "core",
            "corrected": "core",
            "foreground_between_racks": "resources",
            "history_of": "core",
            "learned": "core",
            "moves_between": "moves",
            "outlook_of": "uncertainty",
            "parse_history": "core",
            "predict": "uncertainty",
            "predict_death": "predicting",
            "predict_failover": "failures",
            "predict_replacement": "predicting",
            "read_cluster": "predicting",
            "replacement_moves": "moves",
            "run_case": "sweep",
            "seconds_of": "core",
            "simulate": "engine",
            "sums": "arrays",
            "sweep_cases": "sweep",
            "total_by_broker": "synthetic",
            "most_live": "failures",
            "unavailable_range": "failures",
            "unavailable_s": "failures",
            "with_new_brokers": "growth",
        },
    )

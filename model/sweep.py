"""One cluster, one failure, one policy: a case. Thousands of them, anywhere: plain values in, plain values out.

    for case in sweep_cases(1000, seed=7):
        row = run_case(case)

`run_case` is a pure function of its case, picklable and without I/O, so that any engine may spread it over machines.
`CASE_FIELDS` and `RESULT_FIELDS` list the columns and their types.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from .calibration import Calibrations
from .engine import simulate
from .inventory_parts import Policy
from .moves import replacement_moves
from .results import Obstacle
from .synthetic import Shape, synthetic_cluster

CASE_FIELDS: Final = (
    ("case_id", "int"),
    ("cluster_id", "int"),
    ("seed", "int"),
    ("policy", "str"),
    ("brokers", "int"),
    ("racks", "int"),
    ("partitions", "int"),
    ("replication_factor", "int"),
    ("failed_brokers", "int"),
    ("produce_bytes_per_s", "float"),
    ("retention_h", "float"),
    ("local_retention_h", "float"),
    ("tiered_share", "float"),
    ("segment_bytes", "float"),
    ("nic_bytes_per_s", "float"),
    ("disk_bytes_per_s", "float"),
    ("throttle_bytes_per_s", "float"),
    ("tier_latency_ms", "float"),
)
"""(name, type). A throttle of 0 is none."""

RESULT_FIELDS: Final = (
    *CASE_FIELDS,
    ("moves", "int"),
    ("never_join", "int"),
    ("no_leader", "int"),
    ("duration_s", "float"),
    ("median_join_s", "float"),
    ("leader_bytes", "float"),
    ("tier_bytes", "float"),
    ("tier_gets", "int"),
    ("held_bytes", "float"),
    ("urp_minutes", "float"),
    ("below_min_isr_s", "float"),
    ("request_cost", "float"),
)
"""`duration_s`, `median_join_s`, `urp_minutes` and `below_min_isr_s` are None where a replica never joins. `held_bytes`
is what the failed brokers' replicas had locally, as the leaders have it."""

POLICIES: Final = (Policy.LOCAL_LOG_START.value, Policy.TIER_FIRST.value)
_SHAPE_KEYS: Final = tuple(
    name
    for name, _ in CASE_FIELDS
    if name not in ("case_id", "cluster_id", "policy", "failed_brokers", "throttle_bytes_per_s")
)
_BROKERS: Final = (6, 12, 30, 60, 120, 300, 600, 999)
_PARTITIONS_PER_BROKER: Final = (50, 100, 300, 1000)
_MB: Final = 1e6
_DISK_SHARE_MAX: Final = 0.5
RESOLUTION: Final = 0.01
"""The engine's resolution. Times are off by up to 3 %, which no distribution shows; runs take half as long."""


def run_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the case's failed brokers, all at once. KeyError or ValueError names what is wrong with the case."""
    missing = [name for name, _ in CASE_FIELDS if name not in case]
    if missing:
        raise KeyError(f"a case needs {', '.join(missing)}")
    shape = {name: case[name] for name in _SHAPE_KEYS}
    throttle = case["throttle_bytes_per_s"] or math.inf
    arrays = synthetic_cluster(Shape(**shape, throttle_bytes_per_s=throttle))
    rng = np.random.default_rng([case["seed"], case["failed_brokers"]])
    failed = rng.choice(arrays.broker_count, size=case["failed_brokers"], replace=False)
    policy = Policy(case["policy"])
    moves = replacement_moves(arrays, *failed.tolist())
    result = simulate(arrays, moves, policy, Calibrations.default().of(policy), resolution=RESOLUTION)
    return {
        **{name: case[name] for name, _ in CASE_FIELDS},
        "moves": len(moves),
        "never_join": int((~result.joins).sum()),
        "no_leader": int((result.obstacle == Obstacle.NO_LEADER).sum()),
        "duration_s": _finite(result.duration_s),
        "median_join_s": _finite(float(np.median(result.joined_s))) if len(moves) else 0.0,
        "leader_bytes": result.leader_bytes,
        "tier_bytes": float(result.tier_bytes.sum()),
        "tier_gets": int(result.tier_gets.sum()),
        "held_bytes": float(arrays.local_bytes[moves.partition].sum()),
        "urp_minutes": _finite(result.urp_minutes),
        "below_min_isr_s": _finite(result.below_min_isr_longest_s),
        "request_cost": result.request_cost,
    }


def sweep_cases(count: int, *, seed: int = 1, policies: Sequence[str] = POLICIES) -> Iterator[dict[str, Any]]:
    """`count` random clusters and failures, each once for each policy; the same for the same seed."""
    case_id = 0
    for cluster_id in range(count):
        cluster = _cluster(np.random.default_rng([seed, cluster_id]), cluster_id)
        for policy in policies:
            yield {"case_id": case_id, **cluster, "policy": policy}
            case_id += 1


def _cluster(rng: np.random.Generator, cluster_id: int) -> dict[str, Any]:
    """A cluster whose foreground takes 2 to 30 % of its network, or of half of its disks, so that it could run."""
    brokers = int(rng.choice(_BROKERS))
    nic = float(rng.choice([312.5e6, 1.25e9, 3.125e9]))
    retention_h = float(rng.choice([24, 72, 168, 720]))
    replication_factor = int(rng.choice([2, 3], p=[0.2, 0.8]))
    out_per_byte = replication_factor + 1
    disk = float(rng.choice([250 * _MB, 1000 * _MB, 2000 * _MB]))
    affordable = min(nic / out_per_byte, _DISK_SHARE_MAX * disk / replication_factor)
    produce = brokers * affordable * float(rng.uniform(0.02, 0.3))
    return {
        "cluster_id": cluster_id,
        "seed": int(rng.integers(1 << 31)),
        "brokers": brokers,
        "racks": 3,
        "partitions": brokers * int(rng.choice(_PARTITIONS_PER_BROKER)) // replication_factor,
        "replication_factor": replication_factor,
        "failed_brokers": int(rng.choice([1, 2], p=[0.9, 0.1])),
        "produce_bytes_per_s": produce,
        "retention_h": retention_h,
        "local_retention_h": min(retention_h, float(rng.choice([1, 4, 12, 24, 72]))),
        "tiered_share": float(rng.choice([0.5, 0.8, 1.0])),
        "segment_bytes": float(rng.choice([128 << 20, 512 << 20, 1 << 30])),
        "nic_bytes_per_s": nic,
        "disk_bytes_per_s": disk,
        "throttle_bytes_per_s": nic * float(rng.choice([0, 0.2, 0.5], p=[0.5, 0.25, 0.25])),
        "tier_latency_ms": float(rng.choice([10, 30, 100])),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

"""What a program asks of the model (docs/library.md): a cluster in, seconds and bytes out, no arrays.

Predictions are of the model that `tierfetch model` uses, with the constants that ship with the package unless others
are given. They need the extra [model].
"""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path
from typing import Final

import numpy as np

from ..light_dataclass import dataclass
from ..protocol import OperatorError
from .arrays import ClusterArrays
from .calibration import Calibrations
from .failures import Death, most_live, predict_failover, unavailable_range
from .inventory import Inventory
from .inventory_parts import Policy
from .moves import replacement_moves
from .results import Obstacle
from .uncertainty import predict

NAMED_MAX: Final = 12
"""Brokers that an error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementPrediction:
    """Brokers die, and come back empty. Times are seconds from then on; infinite where a replica never is in sync.

    In four of five cases `all_in_sync_s` is in `all_in_sync_range_s`, which `widest_input` makes wide ("" if it is
    exact). `seconds_by_cause` says where that time goes, the longest first.

    `leader_bytes` are copied from leaders, `tier_bytes` read from the tier. `obstacles` says, by partition, why a
    replica never joins.
    """

    policy: str
    replicas: int
    all_in_sync_s: float
    all_in_sync_range_s: tuple[float, float]
    widest_input: str
    seconds_by_cause: dict[str, float]
    half_in_sync_s: float
    leader_bytes: int
    tier_bytes: int
    obstacles: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPrediction:
    """Brokers die and are not replaced. `unavailable_s`: until partitions that lost their leader have another one; in
    four of five cases it is in `unavailable_range_s`.

    `leaderless` partitions have no replica in sync left; those of `below_min_isr` refuse acks=all.
    """

    unavailable_s: float
    unavailable_range_s: tuple[float, float]
    lost_leader: int
    leaderless: tuple[str, ...]
    below_min_isr: tuple[str, ...]


def read_cluster(path: Path) -> Inventory:
    """Read a cluster as `tierfetch model capture` or a person wrote it: YAML or JSON (docs/model.md).

        cluster = read_cluster(Path("cluster.yaml"))

    Raise InventoryError, which names all that is wrong, and OSError.
    """
    return Inventory.read(path)


def predict_replacement(
    cluster: Inventory,
    brokers: Collection[int],
    *,
    policy: str | None = None,
    down_s: float = 0.0,
    calibrations: Calibrations | None = None,
) -> ReplacementPrediction:
    """Predict how long brokers that lost their disks take until they are in sync again; they start after `down_s`.

        predict_replacement(cluster, [3], policy="tier-first").all_in_sync_s

    `policy` None is the cluster's own `bootstrap_policy`. Raise OperatorError for a broker or a policy that is not
    known, CalibrationError for one of a system that was not measured.
    """
    arrays = ClusterArrays.from_inventory(cluster)
    chosen = arrays.policy if policy is None else _policy(policy)
    calibration = (calibrations or Calibrations.default()).of(chosen)
    moves = replacement_moves(arrays, *_indexes(arrays, brokers))
    found = predict(arrays, moves, chosen, calibration, down_s=down_s)
    result = found.result
    joined = np.sort(result.joined_s)
    return ReplacementPrediction(
        policy=chosen.value,
        replicas=len(moves),
        all_in_sync_s=result.duration_s,
        all_in_sync_range_s=(found.range.low, found.range.high),
        widest_input=found.range.widest,
        seconds_by_cause={cause.text: seconds for cause, seconds in result.seconds.longest_first()},
        half_in_sync_s=float(joined[math.ceil(len(joined) / 2) - 1]) if len(joined) else 0.0,
        leader_bytes=round(result.leader_bytes),
        tier_bytes=round(float(result.tier_bytes.sum())),
        obstacles={
            arrays.partition_name(int(moves.partition[each])): Obstacle(result.obstacle[each]).text
            for each in np.flatnonzero(~result.joins)
        },
    )


def predict_death(
    cluster: Inventory,
    brokers: Collection[int],
    *,
    death: str = Death.PROCESS,
    calibrations: Calibrations | None = None,
) -> FailoverPrediction:
    """Predict what brokers that die and are not replaced take with them.

        predict_death(cluster, [1, 2], death="host").unavailable_s

    Of a dead "process" the listeners refuse connections, of a dead "host" nothing is heard. Raise OperatorError for a
    broker or a death that is not known.
    """
    if death not in set(Death):
        raise OperatorError(f"death {death!r}: expected one of {', '.join(Death)}")
    arrays = ClusterArrays.from_inventory(cluster)
    calibration = (calibrations or Calibrations.default()).of(arrays.policy)
    dead = _indexes(arrays, brokers)
    found = predict_failover(arrays, dead, calibration, Death(death))
    within = unavailable_range(Death(death), calibration, most_live=most_live(len(set(dead)), arrays.broker_count))
    return FailoverPrediction(
        unavailable_s=found.unavailable_s,
        unavailable_range_s=(within.low, within.high),
        lost_leader=int(found.lost_leader.sum()),
        leaderless=tuple(arrays.partition_name(int(each)) for each in np.flatnonzero(found.is_leaderless)),
        below_min_isr=tuple(arrays.partition_name(int(each)) for each in np.flatnonzero(found.below_min_isr)),
    )


def _policy(name: str) -> Policy:
    try:
        return Policy(name)
    except ValueError:
        raise OperatorError(f"policy {name!r}: expected one of {', '.join(Policy)}") from None


def _indexes(arrays: ClusterArrays, brokers: Collection[int]) -> list[int]:
    known = set(arrays.broker_ids.tolist())
    if not brokers or not known.issuperset(brokers):
        named = ", ".join(map(str, sorted(known)[:NAMED_MAX]))
        raise OperatorError(
            f"brokers {sorted(brokers)}: expected some of {arrays.name}, which has {len(known)}: {named}"
        )
    return [arrays.broker_index(each) for each in brokers]

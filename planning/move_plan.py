"""What a program asks of the planner (docs/library.md): a cluster and a goal in, a plan out, no arrays.

The plan is the one that `tierfetch reassign plan` makes, and its JSON is what `tierfetch reassign execute` and
`kafka-reassign-partitions` take. It needs the extra [model].
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from ..light_dataclass import dataclass
from ..model import ClusterArrays, Inventory
from .goals import Goal, PlanError, PlanOptions
from .plan_arrays import plan_file_of
from .planner import plan_replicas

NOTHING: Final = '{"version": 1, "partitions": []}\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """`replicas` has the brokers of each partition that moves, by topic and number, the preferred leader first.

    `copied_bytes` go over the network, in `waves` one after another, at most `throttle_bytes_per_s` for each broker;
    None: no capacity is known, and no throttle was given. `json` is the file.
    """

    replicas: Mapping[tuple[str, int], tuple[int, ...]]
    copied_bytes: int
    waves: int
    throttle_bytes_per_s: float | None
    warnings: tuple[str, ...]
    json: str


def plan_moves(
    cluster: Inventory,
    *,
    replace: Mapping[int, int] | None = None,
    remove: Collection[int] = (),
    add: Collection[int] = (),
    options: PlanOptions | None = None,
) -> MovePlan:
    """Plan a move of replicas with as few bytes as possible. Without a goal the brokers are filled evenly.

        plan_moves(cluster, replace={3: 7}).copied_bytes

    `replace` gives what a broker has to its successor, `remove` empties brokers, `add` fills new ones; all are ids of
    the cluster. Raise PlanError for two goals at once, for a broker that is not there, and where there is no plan.
    """
    if sum(map(bool, (replace, remove, add))) > 1:
        raise PlanError("replace, remove and add: expected one of them")
    arrays = ClusterArrays.from_inventory(cluster)
    plan = plan_replicas(arrays, _goal(arrays, replace or {}, remove, add), options)
    file = plan_file_of(arrays, plan) if len(plan.changed) else None
    throttle = plan.throttle_bytes_per_s
    return MovePlan(
        replicas={} if file is None else {each.key: each.replicas for each in file.partitions},
        copied_bytes=0 if file is None else sum(file.details.size_bytes),
        waves=plan.wave_count,
        throttle_bytes_per_s=throttle if np.isfinite(throttle) else None,
        warnings=plan.warnings,
        json=NOTHING if file is None else file.to_text(),
    )


def _goal(arrays: ClusterArrays, replace: Mapping[int, int], remove: Collection[int], add: Collection[int]) -> Goal:
    def index(broker: int) -> int:
        try:
            return arrays.broker_index(broker)
        except KeyError as error:
            raise PlanError(str(error.args[0])) from None

    if replace:
        return Goal.replace({index(old): index(new) for old, new in replace.items()})
    if remove:
        return Goal.remove(map(index, remove))
    if add:
        return Goal.add(map(index, add))
    return Goal.rebalance()

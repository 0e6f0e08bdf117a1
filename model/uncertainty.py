"""A prediction with its range: the simulation, once more at either end of each input that is not known exactly.

    input                           effect on the time
    ------------------------------  ------------------------------------------------------------------------------------
    a range of the inventory        simulated with its lowest and highest value; the same key of all brokers together
    runs, model, first, load        factors of `calibration.Spread`, on the seconds that machines decide: start, set-up,
                                    tier, fetches, CPU, ISR; `model` on links and disks too, `runs` on disks, both on
                                    the beginning of waves
    throttle                        its factor, on the seconds that the throttle decides

How effects make a range: core/ranges.py; that of each replica: replicas/joining.py. Everything is decided by the
inputs: nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ..light_dataclass import dataclass
from .arrays import ClusterArrays, Floats
from .calibration import Calibration, Spread
from .core import EXACT, Effect, Outlook, Range, Seconds, Sight, combined
from .engine import RESOLUTION, simulate
from .inventory_parts import Policy
from .moves import Moves
from .replicas import MACHINE, Factors, Joining, factors_of, joining_of
from .results import ModelResult
from .unsure import End, Unsure, groups

COURSE_INSTANTS: Final = 50
_ENDS: Final[tuple[End, End]] = ("low", "high")
_FIELDS: Final = {
    "nic_in_bytes_per_s": "nic_in",
    "nic_out_bytes_per_s": "nic_out",
    "disk_read_bytes_per_s": "disk_read",
    "disk_write_bytes_per_s": "disk_write",
    "cores": "cores",
    "uplink_out_bytes_per_s": "uplink_out",
    "uplink_in_bytes_per_s": "uplink_in",
}


@dataclass(frozen=True, eq=False, slots=True)
class Prediction:
    """`range` is that of the time until the last replica is in sync, `joining` has that of each."""

    result: ModelResult
    calibration: Calibration
    range: Range
    joining: Joining


def predict(
    arrays: ClusterArrays,
    moves: Moves,
    policy: Policy,
    calibration: Calibration,
    *,
    down_s: float = 0.0,
    resolution: float = RESOLUTION,
) -> Prediction:
    """Return what `simulate` returns, and how sure it is."""

    def run(cluster: ClusterArrays) -> ModelResult:
        return simulate(cluster, moves, policy, calibration, down_s=down_s, resolution=resolution)

    result = run(arrays)
    median_s = result.duration_s
    if not 0 < median_s < np.inf:
        exact = replace(EXACT, low=median_s, median=median_s, high=median_s)
        return Prediction(result, calibration, exact, joining_of(result, calibration.spread))
    effects = spread_effects(result.seconds, calibration.spread)
    ends_s = []
    for name, members in groups(arrays.unsure):
        low, high = (run(with_end(arrays, members, end)) for end in _ENDS)
        effects.append(Effect.between(name, median_s, low.duration_s, high.duration_s))
        ends_s.append((low.joined_s, high.joined_s))
    return Prediction(result, calibration, combined(median_s, effects), joining_of(result, calibration.spread, ends_s))


def outlook_of(arrays: ClusterArrays, found: Prediction, work: Floats, waits_s: float = 0.0) -> Outlook | None:
    """Return what is kept of a prediction, to follow its moves by; None where it has no end. `work` [M] is what each
    move counts in how far it is, `waits_s` what passes before the first begins.
    """
    result = found.result
    if not 0 < found.range.median < np.inf:
        return None
    at_s = np.linspace(0.0, result.duration_s, COURSE_INSTANTS + 1)[1:]
    takes_s = np.maximum(result.joined_s - result.first_fetch_s, 1e-9)
    shares = np.clip((at_s[:, None] - result.first_fetch_s) / takes_s, 0.0, 1.0) @ (work / work.sum())
    throttle = arrays.throttle_bytes_per_s
    return Outlook.of(
        found.range,
        [Sight(*each) for each in zip(at_s.tolist(), shares.tolist(), strict=True)],
        system=found.calibration.system,
        machine_s=result.seconds.of(*MACHINE),
        base=found.calibration.base,
        scale=found.calibration.scale,
        throttle_bytes_per_s=max(1, int(throttle)) if np.isfinite(throttle) else None,
        moves=len(work),
        waits_s=waits_s,
    )


def spread_effects(seconds: Seconds, spread: Spread) -> list[Effect]:
    """Return what the spread of machines and of the model does to a time that goes there."""
    return [_partial(each, seconds) for each in factors_of(spread)]


def _partial(factors: Factors, seconds: Seconds) -> Effect:
    """Return the effect of factors on a part of the time."""
    part = seconds.of(*factors.causes) / seconds.total if seconds.total > 0 else 0.0
    return Effect(factors.name, 1 - part * (1 - 1 / factors.quicker), 1 + part * (factors.slower - 1))


def at_worst(arrays: ClusterArrays) -> ClusterArrays:
    """Return the cluster with as little capacity, and as much for producers to write, as the inventory's ranges allow:
    what must hold in any case is computed from it.
    """
    for _, members in groups(arrays.unsure):
        is_load = members[0].kind == "partition" or members[0].key == "latency_ms"
        arrays = with_end(arrays, members, "high" if is_load else "low")
    return arrays


def with_end(arrays: ClusterArrays, members: Sequence[Unsure], end: End) -> ClusterArrays:
    """Return the cluster in which these figures are as low, or as high, as they may be."""
    changes: dict[str, Any] = {}
    for each in members:
        value = each.at(end)
        match each.kind:
            case "broker":
                field = _FIELDS[each.key]
                values = changes.setdefault(field, getattr(arrays, field).copy())
                values[arrays.broker_ids == each.broker] = value
            case "rack":
                field = _FIELDS[each.key]
                values = changes.setdefault(field, getattr(arrays, field).copy())
                values[arrays.rack_names.index(str(each.rack))] = value
            case "link":
                is_latency = each.key == "latency_ms"
                field = "link_latency_s" if is_latency else "link_bytes_per_s"
                values = changes.setdefault(field, getattr(arrays, field).copy())
                at = arrays.rack_names.index(str(each.from_rack)), arrays.rack_names.index(str(each.to_rack))
                values[at] = value / 1000 if is_latency else value
            case "partition":
                values = changes.setdefault("produce", arrays.produce.copy())
                is_topic = np.array([name == each.topic for name in arrays.topic_names], dtype=np.bool_)
                values[is_topic[arrays.topic] & (arrays.index == each.partition)] = value
            case "tier":
                tier = changes.get("tier", arrays.tier)
                changes["tier"] = tier.model_copy(update={each.key: value})
    return replace(arrays, **changes)

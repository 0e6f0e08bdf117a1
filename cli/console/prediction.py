"""What the model says of a broker that dies and comes back empty, on the live cluster as it is now.

The cluster is captured as `tierfetch model capture --window 0` does it. What no request returns comes from the
operator; figures that are missing are named, with what they are, and then there is no outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...byte_text import size
from ...console import UnknownNameError, in_thread
from ...console.core import Prediction
from ...extras import needing
from ...model import CalibrationError, Calibrations, Inventory, Policy
from ..cluster_session import Admin
from ..model.estimate import FILL_IN, SIZE_UNKNOWN, TIER_UNKNOWN, UNKNOWN_TO_ALL, Captured, capture
from ..model.observe import Observer
from ..model.quantities import between, count, duration

FIGURES: Final[Mapping[str, str]] = {
    **UNKNOWN_TO_ALL,
    **{f"tier.{key}": what for key, what in TIER_UNKNOWN.items()},
    "disk_bytes": "size of its disks, such as 2 TiB",
}
"""What a reader of the page may fill in, as `model capture --known` takes it."""

ASSUMED: Final[Mapping[str, str]] = {
    "nic_in_bytes_per_s": "10 Gbit/s",
    "nic_out_bytes_per_s": "10 Gbit/s",
    "disk_read_bytes_per_s": "500 MB/s",
    "disk_write_bytes_per_s": "250 MB/s",
    "cores": "16",
    "tier.latency_ms": "30",
    "tier.bandwidth_bytes_per_s": "100 Gbit/s",
    "disk_bytes": "2 TiB",
}
"""What the page takes for figures that are not given, and says that it took: a machine that is often rented."""


async def predicted(admin: Admin, broker: int, known: Mapping[str, str]) -> Prediction:
    """UnknownNameError; InventoryError for a figure that makes no sense; MissingExtraError; KafkaError, OSError."""
    snapshot = await Observer(admin).everything()
    if broker not in snapshot.brokers and broker not in snapshot.racks:
        raise UnknownNameError(f"there is no broker {broker}")
    captured = capture(snapshot, None, {key: value for key, value in known.items() if key in FIGURES}, "cluster")
    missing = _missing(captured)
    if missing:
        return Prediction(broker=broker, missing=missing, notes=captured.remarks)
    return await in_thread(_simulated, broker, captured)


def _missing(captured: Captured) -> dict[str, str]:
    """The figures that are needed and not known, by key."""
    document = captured.document
    found = [key for key, value in document["broker_defaults"].items() if value == FILL_IN]
    found += [f"tier.{key}" for key, value in document.get("tier", {}).items() if value == FILL_IN]
    if any(each.get("disk_bytes") == FILL_IN for each in document["brokers"]):
        found.append("disk_bytes")
    missing = {key: FIGURES[key] for key in found}
    if captured.unsized:
        missing["sizes"] = f"{'; '.join(SIZE_UNKNOWN.values())} of {count(len(captured.unsized), 'partition')}: use"
        missing["sizes"] += " tierfetch model capture, and write them into its file"
    return missing


def _simulated(broker: int, captured: Captured) -> Prediction:
    """One outcome for each policy whose system was measured."""
    with needing("model"):
        from ...model import ClusterArrays, predict, replacement_moves
        from ..model.document import model_document
    inventory = Inventory.from_document(captured.document)
    arrays = ClusterArrays.from_inventory(inventory)
    moves = replacement_moves(arrays, arrays.broker_index(broker))
    calibrations = Calibrations.default()
    results = []
    for policy in (arrays.policy, *(each for each in Policy if each is not arrays.policy)):
        try:
            calibration = calibrations.of(policy)
        except CalibrationError:
            continue
        results.append(predict(arrays, moves, policy, calibration))
    if not results:
        return Prediction(broker=broker, notes=("no policy's system was measured: tierfetch model calibrate",))
    document = model_document("replace", "", arrays, results, inventory.warnings())
    outcomes = tuple(
        {
            "policy": each.policy,
            "replicas": f"{each.moves:,}",
            "all in sync after": duration(each.duration_s),
            "in four of five cases": between(each.duration_range.low, each.duration_range.high),
            "half after": duration(each.median_join_s),
            "from leaders": size(each.leader_bytes),
            "from the tier": size(each.tier_bytes),
            "never in sync": f"{each.never_join:,}",
        }
        for each in document.outcomes
    )
    seconds = {each.policy: each.duration_s for each in document.outcomes if each.duration_s is not None}
    return Prediction(broker=broker, outcomes=outcomes, seconds=seconds, notes=(*captured.remarks, *document.warnings))

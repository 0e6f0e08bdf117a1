"""Small clusters and a calibration in round figures, so that expected times can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tierfetch.model.arrays import ClusterArrays
from tierfetch.model.calibration import Calibration
from tierfetch.model.inventory import Inventory

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "cluster.yaml"

MB = 1e6
GB = 1e9

PLAIN = Calibration(
    system="tierfetch",
    start_s=0.0,
    setup_s=0.0,
    setup_parallel=1,
    setup_round_trips=0,
    aux_s=0.0,
    aux_gets=0,
    aux_bytes=0.0,
    retry_s=0.0,
    fetch_bytes_per_s=1e12,
    fetchers=1,
    leader_cpu_s_per_gb=0.0,
    follower_cpu_s_per_gb=0.0,
    isr_expansion_s=0.0,
    session_timeout_s=9.0,
    election_s=1.0,
)
"""Nothing takes time but the bytes."""


def broker(id_: int, rack: str = "", **rates: Any) -> dict[str, Any]:
    """1 GB/s of everything, unless said otherwise."""
    return {
        "id": id_,
        "rack": rack,
        "nic_in_bytes_per_s": GB,
        "nic_out_bytes_per_s": GB,
        "disk_read_bytes_per_s": GB,
        "disk_write_bytes_per_s": GB,
        "cores": 8,
        "disk_bytes": 1e15,
        **rates,
    }


def partition(index: int, replicas: Sequence[int], size_gb: float = 1.0, **keys: Any) -> dict[str, Any]:
    return {"index": index, "replicas": list(replicas), "size_bytes": size_gb * GB, **keys}


def document(brokers: Any, partitions: Any, *, topic: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    """One topic "t". `brokers`: how many, or a list."""
    listed = [broker(number) for number in range(1, brokers + 1)] if isinstance(brokers, int) else brokers
    topics = [{"name": "t", "partitions": list(partitions), **(topic or {})}]
    return {"version": 1, "brokers": listed, "topics": topics, **keys}


def cluster(brokers: Any, partitions: Any, **keys: Any) -> ClusterArrays:
    return ClusterArrays.from_inventory(Inventory.from_document(document(brokers, partitions, **keys)))

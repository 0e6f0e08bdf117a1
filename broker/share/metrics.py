"""What a broker reports of the share groups whose partitions it leads. docs/metrics.md lists it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Final

from prometheus_client import Histogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from ...light_dataclass import dataclass
from .core.acknowledgements import AcknowledgeType
from .core.partition import SharePartition

LOAD_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


def _load_times() -> Histogram:
    return Histogram(
        "tierfetch_share_partition_load_seconds",
        "From the first fetch of a group in a partition until its state was read.",
        registry=None,
        buckets=LOAD_SECONDS,
    )


@dataclass(slots=True)
class ShareCounters:
    """Since the start of the broker."""

    acknowledged: Counter[AcknowledgeType] = field(default_factory=Counter)
    acquired_records: int = 0
    lock_timeouts: int = 0
    """Records whose lock has ended without an acknowledgement."""
    loads: Histogram = field(default_factory=_load_times)


def share_metrics(
    counters: ShareCounters, machines: Iterable[SharePartition], sessions: int, session_partitions: int
) -> Iterator[Metric]:
    """Yield the families."""
    records = batches = partitions = 0
    for machine in machines:
        partitions += 1
        records += machine.in_flight
        batches += machine.in_flight_runs
    yield GaugeMetricFamily("tierfetch_share_sessions", "Share sessions of members.", value=sessions)
    yield GaugeMetricFamily(
        "tierfetch_share_session_partitions", "Partitions of all share sessions.", value=session_partitions
    )
    yield GaugeMetricFamily("tierfetch_share_partitions", "Share-partitions that are loaded.", value=partitions)
    yield GaugeMetricFamily(
        "tierfetch_share_in_flight_records", "Records between start and end, not finished.", value=records
    )
    yield GaugeMetricFamily("tierfetch_share_in_flight_batches", "Runs of these that are alike.", value=batches)
    yield CounterMetricFamily(
        "tierfetch_share_acquired_records", "Records given to members.", value=counters.acquired_records
    )
    yield CounterMetricFamily(
        "tierfetch_share_lock_timeouts", "Records whose lock has ended.", value=counters.lock_timeouts
    )
    acknowledged = CounterMetricFamily(
        "tierfetch_share_record_acknowledgements", "Acknowledged records by type.", labels=["ack_type"]
    )
    for kind in AcknowledgeType:
        acknowledged.add_metric([kind.name.lower()], counters.acknowledged[kind])
    yield acknowledged
    yield from counters.loads.collect()

"""What every node reports of its process to Prometheus, whatever its roles."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector

from .pauses import PAUSES


def process_metrics() -> Iterator[Metric]:
    """Yield the families of the process: its pauses, and what the operating system counts of it."""
    yield from PAUSES.families()
    yield from ProcessCollector(registry=None).collect()

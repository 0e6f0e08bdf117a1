"""What a controller reports of the cluster to Prometheus, after `tierfetch_controller_`.

Every controller reports what it has replayed; what its metadata log leads to is in `quorum.metrics`. The counts come
from the image's indexes: none walks the partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from ..light_dataclass import dataclass
from .image.image import MetadataImage

PREFIX: Final = "tierfetch_controller_"


class ControllerView(Protocol):
    """What metrics need of a controller."""

    @property
    def is_active(self) -> bool: ...
    @property
    def image(self) -> MetadataImage: ...
    @property
    def applied_end(self) -> int: ...


@dataclass(frozen=True, slots=True)
class _Gauge:
    name: str
    documentation: str
    value: Callable[[ControllerView], float]


_GAUGES: Final = (
    _Gauge("active", "1 where this controller is the active one, else 0.", lambda of: of.is_active),
    _Gauge(
        "active_brokers",
        "Registered brokers that are not fenced.",
        lambda of: sum(not broker.fenced for broker in of.image.brokers.values()),
    ),
    _Gauge(
        "fenced_brokers",
        "Registered brokers that are fenced.",
        lambda of: sum(broker.fenced for broker in of.image.brokers.values()),
    ),
    _Gauge("topics", "Topics of the cluster.", lambda of: len(of.image.topics)),
    _Gauge(
        "partitions",
        "Partitions of the cluster.",
        lambda of: sum(len(topic.partitions) for topic in of.image.topics.values()),
    ),
    _Gauge("offline_partitions", "Partitions without a leader.", lambda of: len(of.image.indexes.leaderless)),
    _Gauge(
        "reassigning_partitions", "Partitions that are being reassigned.", lambda of: len(of.image.indexes.reassigning)
    ),
    _Gauge(
        "preferred_replica_imbalance",
        "Partitions that another replica than the preferred one leads, or none.",
        lambda of: len(of.image.indexes.not_preferred),
    ),
    _Gauge("last_applied_offset", "Offset of the last record that was replayed.", lambda of: of.applied_end - 1),
)


def controller_families(view: ControllerView) -> Iterator[Metric]:
    """Yield all of them, each made when it is asked for."""
    for gauge in _GAUGES:
        yield GaugeMetricFamily(PREFIX + gauge.name, gauge.documentation, value=gauge.value(view))

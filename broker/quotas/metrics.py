"""The rates of the clients that have a quota: Kafka's sensors of type Produce, Fetch and Request."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from ...protocol.net import monotonic_ms
from .clients import BrokerQuotas

CLIENTS_MAX: Final = 1_000
"""Clients of each quota that are shown: the most recently seen."""


def quota_families(quotas: BrokerQuotas) -> Iterator[Metric]:
    """Yield the families."""
    labels = ["quota", "user", "client_id"]
    rate = GaugeMetricFamily("tierfetch_quota_rate", "Rate of a client that has a quota.", labels=labels)
    waits = CounterMetricFamily("tierfetch_quota_throttles", "Responses that had a client wait.", labels=labels)
    times = CounterMetricFamily("tierfetch_quota_throttle_seconds", "How long clients had to wait.", labels=labels)
    now_ms = monotonic_ms()
    for key, sensors in quotas.sensors.items():
        for (user, client_id), sensor in islice(sensors.items(now_ms), CLIENTS_MAX):
            values = [key, user, client_id]
            rate.add_metric(values, sensor.rate.measure(now_ms))
            waits.add_metric(values, sensor.throttles)
            times.add_metric(values, sensor.throttled_ms / 1000)
    yield from (rate, waits, times)
    yield GaugeMetricFamily(
        "tierfetch_quota_exempt_rate",
        "Time of exempt requests on the event loop, in percent, while some client has a request_percentage.",
        value=quotas.exempt.measure(now_ms),
    )
    yield CounterMetricFamily(
        "tierfetch_quota_refused_connections",
        "Connections that were closed for connection_creation_rate.",
        value=quotas.refused_connections,
    )

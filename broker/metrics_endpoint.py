"""A node's endpoint for those who watch over it:

| path | answer |
|---|---|
| `/metrics` | everything that the node reports, in Prometheus's text format; totals under Kafka's names too |
| `/health` | 200 while the event loop turns: without an answer, restart the process |
| `/ready` | 200 once the node serves its part of the cluster; else 503 with what it waits for |

Only `/metrics` needs a password where there are passwords: load balancers and supervisors have none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from .http_endpoint import Answer, HttpEndpoint, Route
from .kafka_names import with_kafka_names

METRICS: Final = "/metrics"
HEALTH: Final = "/health"
READY: Final = "/ready"
_JSON: Final = "application/json"


def monitoring_endpoint(
    families: Callable[[], Iterable[Metric]], waiting_for: Callable[[], str | None] = lambda: None
) -> HttpEndpoint:
    """Return an endpoint that is not started. `families` returns the metrics, once for each scrape; `waiting_for` what
    the node waits for until it is ready, None once it is.
    """

    async def metrics() -> Answer:
        return Answer(HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, await _text(with_kafka_names(families())))

    async def health() -> Answer:
        return Answer(HTTPStatus.OK, _JSON, b'{"alive": true}\n')

    async def ready() -> Answer:
        what = waiting_for()
        if what is None:
            return Answer(HTTPStatus.OK, _JSON, b'{"ready": true}\n')
        body = json.dumps({"ready": False, "waiting_for": what}) + "\n"
        return Answer(HTTPStatus.SERVICE_UNAVAILABLE, _JSON, body.encode())

    return HttpEndpoint(
        {
            METRICS: Route(metrics),
            HEALTH: Route(health, needs_password=False),
            READY: Route(ready, needs_password=False),
        }
    )


async def _text(families: Iterable[Metric]) -> bytes:
    """Return the text of all families. Parts of one follow each other: its name and type are said once. The loop gets
    its turn after every part, so that thousands of partitions do not hold it.
    """
    parts, before = [], ""
    for family in families:
        text = generate_latest(_OneFamily(family))
        if family.name == before:
            text = text.removeprefix(generate_latest(_OneFamily(_without_samples(family))))
        before = family.name
        parts.append(text)
        await asyncio.sleep(0)
    return b"".join(parts)


def _without_samples(family: Metric) -> Metric:
    return Metric(family.name, family.documentation, family.type)


class _OneFamily(Collector):
    """What `generate_latest` takes."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)

"""The pages that a node serves beside Kafka's protocol: `/metrics`, `/health`, `/ready`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from ....broker.cluster import ClusterImage
from ...judges.core.clients.looks import Samples, wrong_metrics
from ..cluster_options import METRICS_PORT

SCRAPE_S: Final = 5.0
"""A node at rest answers a scrape within this time."""


async def wrong_pages(hosts: Mapping[int, str], image: ClusterImage) -> list[str]:
    """Return what is wrong of these brokers: that they are alive and ready at first, then what their metrics say."""
    wrong = [text for host in hosts.values() for text in await _not_ready(host)]
    return wrong or list(wrong_metrics(await _scrape(hosts), image))


async def _get(host: str, path: str) -> tuple[int, str]:
    """Return the status and the body of one path. OSError, TimeoutError."""
    async with asyncio.timeout(SCRAPE_S):
        reader, writer = await asyncio.open_connection(host, METRICS_PORT)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
    return int(head.split(b" ", 2)[1]), body.decode()


async def _scrape(hosts: Mapping[int, str]) -> dict[int, Samples]:
    """Return all samples of these brokers, each by its name and labels. OSError if one does not give them."""
    return {broker_id: await _scraped(host) for broker_id, host in hosts.items()}


async def _scraped(host: str) -> Samples:
    status, text = await _get(host, "/metrics")
    if status != HTTPStatus.OK:
        raise OSError(f"{host} answers a scrape with {status}")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def _not_ready(host: str) -> list[str]:
    """Return what a node that serves says beside being alive and ready."""
    answers = {path: await _get(host, path) for path in ("/health", "/ready")}
    return [
        f"{host}{path} answers {status}: {body.strip()}"
        for path, (status, body) in answers.items()
        if status != HTTPStatus.OK
    ]

"""The frame of the model's pages, for a reader who has never seen tierfetch: the words, the doubts, the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...byte_text import rate, size
from ...pages import Made, Markup, bullets, glossary, page, quiet, section
from .document import ClusterSummary
from .quantities import count

_GLOSSARY: Final = (
    ("in sync", "A replica that has everything its leader has acknowledged: it is in the ISR, and may lead."),
    (
        "under-replicated",
        "A partition with fewer replicas in sync than it should have. Their number times minutes: URP-minutes.",
    ),
    ("below min ISR", "Fewer in sync than min.insync.replicas: producers with acks=all are refused until one joins."),
    (
        "foreground",
        "What clients and healthy replication need: producing, consuming, following, uploading to the tier.",
    ),
    (
        "bulk",
        "What the leader had when the new replica asked where to begin; what is written after that is caught up.",
    ),
    (
        "only in the tier",
        "What the leader has on disk and the new replica has not. If that one leads, the tier serves it to readers.",
    ),
)


def whole_page(
    title: str, answer: Markup, cluster: ClusterSummary, parts: Iterable[Markup], warnings: list[str], made: Made
) -> str:
    """Return the file: title, answer, of which cluster, the parts, the words explained, what is doubtful."""
    found = [section("About the inventory", bullets(warnings))] if warnings else []
    return page(title, answer, quiet(_cluster(cluster)), [*parts, section("Words", glossary(_GLOSSARY)), *found], made)


def _cluster(cluster: ClusterSummary) -> str:
    throttle = rate(cluster.throttle_bytes_per_s) if cluster.throttle_bytes_per_s else "none"
    return (
        f"Predicted for {cluster.name}: {count(cluster.brokers, 'broker')} in {count(cluster.racks, 'rack')}, "
        f"{count(cluster.partitions, 'partition')} in {count(cluster.topics, 'topic')}, {size(cluster.local_bytes)} on "
        f"disks, {size(cluster.tiered_bytes)} in the tier, {rate(cluster.produce_bytes_per_s)} produced, replication "
        f"throttle {throttle}."
    )

"""Bodies of the requests that everybody asks who looks for a cluster's nodes and topics, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

BROKER_ENDPOINTS: Final = 1
CONTROLLER_ENDPOINTS: Final = 2
"""Whose listeners DescribeCluster tells (KIP-919)."""


def metadata_of(topics: Sequence[str] | None) -> dict[str, Any]:
    """Metadata: the brokers, and the named topics or all of them; none is created by asking."""
    return {
        "topics": None if topics is None else [{"topic_id": None, "name": name} for name in topics],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }


def cluster_of(endpoint_type: int, *, include_fenced_brokers: bool = False) -> dict[str, Any]:
    """DescribeCluster: the nodes of one kind, and the cluster's id."""
    return {
        "include_cluster_authorized_operations": False,
        "endpoint_type": endpoint_type,
        "include_fenced_brokers": include_fenced_brokers,
    }

"""Brokers whose groups begin at once, on one partition of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tierfetch.tests.broker.groups.conversation import Coordinator, ready
from tierfetch.tests.broker.nodes import Nodes

CONFIGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    nodes = Nodes(tmp_path, CONFIGS)
    yield nodes
    await nodes.close()


@pytest.fixture
async def one(nodes: Nodes) -> Coordinator:
    """The only broker, with topic "t", ready."""
    await nodes.start(1)
    await nodes.topic("t", 1)
    return await ready(nodes, 1)

"""SPEC A4: what a listener offers, it answers, in every version, with content and through a real connection.

Broker and controller are one process; the question to each API is in `api_requests`, what they speak of in `api_scene`.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tierfetch.broker.combined import CombinedNode, parse_combined
from tierfetch.broker.environment import NodeEnvironment, wall_clock_ms
from tierfetch.cli.processes import free_ports
from tierfetch.protocol.net.client import Address
from tierfetch.quorum.core.state import ReplicaKey
from tierfetch.quorum.storage.formatting import FormatOrder, format_directories, new_directory_id
from tierfetch.tests.broker.api_answers import CLOSED, answers_of, empty_places, offered
from tierfetch.tests.broker.api_requests import unasked
from tierfetch.tests.broker.api_scene import BROKER, Scene, make_scene, scene_client

pytestmark = pytest.mark.slow
CLUSTER_ID = "ZXZlcnktYXBpLWFuc3dlcg"


@asynccontextmanager
async def combined_node(base: Path) -> AsyncIterator[CombinedNode]:
    """With a tier, on ports that the system chooses."""
    broker_port, controller_port = free_ports(2)
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(BROKER),
        "listeners": f"PLAINTEXT://127.0.0.1:{broker_port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{BROKER}@127.0.0.1:{controller_port}",
        "log.dirs": str(base / "data"),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.plugin": "local",
        "rsm.config.dir": str(base / "tier"),
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.min.isr": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    }
    config, warnings = parse_combined(properties, "test")
    assert warnings == []
    machine = NodeEnvironment()
    order = FormatOrder(CLUSTER_ID, ReplicaKey(BROKER, new_directory_id(machine.rng)), config.controller.directories)
    await format_directories(machine.disk, order, ignore_formatted=True, rng=random.Random(1), now_ms=wall_clock_ms)
    await machine.disk.close()
    async with CombinedNode(config) as node:
        yield node


@asynccontextmanager
async def scene_of(node: CombinedNode) -> AsyncIterator[Scene]:
    endpoint = node.controller.config.endpoint
    client = scene_client()
    try:
        yield await make_scene(client, node.broker.address, Address(endpoint.host, endpoint.port))
    finally:
        await client.close()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with combined_node(tmp_path) as node, scene_of(node) as scene:
        yield scene


EMPTY = {
    "broker": {
        "PRODUCE topics.partitions.record_errors": "3-13",  # a batch is refused as a whole
        "PRODUCE node_endpoints": "3-13",  # nobody else leads
        "FETCH node_endpoints": "4-18",
    },
    "controller": {
        "FETCH topics": "4-11",  # KRaft needs the last fetched epoch, which came with version 12
        "FETCH node_endpoints": "4-18",
        "FETCH_SNAPSHOT node_endpoints": "1-1",
    },
}
"""The arrays of answers that hold nothing here, with versions."""


def versions_by_place(places: list[tuple[str, int]]) -> dict[str, str]:
    found: dict[str, list[int]] = {}
    for place, version in places:
        found.setdefault(place, []).append(version)
    return {place: f"{min(versions)}-{max(versions)}" for place, versions in found.items()}


@pytest.mark.parametrize("listener", ["broker", "controller"])
async def test_A4_every_api_in_every_version_answers_with_content(
    scene: Scene, listener: str, caplog: pytest.LogCaptureFixture
) -> None:
    is_controller = listener == "controller"
    ranges = await offered(scene, controller=is_controller)
    assert unasked(ranges) == set(), "APIs without a question in api_requests"
    assert {api: tuple(versions) for api, versions in ranges.items()} == {
        api: (api.min_version, api.max_version) for api in ranges
    }
    answers = await answers_of(scene, controller=is_controller)
    assert len(answers) == sum(api.max_version - api.min_version + 1 for api in ranges)
    assert [str(asked) for asked, given in answers.items() if not given or CLOSED in given] == []
    empty = [
        (f"{api.name} {place}", version) for (api, version), given in answers.items() for place in empty_places(given)
    ]
    assert versions_by_place(empty) == EMPTY[listener]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []

"""A broker and a controller with a cluster's state, and requests of any content at both for a time (`make fuzz`).

After each sequence of requests the node still serves, and in its log is no traceback and no internal error. At the end
its event loop has never stood still for longer than `PAUSE_S_MAX`.

| variable | default | |
|---|---|---|
| `FUZZ_SECONDS` | 20 | how long, both nodes together |
| `FUZZ_SEED` | 1 | the first round's seed; a round that fails names its own |
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tierfetch.cli.local.cluster import SESSION, LocalCluster, TierSettings
from tierfetch.cli.local.nodes import LocalNodes
from tierfetch.cli.local.processes import free_ports
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.messages.cluster import ApiVersionsRequest
from tierfetch.protocol.net.client import Address
from tierfetch.tests.abuse import fuzz
from tierfetch.tests.abuse.watched import NewLog
from tierfetch.tests.broker.api_scene import Scene, make_scene, scene_client

SECONDS: Final = float(os.environ.get("FUZZ_SECONDS", "20"))
SEED: Final = int(os.environ.get("FUZZ_SEED", "1"))
PAUSE_S_MAX: Final = 1.0
ROUND: Final = 100
"""Sequences of requests of one round, which begins with a seed of its own."""


@dataclass
class Target:
    """A node under test, and its log."""

    nodes: LocalNodes
    node: int
    metrics_url: str
    log: NewLog

    @classmethod
    def of(cls, nodes: LocalNodes, node: int, metrics_url: str) -> Target:
        return cls(nodes, node, metrics_url, NewLog(nodes.log_file(node)))

    @property
    def port(self) -> int:
        return self.nodes.port(self.node)

    def check(self) -> None:
        """It runs, serves, and has not complained of itself since the last call."""
        assert self.nodes.process(self.node).poll() is None, f"it has ended: {self.nodes.log_tail(self.node)}"
        fuzz.ping(self.port)
        self.log.check()

    def long_pauses(self) -> int:
        """The times that the event loop stood still for too long, since the start."""
        with urllib.request.urlopen(self.metrics_url, timeout=30) as page:
            text = page.read().decode()
        counts = dict(re.findall(r'^tierfetch_loop_pause_seconds_bucket\{le="(\S+)"\} (\S+)$', text, re.MULTILINE))
        return int(float(counts["+Inf"]) - float(counts[str(PAUSE_S_MAX)]))


@dataclass
class Targets:
    """The nodes of one cluster, and what it has."""

    cluster: LocalCluster
    scene: Scene
    by_role: dict[str, Target]


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Targets]:
    (metrics,) = free_ports(1)
    configs = {**SESSION, "metrics.port": str(metrics)}
    base = tmp_path_factory.mktemp("fuzz")
    tier = TierSettings("local", {"dir": str(base / "tier")})
    with LocalCluster(base, (1,), tier=tier, controller_configs=configs) as cluster:
        assert cluster.quorum is not None
        (controller,) = cluster.quorum.nodes
        by_role = {
            "broker": Target.of(cluster, 1, cluster.metrics_url(1)),
            "controller": Target.of(cluster.quorum, controller, f"http://127.0.0.1:{metrics}/metrics"),
        }
        yield Targets(cluster, asyncio.run(scene_of(by_role)), by_role)


async def scene_of(targets: dict[str, Target]) -> Scene:
    client = scene_client()
    broker, controller = (Address("127.0.0.1", targets[role].port) for role in ("broker", "controller"))
    try:
        return await make_scene(client, broker, controller)
    finally:
        await client.close()


async def offered(target: Target) -> list[ApiKey]:
    """The APIs of the node, in the order of their keys."""
    client = scene_client()
    try:
        request = ApiVersionsRequest(client_software_name="fuzz", client_software_version="1")
        answer = await client.send(Address("127.0.0.1", target.port), request)
    finally:
        await client.close()
    return sorted(ApiKey(each.api_key) for each in answer.api_keys)


@pytest.mark.parametrize("role", ["broker", "controller"])
@pytest.mark.timeout(SECONDS + 300)
def test_requests_of_any_content(targets: Targets, role: str) -> None:
    target = targets.by_role[role]
    sequences = fuzz.frames(asyncio.run(offered(target)), targets.scene)
    before, sent, answered = target.long_pauses(), 0, 0
    deadline_s = time.monotonic() + SECONDS / len(targets.by_role)

    @settings(
        max_examples=ROUND,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(sequences)
    def every_sequence_is_survived(data: list[bytes]) -> None:
        nonlocal sent, answered
        if time.monotonic() >= deadline_s:
            return
        sent += len(data)
        answered += fuzz.send(target.port, data)
        target.check()

    for number in count(SEED):
        try:
            seed(number)(every_sequence_is_survived)()
        except Exception as error:
            error.add_note(f"{role}, FUZZ_SEED={number}")
            raise
        if time.monotonic() >= deadline_s:
            break
    pauses = target.long_pauses() - before
    sys.stdout.write(f"\n{role}: {sent} requests, {answered} answered, seeds {SEED} to {number}\n")
    assert answered, "no request was answered"
    assert pauses == 0, f"the event loop stood still {pauses} times for more than {PAUSE_S_MAX:g} s"

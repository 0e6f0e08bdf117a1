"""Three controllers and brokers that only register and send heartbeats, each on a host of a simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from uuid import UUID

from tierfetch.broker.environment import NodeEnvironment
from tierfetch.controller.core.config import SUPPORTED_FEATURES
from tierfetch.controller.image.image import MetadataImage
from tierfetch.controller.service import ControllerService, open_controller
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.quorum.core.state import ReplicaKey
from tierfetch.quorum.storage.formatting import FormatOrder, format_directories, new_directory_id
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.controllers import CLUSTER_ID, CONTROLLER_PORT, controller_config, controller_host
from tierfetch.tests.messages import request_of

from .harness import directory

NODES = (1, 2, 3)
HEARTBEAT_S = 0.5


class FormattedController:
    """`tierfetch format` if the disk is new, then a controller."""

    def __init__(self, node_id: int, machine: NodeEnvironment, overrides: dict[str, str]) -> None:
        self.config = controller_config(node_id, NODES, overrides)
        self.machine = machine

    async def __aenter__(self) -> ControllerService:
        machine, config = self.machine, self.config
        order = FormatOrder(CLUSTER_ID, ReplicaKey(config.node_id, new_directory_id(machine.rng)), config.directories)
        await format_directories(machine.disk, order, ignore_formatted=True, rng=machine.rng, now_ms=machine.now_ms)
        self.opening = open_controller(config, machine)
        return await self.opening.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        await self.opening.__aexit__(None, None, None)


class BareBroker:
    """Listens, registers, and sends heartbeats to whoever is active; stores nothing."""

    def __init__(self, broker_id: int, machine: NodeEnvironment) -> None:
        self.broker_id = broker_id
        self.client = KafkaClient(client_id=f"broker-{broker_id}", random=machine.rng)
        self.incarnation = UUID(int=machine.rng.getrandbits(128))
        self.is_fenced = True
        self.epoch = -1

    async def __aenter__(self) -> BareBroker:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(asyncio.Protocol, f"broker-{self.broker_id}", 9092)
        self._task = asyncio.create_task(self._live())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._server.close()
        await self.client.close()

    async def _live(self) -> None:
        while self.epoch < 0:
            answer = await ask(self.client, ApiKey.BROKER_REGISTRATION, self.registration())
            self.epoch = answer.broker_epoch if answer.error_code is ErrorCode.none else -1
            await asyncio.sleep(0.1)
        while True:
            answer = await ask(self.client, ApiKey.BROKER_HEARTBEAT, self._heartbeat())
            self.is_fenced = answer.is_fenced
            await asyncio.sleep(HEARTBEAT_S)

    def registration(self) -> dict[str, Any]:
        return {
            "broker_id": self.broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": self.incarnation,
            "listeners": [
                {"name": "PLAINTEXT", "host": f"broker-{self.broker_id}", "port": 9092, "security_protocol": 0}
            ],
            "features": [
                {"name": name, "min_supported_version": item.min_level, "max_supported_version": item.max_level}
                for name, item in SUPPORTED_FEATURES.items()
            ],
            "rack": None,
            "log_dirs": [directory(self.broker_id)],
        }

    def _heartbeat(self) -> dict[str, Any]:
        return {
            "broker_id": self.broker_id,
            "broker_epoch": self.epoch,
            "current_metadata_offset": 1 << 40,
            "want_fence": False,
            "want_shut_down": False,
        }


async def ask(client: KafkaClient, api: ApiKey, values: dict[str, Any]) -> Any:
    """The active controller's answer, whoever that is."""
    while True:
        for node_id in NODES:
            try:
                address = Address(controller_host(node_id), CONTROLLER_PORT)
                answer = await client.send(address, request_of(api, values), timeout_s=3)
            except (OSError, KafkaError):
                continue
            parts = [answer, *getattr(answer, "topics", ()), *getattr(answer, "results", ())]
            codes = {getattr(part, "error_code", None) for part in parts}
            if ErrorCode.not_controller not in codes:
                return answer
        await asyncio.sleep(0.05)


class Cluster:
    """The world's controllers and brokers; what is asked comes from a host of its own."""

    def __init__(self, world: World, overrides: dict[str, str]) -> None:
        self.world = world
        self.overrides = overrides
        self.client = KafkaClient(client_id="operator", random=world.rng("operator"))
        self.controllers = {node_id: world.host(controller_host(node_id)) for node_id in NODES}
        self.brokers = {broker_id: world.host(f"broker-{broker_id}") for broker_id in (1, 2, 3)}

    async def start(self, *brokers: int) -> None:
        for node_id in NODES:
            await self.start_controller(node_id)
        for broker_id in brokers:
            await self.start_broker(broker_id)
        for broker_id in brokers:
            await self.until(partial(self._is_unfenced, broker_id))

    def _is_unfenced(self, broker_id: int) -> bool:
        return not self.brokers[broker_id].node.is_fenced

    async def start_controller(self, node_id: int) -> None:
        await self.controllers[node_id].start(lambda machine: FormattedController(node_id, machine, self.overrides))

    async def start_broker(self, broker_id: int) -> None:
        await self.brokers[broker_id].start(lambda machine: BareBroker(broker_id, machine))

    async def ask(self, api: ApiKey, values: dict[str, Any]) -> Any:
        return await self.world.host("operator").run(ask(self.client, api, values))

    async def create(self, name: str, *assignments: list[int]) -> None:
        topic = {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [
                {"partition_index": number, "broker_ids": replicas} for number, replicas in enumerate(assignments)
            ],
            "configs": [],
        }
        answer = await self.ask(ApiKey.CREATE_TOPICS, {"topics": [topic], "timeout_ms": 1000})
        assert answer.topics[0].error_code is ErrorCode.none, answer

    def running(self) -> dict[int, ControllerService]:
        return {node_id: host.node for node_id, host in self.controllers.items() if host.node is not None}

    async def active(self) -> tuple[int, ControllerService]:
        await self.until(lambda: any(service.controller.is_active for service in self.running().values()))
        return next(item for item in self.running().items() if item[1].controller.is_active)

    def image(self, node_id: int) -> MetadataImage:
        return self.controllers[node_id].node.controller.core.state.image

    async def until(self, holds: Callable[[], bool], timeout_s: float = 30) -> float:
        """Virtual seconds that it took."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        async with asyncio.timeout(timeout_s):
            while not holds():  # noqa: ASYNC110  # whatever it is, the world has no event for it
                await asyncio.sleep(0.005)
        return loop.time() - began_s


def simulate(scenario: Callable[[Cluster], Coroutine[Any, Any, None]], seed: int = 1, **overrides: str) -> str:
    """Run it; the digest of everything that happened."""
    with World(seed) as world:
        cluster = Cluster(world, {key.replace("_", "."): value for key, value in overrides.items()})
        world.run(scenario(cluster), limit_s=300)
        assert world.loop.failures == []
        return world.digest()

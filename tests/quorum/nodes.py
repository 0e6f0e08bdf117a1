"""Replicas of a quorum in this process, over loopback and on real files: started, killed, restarted."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tierfetch.broker.environment import NodeEnvironment
from tierfetch.cli.local.processes import free_ports
from tierfetch.log.disk import OsDisk
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.protocol.net.dispatch import Handler, RequestContext
from tierfetch.protocol.net.server import Server
from tierfetch.quorum.core.config import MetadataLogConfig, RaftConfig, ReplicaConfig
from tierfetch.quorum.core.state import Endpoint, LeaderAndEpoch, ReplicaKey
from tierfetch.quorum.core.voters import VoterNode, VoterSet
from tierfetch.quorum.handlers import QuorumHandlers, api_versions_handler
from tierfetch.quorum.listener import CommittedBatch, SnapshotContent
from tierfetch.quorum.node import QuorumNode, open_replica
from tierfetch.quorum.storage.formatting import FormatOrder, format_directories, new_directory_id

CLUSTER = "asNLmUt5R6KXNd2eIjy-lA"
TIMEOUT_S = 10.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Recorder:
    """A state machine that keeps what it is told."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.batches: list[CommittedBatch] = []
        self.snapshots: list[tuple[int, int]] = []
        self.leaders: list[LeaderAndEpoch] = []

    def on_commit(self, batch: CommittedBatch) -> None:
        self.batches.append(batch)
        self.records += batch.records

    def on_load_snapshot(self, snapshot: SnapshotContent) -> None:
        self.snapshots.append((snapshot.offset, snapshot.epoch))
        self.records = [record for batch in snapshot.batches for record in batch]

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.leaders.append(leader)


class Replica:
    """One node, its listener and its files."""

    def __init__(self, quorum: Quorum, node_id: int, port: int) -> None:
        self.quorum = quorum
        self.node_id = node_id
        self.endpoint = Endpoint("CONTROLLER", "127.0.0.1", port)
        self.address = Address("127.0.0.1", port)
        self.directory = quorum.base / f"node-{node_id}"
        self.key = ReplicaKey(node_id, new_directory_id(quorum.rng))
        self.cluster_id = CLUSTER
        self.node: QuorumNode | None = None
        self.state = Recorder()
        self.answered: Counter[int] = Counter()
        """The requests of others that were answered, by API key."""
        self._stack = AsyncExitStack()

    @property
    def log_directory(self) -> Path:
        return self.directory / "__cluster_metadata-0"

    async def format(self, first_voters: VoterSet | None = None) -> None:
        order = FormatOrder(self.cluster_id, self.key, [self.directory], first_voters)
        await format_directories(self.quorum.disk, order, ignore_formatted=False, rng=self.quorum.rng, now_ms=now_ms)

    async def start(self, *, observer: bool = False) -> QuorumNode:
        quorum = self.quorum
        self.state = Recorder()
        raft = RaftConfig(
            key=ReplicaKey(self.node_id),
            cluster_id=self.cluster_id,
            endpoints=() if observer else (self.endpoint,),
            **{
                "bootstrap_servers": () if quorum.static_voters else tuple(quorum.endpoints),
                **quorum.timeouts,
            },
        )
        config = ReplicaConfig(
            raft=raft,
            directory=self.directory,
            static_voters=quorum.static_voters or VoterSet(),
            log=quorum.log_config,
        )
        machine = NodeEnvironment(disk=quorum.disk, rng=random.Random(self.node_id), now_ms=now_ms)
        server = Server({}, listener_name="CONTROLLER")
        await server.bind(self.address.host, self.address.port)
        self._stack.push_async_callback(server.close, deadline_s=1.0)
        node = await self._stack.enter_async_context(open_replica(config, machine))
        table = {api: self._counted(api, handler) for api, handler in QuorumHandlers(node).table().items()}
        table[ApiKey.API_VERSIONS] = api_versions_handler(lambda: frozenset(table))
        server.handlers |= table
        node.start([self.state])
        self.node = node
        await server.serve()
        return node

    def _counted(self, api: int, handler: Handler) -> Handler:
        async def handle(context: RequestContext, body: Any) -> Any:
            answer = await handler(context, body)
            self.answered[api] += 1
            return answer

        return handle

    async def stop(self) -> None:
        await self._stack.aclose()
        self.node = None

    async def kill(self) -> None:
        """End without a word to the others: what was written stays, as after a kill -9 of the process."""
        if self.node is not None:
            self.node._fail("killed by the test")
        await self.stop()


class Quorum:
    """`async with Quorum(tmp_path)`: nodes 1, 2, ... formatted, none started."""

    def __init__(self, base: Path, voters: int = 3, observers: int = 0, *, dynamic: bool = False) -> None:
        self.base = base
        self.rng = random.Random(7)
        self.dynamic = dynamic
        self.log_config = MetadataLogConfig()
        self.static_others: tuple[VoterNode, ...] = ()
        """Static voters that are not in this process."""
        self.timeouts: dict[str, Any] = {
            "election_timeout_ms": 200,
            "fetch_timeout_ms": 5000,
            "election_backoff_max_ms": 100,
            "request_timeout_ms": 2000,
            "fetch_max_wait_ms": 100,
        }
        ports = free_ports(voters + observers)
        self.disk: OsDisk
        self.replicas: dict[int, Replica] = {}
        self._ports = ports
        self._voters = voters

    @property
    def voters(self) -> list[Replica]:
        return list(self.replicas.values())[: self._voters]

    @property
    def endpoints(self) -> list[Endpoint]:
        return [replica.endpoint for replica in self.voters]

    @property
    def static_voters(self) -> VoterSet | None:
        if self.dynamic:
            return None
        ours = [VoterNode(ReplicaKey(item.node_id), (item.endpoint,)) for item in self.voters]
        return VoterSet.of([*ours, *self.static_others])

    async def __aenter__(self) -> Quorum:
        self.disk = OsDisk()
        self.replicas = {number: Replica(self, number, port) for number, port in enumerate(self._ports, start=1)}
        first = VoterSet.of(VoterNode(item.key, (item.endpoint,)) for item in self.voters) if self.dynamic else None
        for replica in self.replicas.values():
            await replica.format(first if replica in self.voters else None)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(replica.stop() for replica in self.replicas.values()))
        await self.disk.close()

    async def start(self, numbers: Sequence[int] | None = None) -> None:
        for number in numbers or [item.node_id for item in self.voters]:
            await self.replicas[number].start()

    def running(self) -> list[Replica]:
        return [item for item in self.replicas.values() if item.node is not None]

    async def until(self, holds: Callable[[], bool], what: str = "it") -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not holds():
                for item in self.running():
                    assert not item.node.failed.done(), item.node.failed.result()
                await asyncio.sleep(0.005)

    async def until_asked(self, replica: Replica, api: ApiKey, times: int = 2) -> None:
        """Return when `replica` has answered so many more requests. Who asks a second time has dealt with the answer to
        the first.
        """
        goal = replica.answered[api] + times
        await self.until(lambda: replica.answered[api] >= goal, f"{times} more {api.name}")

    async def leader(self) -> Replica:
        """The one that leads, by its own word, as heard by its state machine, and followed by every voter that runs."""
        found: list[Replica] = []

        def leads() -> bool:
            voters = [item for item in self.running() if item in self.voters]
            known = {item.node.status.leader_and_epoch for item in voters}
            found[:] = [item for item in voters if item.state.leaders and {item.state.leaders[-1]} == known]
            found[:] = [item for item in found if item.state.leaders[-1].leader_id == item.node_id]
            return bool(found)

        await self.until(leads, "a leader")
        return found[0]

    def client(self) -> KafkaClient:
        return KafkaClient(client_id="test", random=random.Random(1))

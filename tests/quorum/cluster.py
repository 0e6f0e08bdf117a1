"""Cores with disks and a network in memory, on virtual time, under faults chosen by a seed; invariants throughout.

invariant            broken when
-------------------  ----------------------------------------------------------------------------------------
one leader           two replicas become leader of the same epoch
committed for good   what a replica reports as committed differs from what another one reported at that offset
leader completeness  a new leader's log lacks a committed record
monotonic            a replica's epoch falls (crashes included), or its high watermark (crashes apart)
logs match           two logs hold the same epoch at an offset but differ below it
acknowledged         an append was answered as committed, and what is committed at its offset is something else
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from uuid import UUID

from tierfetch.protocol.errors import ErrorCode
from tierfetch.quorum.core.config import RaftConfig
from tierfetch.quorum.core.effects import (
    AppendCompleted,
    BecameLeader,
    Effect,
    Fatal,
    HighWatermarkAdvanced,
    InstallSnapshot,
    LogEffect,
    PersistState,
    Reply,
    Send,
    SetTimer,
    ShutdownCompleted,
    SnapshotChunkAppend,
    VoterProven,
)
from tierfetch.quorum.core.events import (
    Append,
    ConnectionLost,
    Event,
    LogCompleted,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    Shutdown,
    SnapshotChunkWritten,
    SnapshotInstalled,
    SnapshotTaken,
    Started,
    StatePersisted,
    TimerFired,
)
from tierfetch.quorum.core.machine import RaftCore
from tierfetch.quorum.core.messages import (
    FetchResponse,
    FetchSnapshotResponse,
    PeerRequest,
    ReadRange,
    Request,
    Response,
    SnapshotChunk,
    SnapshotRange,
)
from tierfetch.quorum.core.state import Endpoint, RaftState, ReplicaKey
from tierfetch.quorum.core.voters import KRAFT_VERSION_STATIC, VoterNode, VotersAt, VoterSet

from .disk import Entry, MemoryDisk, Snapshot

CLUSTER_ID = "cluster"


class InvariantBroken(AssertionError):
    """What a checker of a simulation raises."""


def key_of(node_id: int, incarnation: int = 0) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=node_id + 1000 * incarnation))


def endpoints_of(node_id: int) -> tuple[Endpoint, ...]:
    return (Endpoint("CONTROLLER", f"node{node_id}", 9000 + node_id),)


def voter_of(node_id: int, incarnation: int = 0) -> VoterNode:
    return VoterNode(key_of(node_id, incarnation), endpoints_of(node_id))


def voters_of(ids: Iterable[int], kraft_version: int = 1) -> VotersAt:
    """Static ones (kraft.version 0) without directory ids."""
    nodes = [voter_of(node_id) for node_id in ids]
    if kraft_version == KRAFT_VERSION_STATIC:
        nodes = [replace(node, key=ReplicaKey(node.id)) for node in nodes]
    return VotersAt(-1, VoterSet.of(nodes), kraft_version)


@dataclass(frozen=True)
class Faults:
    """Probabilities for each message or disk operation; times in ms. `late`: requests that come after up to `late_ms`,
    most of them when who asked has given up; `repeat`: those that come twice."""

    drop: float = 0.0
    latency_ms: int = 5
    disk_ms: int = 3
    slow_disk: float = 0.0
    slow_disk_ms: int = 300
    late: float = 0.0
    late_ms: int = 5_000
    repeat: float = 0.0


@dataclass(eq=False)
class Call:
    """One request under way."""

    node: Node
    life: int
    peer_id: int
    request: PeerRequest
    is_done: bool = False


@dataclass(eq=False)
class Node:
    key: ReplicaKey
    config: RaftConfig
    disk: MemoryDisk
    core: RaftCore | None = None
    life: int = 0
    timer_ms: int | None = None
    disk_free_at_ms: int = 0
    high_watermark: int = 0
    fatal: str | None = None
    download: dict[object, Snapshot] = field(default_factory=dict)

    @property
    def id(self) -> int:
        return self.key.id


class Cluster:
    """`run_until` drives it; `crash`, `start`, `cut` and `heal` disturb it."""

    def __init__(
        self,
        ids: Iterable[int],
        *,
        seed: int = 0,
        observers: Iterable[int] = (),
        faults: Faults | None = None,
        kraft_version: int = 1,
        config: Callable[[RaftConfig], RaftConfig] = lambda config: config,
    ) -> None:
        self.random = random.Random(seed)
        self.faults = faults or Faults()
        self.now_ms = 0
        self.cuts: set[tuple[int, int]] = set()
        self.names: dict[tuple[int, int], int] = {}
        """(who asks, for whom): where the name leads, if it is wrong."""
        self.leaders: dict[int, ReplicaKey] = {}
        self.committed: tuple[Entry, ...] = ()
        self.acknowledged: list[tuple[int, bytes]] = []
        self.unanswered: dict[object, tuple[bytes, ...]] = {}
        self.answers: dict[object, Response] = {}
        self.steps = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self.nodes: dict[int, Node] = {}
        bootstrap = voters_of(sorted(ids), kraft_version)
        self.bootstrap = bootstrap
        for node_id in [*ids, *observers]:
            own = RaftConfig(
                key=key_of(node_id),
                cluster_id=CLUSTER_ID,
                endpoints=endpoints_of(node_id),
                bootstrap_servers=tuple(endpoints_of(voter)[0] for voter in ids),
            )
            self.nodes[node_id] = Node(own.key, config(own), MemoryDisk(bootstrap))
        for node_id in self.nodes:
            self.start(node_id)

    # --- time

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._order, action))

    def run_until(self, condition: Callable[[], bool] = lambda: False, *, for_ms: int = 60_000) -> bool:
        """False where time ran out first."""
        end_ms = self.now_ms + for_ms
        while not condition():
            if not self._queue or self._queue[0][0] > end_ms:
                self.now_ms = end_ms
                return condition()
            self.now_ms, _, action = heapq.heappop(self._queue)
            action()
        return True

    # --- nodes

    def start(self, node_id: int) -> None:
        node = self.nodes[node_id]
        node.life += 1
        node.timer_ms = None
        node.disk_free_at_ms = 0
        node.high_watermark = node.disk.start.offset
        node.core = RaftCore(node.config, node.disk.recovered(), random.Random(self.random.random()))
        self.step(node, Started())

    def crash(self, node_id: int, *, is_machine: bool = True) -> None:
        """The machine loses what was not flushed, or a part of it; the process alone loses nothing written."""
        node = self.nodes[node_id]
        if node.core is None:
            return
        disk = node.disk
        kept = self.random.randint(disk.flushed_end_offset, disk.end_offset) if is_machine else disk.end_offset
        node.disk = disk.after_crash(kept)
        node.core = None
        node.life += 1
        for other in self.nodes.values():
            if other.core is not None and other is not node:
                self._later(self.random.randint(1, 20), other, ConnectionLost(node_id))

    def shut_down(self, node_id: int) -> None:
        """In good order: a leader hands over first. It is down when that is done."""
        node = self.nodes[node_id]
        if node.core is not None:
            self.step(node, Shutdown())

    def wipe(self, node_id: int, incarnation: int) -> None:
        """An empty directory, which has the directory id of that incarnation; marked, as the shell does it."""
        node = self.nodes[node_id]
        node.core = None
        node.key = key_of(node_id, incarnation)
        node.config = replace(node.config, key=node.key)
        node.disk = MemoryDisk(self.bootstrap, is_unproven=True)

    def cut(self, one: int, other: int, *, both_ways: bool = True) -> None:
        self.cuts.add((one, other))
        if both_ways:
            self.cuts.add((other, one))

    def heal(self) -> None:
        self.cuts.clear()
        self.faults = replace(self.faults, drop=0.0, slow_disk=0.0, late=0.0, repeat=0.0)

    def leader(self) -> Node | None:
        """The leader of the highest epoch."""
        leaders = [node for node in self.nodes.values() if node.core and node.core.state is RaftState.LEADER]
        return max(leaders, key=lambda node: node.core.epoch, default=None)

    def step(self, node: Node, event: Event) -> None:
        if node.core is None or node.fatal is not None:
            return
        self.steps += 1
        epoch = node.core.epoch
        effects = node.core.step(event, self.now_ms)
        if node.core.epoch < epoch:
            raise InvariantBroken(f"epoch of {node.id} fell from {epoch} to {node.core.epoch}")
        for effect in effects:
            self._perform(node, effect)

    def append(self, node: Node, *records: bytes) -> object:
        """The token; `unanswered` and `acknowledged` tell what became of it."""
        assert node.core is not None
        self._order += 1
        token = ("append", self._order)
        self.unanswered[token] = records
        self.step(node, Append(token, node.core.epoch, records))
        return token

    def request(self, node_id: int, request: Request) -> object:
        """From a tool; the answer is in `answers`, by the returned token."""
        self._order += 1
        token = ("tool", self._order)
        self.step(self.nodes[node_id], RequestReceived(token, request))
        return token

    def snapshot(self, node_id: int, *, trim: bool = True) -> None:
        node = self.nodes[node_id]
        if node.core is None or node.high_watermark <= node.disk.start.offset:
            return
        offset = node.high_watermark
        node.disk = node.disk.take_snapshot(offset, keep_from=offset if trim else node.disk.start.offset)
        self.step(node, SnapshotTaken(node.disk.snapshots[-1].snapshot_id, node.disk.start))

    # --- effects

    def _perform(self, node: Node, effect: Effect) -> None:
        if isinstance(effect, PersistState):
            self._on_disk(node, lambda: self._persisted(node, effect))
        elif isinstance(effect, LogEffect):
            self._on_disk(node, lambda: self._logged(node, effect))
        elif isinstance(effect, SnapshotChunkAppend):
            node.download[effect.snapshot_id] = effect.payload
            self._on_disk(node, lambda: self.step(node, SnapshotChunkWritten(effect)))
        elif isinstance(effect, InstallSnapshot):
            self._on_disk(node, lambda: self._installed(node, effect))
        elif isinstance(effect, Send):
            self._send(node, effect)
        elif isinstance(effect, Reply):
            self._reply(node, effect)
        elif isinstance(effect, SetTimer):
            self._set_timer(node, effect)
        elif isinstance(effect, Fatal):
            node.fatal = effect.reason
        elif isinstance(effect, VoterProven):
            node.disk = replace(node.disk, is_unproven=False)
        else:
            self._check(node, effect)

    def _check(self, node: Node, effect: Effect) -> None:
        if isinstance(effect, BecameLeader):
            self._check_leader(node, effect)
        elif isinstance(effect, HighWatermarkAdvanced):
            self._check_committed(node, effect.offset)
        elif isinstance(effect, AppendCompleted):
            records = self.unanswered.pop(effect.token)
            self.acknowledged += enumerate(records, effect.last_offset + 1 - len(records))
        elif isinstance(effect, ShutdownCompleted):
            self.at(0, lambda: self.crash(node.id, is_machine=False))

    def _check_leader(self, node: Node, effect: BecameLeader) -> None:
        first = self.leaders.setdefault(effect.epoch, node.key)
        if first != node.key:
            raise InvariantBroken(f"{first} and {node.key} both lead epoch {effect.epoch}")

    def _check_committed(self, node: Node, offset: int) -> None:
        if offset < node.high_watermark:
            raise InvariantBroken(f"high watermark of {node.id} fell from {node.high_watermark} to {offset}")
        if offset > node.disk.end_offset:
            raise InvariantBroken(f"{node.id} reports {offset} committed, its log ends at {node.disk.end_offset}")
        node.high_watermark = offset
        self.check_history(node.id, node.disk.history(offset))

    def check_history(self, node_id: int, history: tuple[Entry, ...]) -> None:
        common = min(len(history), len(self.committed))
        if history[:common] != self.committed[:common]:
            raise InvariantBroken(f"{node_id} committed {history}, others {self.committed}")
        if len(history) > len(self.committed):
            self.committed = history

    # --- disk

    def _on_disk(self, node: Node, done: Callable[[], None]) -> None:
        """One operation after the other."""
        duration_ms = self.random.randint(0, self.faults.disk_ms)
        if self.random.random() < self.faults.slow_disk:
            duration_ms += self.faults.slow_disk_ms
        node.disk_free_at_ms = max(node.disk_free_at_ms, self.now_ms) + duration_ms
        life = node.life
        self.at(node.disk_free_at_ms - self.now_ms, lambda: done() if node.life == life else None)

    def _persisted(self, node: Node, effect: PersistState) -> None:
        if effect.state.epoch < node.disk.election.epoch:
            raise InvariantBroken(f"{node.id} persists {effect.state} over {node.disk.election}")
        node.disk = replace(
            node.disk, election=effect.state, is_unproven=node.disk.is_unproven and not effect.is_proven
        )
        self.step(node, StatePersisted(effect.state))

    def _logged(self, node: Node, effect: LogEffect) -> None:
        node.disk = node.disk.perform(effect)
        self.step(node, LogCompleted(effect))

    def _installed(self, node: Node, effect: InstallSnapshot) -> None:
        snapshot = node.download[effect.snapshot_id]
        node.disk = node.disk.install(snapshot)
        self.step(node, SnapshotInstalled(snapshot.snapshot_id, snapshot.voters))

    # --- network

    def _later(self, delay_ms: int, node: Node, event: Event) -> None:
        life = node.life
        self.at(delay_ms, lambda: self.step(node, event) if node.life == life else None)

    def _is_lost(self, source: int, target: int) -> bool:
        return (source, target) in self.cuts or self.random.random() < self.faults.drop

    def _send(self, node: Node, effect: Send) -> None:
        target_id = effect.peer_id if effect.peer_id >= 0 else effect.endpoint.port - 9000
        target_id = self.names.get((node.id, target_id), target_id)
        call = Call(node, node.life, effect.peer_id, effect.request)
        if self._is_lost(node.id, target_id):
            self._fail(call, self.random.randint(1, 400))
            return
        self.at(self._delay_ms(), lambda: self._arrive(self.nodes[target_id], call))
        if self.faults.repeat and self.random.random() < self.faults.repeat:
            self.at(self._delay_ms(), lambda: self._arrive(self.nodes[target_id], call))
        self._fail(call, node.config.request_timeout_ms)

    def _delay_ms(self) -> int:
        if self.faults.late and self.random.random() < self.faults.late:
            return self.random.randint(0, self.faults.late_ms)
        return self.random.randint(0, self.faults.latency_ms)

    def _arrive(self, target: Node, call: Call) -> None:
        if target.core is None or target.fatal is not None:
            self._fail(call, 1)
        else:
            self.step(target, RequestReceived(call, call.request))

    def _fail(self, call: Call, delay_ms: int) -> None:
        self.at(delay_ms, lambda: self._finish(call, RequestFailed(call.peer_id, call.request)))

    def _finish(self, call: Call, event: Event) -> None:
        """The first end of a call counts."""
        if not call.is_done and call.node.life == call.life:
            call.is_done = True
            self.step(call.node, event)

    def _reply(self, source: Node, effect: Reply) -> None:
        response = self._filled(source, effect.response)
        call = effect.token
        if not isinstance(call, Call):
            self.answers[call] = response
        elif self._is_lost(source.id, call.node.id):
            self._fail(call, self.random.randint(1, 400))
        else:
            event = ResponseReceived(call.peer_id, call.request, response)
            self.at(self.random.randint(0, self.faults.latency_ms), lambda: self._finish(call, event))

    def _filled(self, source: Node, response: Response) -> Response:
        """With the bytes that the shell would read."""
        if isinstance(response, FetchResponse) and isinstance(response.records, ReadRange):
            return replace(response, records=source.disk.read(response.records, self.random.randint(1, 20)))
        if isinstance(response, FetchSnapshotResponse) and isinstance(response.chunk, SnapshotRange):
            for snapshot in source.disk.snapshots:
                if snapshot.snapshot_id == response.chunk.snapshot_id:
                    chunk = SnapshotChunk(snapshot, response.chunk.position, 1, 2)
                    return replace(response, chunk=chunk)
            return replace(response, error=ErrorCode.snapshot_not_found, chunk=None)
        return response

    def _set_timer(self, node: Node, effect: SetTimer) -> None:
        node.timer_ms = effect.deadline_ms
        if effect.deadline_ms is None:
            return
        deadline_ms, life = effect.deadline_ms, node.life

        def fire() -> None:
            if node.life == life and node.timer_ms == deadline_ms:
                self.step(node, TimerFired())

        self.at(max(0, deadline_ms - self.now_ms), fire)

    # --- at the end

    def check_logs_match(self) -> None:
        """Log matching, by epochs at equal offsets."""
        nodes = list(self.nodes.values())
        for index, one in enumerate(nodes):
            for other in nodes[index + 1 :]:
                a, b = one.disk.history(one.disk.end_offset), other.disk.history(other.disk.end_offset)
                same = [i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x.epoch == y.epoch]
                if same and a[: same[-1] + 1] != b[: same[-1] + 1]:
                    raise InvariantBroken(f"logs of {one.id} and {other.id} differ below offset {same[-1]}")

    def check_acknowledged(self) -> None:
        for offset, record in self.acknowledged:
            if offset >= len(self.committed) or self.committed[offset].value != record:
                raise InvariantBroken(
                    f"{record!r} was acknowledged at {offset}, there is {self.committed[offset:][:1]}"
                )

    def values(self) -> list[object]:
        """Committed client records."""
        return [entry.value for entry in self.committed if isinstance(entry.value, bytes)]

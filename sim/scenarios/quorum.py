"""The quorum's scenario: three or five voters and an observer, appends, snapshots, and the faults of a schedule. In
some seeds there are more controllers, and voters are added, removed and moved (`operations.voters`). In some the log
is trimmed: it begins with the newest snapshot, which replicas that lag, or begin with an empty disk, have to fetch.

    start -> appenders begin -> safety phase: the schedule's faults -> heal, and start what is down
          -> appenders end -> converge, within `CONVERGE_S` -> where the log is trimmed, the observer gets an empty disk
          -> look at every log -> judge -> probe (`quorum_probes`)

After every event, over the tables of `judges.quorum_replicas`:

| invariant             | violated when                                                                             |
|-----------------------|-------------------------------------------------------------------------------------------|
| same state machine    | two nodes apply different records at one offset, or one applies an offset twice           |
| same snapshot         | a node loads a snapshot that is not what was applied below its end, or that takes it back |

The quorum flushes before it acknowledges: no crash allowed a loss. Voters are never wiped here, for a static quorum
does not survive that (KIP-853 says why); the observer is.

Once the faults are over and every node runs, something is committed within `AVAILABLE_TIMEOUTS` of the quorum's own
timeouts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import asdict, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from ...light_dataclass import dataclass
from ...protocol import ErrorCode
from ...quorum import (
    BufferFullError,
    CommittedBatch,
    ControllerConfig,
    LeaderAndEpoch,
    NotLeaderError,
    QuorumFailedError,
    QuorumNode,
    RaftState,
    SnapshotContent,
    VoterSet,
)
from ...quorum.core import UpgradeKRaftVersionRequest, VoterChangeResponse
from ..faults.actions import moments
from ..faults.hardware import hardware
from ..faults.injector import FaultInjector
from ..faults.quorum_scenes import quorum_scene
from ..faults.schedule import FaultKind, Schedule, Targets, generate
from ..faults.table import Cast, beside
from ..judges.core.acknowledged_writes import Anomaly, FinalLog, check_history
from ..judges.core.events import SecondPassed
from ..judges.core.history import ACKS_ALL, History, Poll, Send
from ..judges.core.judge import Judges
from ..judges.core.pace import PaceJudge
from ..judges.core.partition import InvariantViolationError
from ..judges.core.quorum.epochs import QuorumEpochsJudge
from ..judges.core.quorum.voters import VotersJudge
from ..judges.core.replicas import ReplicaState, batches_of, check_partition
from ..judges.durability import DurableLogs
from ..judges.quorum_replicas import DIRECTORY, PARTITION, QuorumJudge
from ..machine.chance import Chance
from ..machine.process import Process, current_process
from ..machine.tasks import every_second, first_error
from ..machine.world import World
from .controllers import (
    CONTROLLER_PORT,
    ObserverProcess,
    QuorumProcess,
    controller_config,
    controller_host,
    dynamic_config,
    first_voters,
    open_observer_process,
    open_quorum_process,
    other_port,
)
from .operations.grammar import Act, Operations
from .operations.voters import VOTER_ROWS, VoterOperator
from .quorum_probes import QuorumProbes
from .report import Tallies
from .strangers.quorum_ghost import HOST as GHOST_HOST
from .strangers.quorum_ghost import QuorumGhost

T = TypeVar("T")

OBSERVER: Final = 9
SAFETY_MS: Final = 20_000
CONVERGE_S: Final = 60.0
CHECK_S: Final = 0.25
RUN_LIMIT_S: Final = 600.0
APPEND_TIMEOUT_S: Final = 5.0
LOOK_FOR_LEADER_S: Final = 0.05
RECORD_BYTES: Final = 16
DYNAMIC_SHARE: Final = 0.35
"""The share of seeds whose voters change."""
CHANGE_GAP_MS: Final = (700, 2_000)
TRIMMED_SHARE: Final = 0.4
"""The share of the seeds with snapshots in which the log begins with the newest one."""
TRIMMED: Final = {"metadata.max.retention.bytes": "0", "metadata.log.segment.ms": "1500"}
"""What is below the newest snapshot is removed with it, once its segment is closed."""
DOWNLOAD_S: Final = 0.4
"""The leader of an observer with an empty disk may resign within this time."""
LEADS_ALONE_WITH: Final = 2
"""So few voters do not lead without each other."""
AVAILABLE_TIMEOUTS: Final = 10
"""So many times the election and the fetch timeout together, a quorum that lacks nothing has a leader."""
SMALL_FETCH_BYTES: Final = 250
"""The size of a fetch that brings a batch or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumOptions:
    """What a seed chooses beside its faults."""

    voters: int
    appenders: int
    batch_records_max: int
    gap_ms: int
    fetch_timeout_ms: int
    election_timeout_ms: int
    snapshot_every_records: int
    fetch_max_bytes: int
    trims: bool = False
    spares: int = 0
    is_static_at_first: bool = True
    auto_join: bool = False
    change_gap_ms: int = 0

    @classmethod
    def drawn(cls, chance: Chance) -> QuorumOptions:
        drawn, rng = cls._drawn(chance("options")), chance("voters")
        if drawn.snapshot_every_records:
            drawn = replace(drawn, trims=chance("trims").random() < TRIMMED_SHARE)
        if rng.random() >= DYNAMIC_SHARE:
            return drawn
        return replace(
            drawn,
            spares=rng.choice((1, 1, 2)),
            is_static_at_first=(is_static := rng.random() < 0.3),
            auto_join=not is_static and rng.random() < 0.4,
            change_gap_ms=rng.choice(CHANGE_GAP_MS),
        )

    @classmethod
    def _drawn(cls, rng: Random) -> QuorumOptions:
        return cls(
            voters=rng.choice((3, 3, 5)),
            appenders=rng.choice((1, 2, 3)),
            batch_records_max=rng.choice((1, 3)),
            gap_ms=rng.choice((60, 200)),
            fetch_timeout_ms=rng.choice((700, 2_000)),
            election_timeout_ms=rng.choice((300, 1_000)),
            snapshot_every_records=rng.choice((0, 40, 150)),
            fetch_max_bytes=rng.choice((SMALL_FETCH_BYTES, 8 * 1024 * 1024)),
        )

    @property
    def voter_ids(self) -> tuple[int, ...]:
        return tuple(range(1, self.voters + 1))

    @property
    def controller_ids(self) -> tuple[int, ...]:
        """The voters at first, and others that may become some."""
        return tuple(range(1, self.voters + self.spares + 1))

    @property
    def nodes(self) -> dict[str, int]:
        """Controllers and the observer, by host."""
        return {controller_host(node_id): node_id for node_id in (*self.controller_ids, OBSERVER)}

    def config(self, node_id: int, port: int) -> ControllerConfig:
        """Return the configuration of one of the controllers."""
        if self.is_static_at_first and node_id in self.voter_ids:
            return controller_config(node_id, self.voter_ids, self.overrides, port=port)
        joins = {"controller.quorum.auto.join.enable": "true"} if self.auto_join else {}
        return dynamic_config(node_id, port, self.controller_ids, {**self.overrides, **joins})

    def schedule(self, chance: Chance) -> Schedule:
        """Without what a static quorum does not promise to survive."""
        wiped = (controller_host(OBSERVER),)
        targets = Targets(nodes=tuple(self.nodes), wiped=wiped, has_quorum=True)
        voters = [controller_host(node_id) for node_id in self.voter_ids]
        scene = quorum_scene(chance("scenes"), voters, SAFETY_MS)
        broken = hardware(chance("hardware"), tuple(self.nodes), SAFETY_MS, has_store=False)
        more = beside(chance("table"), Cast(nodes=tuple(self.nodes)), SAFETY_MS)
        actions = moments(chance("actions"), self.change_gap_ms, SAFETY_MS) if self.spares else ()
        faults = generate(chance("faults"), targets, SAFETY_MS).with_more([*scene, *broken, *more])
        return faults.with_actions(actions)

    @property
    def overrides(self) -> dict[str, str]:
        return {
            "controller.quorum.fetch.timeout.ms": str(self.fetch_timeout_ms),
            "controller.quorum.election.timeout.ms": str(self.election_timeout_ms),
            "controller.quorum.request.timeout.ms": "1000",
            "controller.quorum.fetch.max.bytes": str(self.fetch_max_bytes),
            **(TRIMMED if self.trims else {}),
        }


@dataclass(slots=True)
class _StateMachine:
    """What one run of a node has applied: value by offset. Reports every batch to `run`."""

    run: QuorumScenario
    process: str
    values: dict[int, int] = field(default_factory=dict)
    next_offset: int = 0
    last_epoch: int = 0
    last_append_time_ms: int = 0
    snapshot_at: int = 0

    def on_commit(self, batch: CommittedBatch) -> None:
        if batch.base_offset < self.next_offset:
            raise InvariantViolationError(
                "same state machine", f"{self.process} applies offset {batch.base_offset} after {self.next_offset - 1}"
            )
        records = tuple(enumerate((decode(record)[1] for record in batch.records), batch.base_offset))
        self.run.applied(self.process, batch, records)
        self.values.update(records)
        self.next_offset, self.last_epoch = batch.last_offset + 1, batch.epoch
        self.last_append_time_ms = batch.append_time_ms

    def on_load_snapshot(self, snapshot: SnapshotContent) -> None:
        if snapshot.offset < self.next_offset:
            detail = f"{self.process} loads one up to offset {snapshot.offset} after {self.next_offset - 1}"
            raise InvariantViolationError("same snapshot", detail)
        self.values = dict(decode(record) for batch in snapshot.batches for record in batch)
        self.run.loaded(self.process, snapshot.offset, self.values)
        self.next_offset, self.last_epoch = snapshot.offset, snapshot.epoch
        self.last_append_time_ms = snapshot.last_append_time_ms
        self.snapshot_at = len(self.values)

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        """The leader is read from the replica instead."""


class QuorumScenario:
    """One run, in a world made for it."""

    def __init__(self, world: World, schedule: Schedule | None = None, options: QuorumOptions | None = None) -> None:
        self.world = world
        self.options = options or QuorumOptions.drawn(world.rng)
        self.history = History()
        self.anomalies: list[Anomaly] = []
        self._nodes = self.options.nodes
        self.schedule = schedule or self.options.schedule(world.rng)
        self._judges = judges = Judges()
        starters = {name: self._starter(name) for name in self._nodes}
        self.injector = FaultInjector(world, starters, tuple(self._nodes), self, judges.on)
        self._ghost = QuorumGhost(
            {name: node_id for name, node_id in self._nodes.items() if node_id != OBSERVER}, world.rng("quorum ghost")
        )
        self._haunting: dict[asyncio.Task[None], None] = {}
        self.injector.immediate_faults[FaultKind.QUORUM_GHOST] = lambda _: self._haunt()
        self.injector.check(self.schedule)
        self._make_operator()
        disks = DurableLogs(lambda host: world.host(host).files)
        self._replicas_judge = QuorumJudge(self._nodes, self._replica, disks, world.record, judges.on)
        self._voters_judge = VotersJudge(
            lambda node_id, end: disks.holds(controller_host(node_id), DIRECTORY, end),
            world.loop.time,
            fetch_timeout_s=self.options.fetch_timeout_ms / 1000,
        )
        judges.add(self._replicas_judge, self._voters_judge, PaceJudge(), QuorumEpochsJudge(), self.injector)
        self._probes = QuorumProbes(
            world.network,
            world.rng("probes"),
            fetch_timeout_ms=self.options.fetch_timeout_ms,
            leading=self._leading,
            is_leader=self._is_leader,
        )
        self._checked = 0
        self._stopping = asyncio.Event()
        self._values = 0
        self._machines: dict[int, _StateMachine] = {}
        self._starts = 0
        self._truth: dict[int, tuple[tuple[int, int], ...]] = {}
        """Records by the base offset of their batch, as the first node applied them."""

    def _make_operator(self) -> None:
        """Make who changes the voters, where they may change."""
        rng, controllers = self.world.rng("directories"), self.options.controller_ids
        self._ports = dict.fromkeys(self._nodes, CONTROLLER_PORT)
        self._first: VoterSet | None = None
        if not self.options.is_static_at_first:
            self._first = first_voters({each: controller_host(each) for each in self.options.voter_ids}, rng)
        self._operator = VoterOperator(
            {controller_host(node_id): node_id for node_id in controllers},
            self._replica,
            self._newest_leader,
            self.world.rng("operator"),
            port_of=lambda host: self._ports[host],
            move=self._move,
            upgrade=self._upgrade,
            publish=self._judges.on,
            record=self.world.record,
        )
        rows = VOTER_ROWS if self.options.spares else ()
        self._operations = Operations(rows, self._operator, self._refuse_beside, self.world.record)
        self._operations.check(self.schedule)

    @staticmethod
    def _refuse_beside(act: Act) -> None:
        raise AssertionError(f"{act}: no row is done beside others")

    def run(self) -> None:
        self.world.loop.on_event = self._on_event
        try:
            self.world.run(self._main(), limit_s=RUN_LIMIT_S)
        finally:
            self.schedule = self.schedule.with_actions(self._operations.performed)

    def findings(self) -> list[str]:
        return [str(anomaly) for anomaly in self.anomalies]

    def option_texts(self) -> dict[str, str]:
        return {key: str(value) for key, value in asdict(self.options).items()}

    def tallies(self) -> Tallies:
        changed = self._operator.changed + Counter({"snapshots installed": self._replicas_judge.installed})
        return Tallies(dict(self.injector.injected), self.history.acknowledged, self._checked, 0, dict(changed))

    # -- the run ------------------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        for name in self._nodes:
            await self._start(name)
        upkeep = [asyncio.create_task(self.injector.keep(name)) for name in self._nodes]
        clients = [asyncio.create_task(self._append_forever(number)) for number in range(self.options.appenders)]
        if self.options.snapshot_every_records:
            upkeep.append(asyncio.create_task(self._take_snapshots()))
        changes = [asyncio.create_task(self._change_voters())] if self.schedule.actions else []
        try:
            await first_error(self.injector.run(self.schedule), [*upkeep, *changes, *clients])
            self.world.record("faults", "all over: the liveness phase begins")
            for task in changes:
                task.cancel()
            upkeep.append(asyncio.create_task(every_second(self.world.loop, self._second_passed)))
            await first_error(self._calm_down(clients), [*upkeep, *clients])
        finally:
            for task in [*upkeep, *changes, *clients]:
                task.cancel()
            await asyncio.gather(*upkeep, *changes, *clients, return_exceptions=True)
        if not self.anomalies and self.options.trims:
            await self._welcome_newcomer()
        if not self.anomalies:
            self._judge()
        if not self.anomalies:
            await self._probe()
        await self._operator.close()

    async def _change_voters(self) -> None:
        """Do the actions of the schedule, on a host of their own."""
        await self.world.host("operator").run(self._operations.run(self.schedule.actions))

    async def _calm_down(self, clients: Sequence[asyncio.Task[None]]) -> None:
        timeouts_ms = self.options.fetch_timeout_ms + self.options.election_timeout_ms
        available_s = self.world.now_s + AVAILABLE_TIMEOUTS * timeouts_ms / 1000
        await asyncio.sleep(2.0)
        deadline_s = self.world.now_s + CONVERGE_S
        while not await self._append(self._send("last")):
            if self.world.now_s > deadline_s:
                self.anomalies.append(Anomaly("not live", PARTITION, "nothing can be appended any more"))
                return
        if self.world.now_s > available_s:
            detail = f"nothing was committed for {self.world.now_s - available_s:.1f} s longer than it may take"
            self.anomalies.append(Anomaly("late quorum", PARTITION, detail))
            return
        self._stopping.set()
        await asyncio.wait(clients)
        await self._converge(deadline_s)

    async def _converge(self, deadline_s: float) -> None:
        while reasons := self._unsettled():
            if self.world.now_s > deadline_s:
                self.anomalies += [Anomaly("not converged", PARTITION, reason) for reason in reasons]
                return
            await asyncio.sleep(CHECK_S)

    async def _welcome_newcomer(self) -> None:
        """The observer gets an empty disk: it has to fetch a snapshot, whose leader may resign meanwhile."""
        name, rng = controller_host(OBSERVER), self.world.rng("newcomer")
        self.injector.exchange_disk(name)
        await self._start(name)
        await asyncio.sleep(rng.uniform(0, DOWNLOAD_S))
        if rng.random() < 0.5:
            self.move_leaders()
            await asyncio.sleep(CHECK_S)  # until then it seems to be at rest
        await self._converge(self.world.now_s + CONVERGE_S)

    async def _probe(self) -> None:
        """Every node runs, and keeps running."""
        voters = [controller_host(node.id) for node in self._operator.voters]
        if len(voters) > LEADS_ALONE_WITH:
            self.anomalies += await self._probes.disturb(voters)
        if not self.anomalies:
            self.anomalies += await self._probes.silence(self._nodes)
            await self._converge(self.world.now_s + CONVERGE_S)

    def _leading(self) -> tuple[str, int] | None:
        leading = [name for name in self._nodes if self._is_leader(name)]
        replica = self._replica(leading[0]) if len(leading) == 1 else None
        return None if replica is None else (leading[0], replica.status.leader_and_epoch.epoch)

    def _is_leader(self, name: str) -> bool:
        replica = self._replica(name)
        return replica is not None and replica.status.state is RaftState.LEADER

    def _unsettled(self) -> list[str]:
        replicas = self._replicas()
        leaders = [node_id for node_id, replica in replicas.items() if replica.status.state is RaftState.LEADER]
        if len(leaders) != 1 or len(replicas) != len(self._nodes):
            return [f"leaders {leaders}, running {sorted(replicas)}"]
        end = replicas[leaders[0]].log.log_end_offset
        with_voters = {
            controller_host(node_id): replica
            for node_id, replica in replicas.items()
            if replica.status.voters.voters.nodes
        }
        if strayed := self._operator.strayed(with_voters):
            return [f"{host} {reason}" for host, reason in strayed]
        offsets = {
            node_id: (replica.applied_offset, replica.status.high_watermark, replica.log.log_end_offset)
            for node_id, replica in replicas.items()
        }
        return [
            f"node {node_id} is at {applied}/{high_watermark}/{log_end} of {end}"
            for node_id, (applied, high_watermark, log_end) in offsets.items()
            if {applied, high_watermark, log_end} != {end}
        ]

    def _judge(self) -> None:
        replicas = self._replicas()
        joins = self.options.auto_join
        self.anomalies += self._operator.anomalies(PARTITION, joins_by_itself=joins)
        leader_id = next(node_id for node_id, replica in replicas.items() if replica.status.state is RaftState.LEADER)
        values = self._machines[leader_id].values
        log = FinalLog(PARTITION, 0, replicas[leader_id].log.log_end_offset, values)
        verdict = check_history(self.history, {PARTITION: log})
        self.anomalies += verdict.anomalies
        self._checked = verdict.records_checked
        for node_id, machine in self._machines.items():
            if machine.values != values:
                differing = sorted(dict(set(machine.values.items()) ^ set(values.items())))[:10]
                self.anomalies.append(
                    Anomaly("divergence", PARTITION, f"node {node_id} has other values at {differing}")
                )
        states = [self._state_of(node_id, replica) for node_id, replica in replicas.items()]
        self.anomalies += check_partition(states, (), leader_id, [state.node_id for state in states])

    def _state_of(self, node_id: int, replica: QuorumNode) -> ReplicaState:
        files = self.world.host(controller_host(node_id)).files
        batches = tuple(
            batch
            for path, inode in files.walk(DIRECTORY)
            if path.suffix == ".log"
            for batch in batches_of(bytes(inode.content))
        )
        start = batches[0].base_offset if batches else replica.log.log_end_offset
        return ReplicaState(
            node_id=node_id,
            partition=PARTITION,
            log_start_offset=max(start, replica.log.log_start_offset),
            local_log_start_offset=start,
            high_watermark=replica.status.high_watermark,
            log_end_offset=replica.log.log_end_offset,
            epochs=replica.log.epochs.entries,
            batches=tuple(batch for batch in batches if batch.base_offset >= replica.log.log_start_offset),
            producers={},
        )

    # -- after every event --------------------------------------------------------------------------------------------

    def _on_event(self, process: Process | None) -> None:
        if process is not None and process.host in self._nodes:
            self._replicas_judge.look(process)
            self._probes.on_event(process.host)

    def _second_passed(self, events: int) -> None:
        self._judges.on(SecondPassed(events))

    def applied(self, process: str, batch: CommittedBatch, records: tuple[tuple[int, int], ...]) -> None:
        """A node has applied a committed batch."""
        if self._truth.setdefault(batch.base_offset, records) != records:
            there = self._truth[batch.base_offset]
            detail = f"{process} applies {records} at offset {batch.base_offset}, another node {there}"
            raise InvariantViolationError("same state machine", detail)
        if records:
            now_ms = int(self.world.now_s * 1000)
            self.history.polls.append(
                Poll(process, PARTITION, batch.base_offset, batch.last_offset + 1, records, now_ms, now_ms)
            )

    def loaded(self, process: str, end_offset: int, values: Mapping[int, int]) -> None:
        """A node has these values from a snapshot up to an offset. InvariantViolationError."""
        right = {offset: value for records in self._truth.values() for offset, value in records if offset < end_offset}
        if values != right:
            differing = sorted(dict(values.items() ^ right.items()))[:10]
            detail = f"{process} loads one up to offset {end_offset} with other values at {differing}"
            raise InvariantViolationError("same snapshot", detail)

    # -- what the injector asks ---------------------------------------------------------------------------------------

    def may_wipe(self, host: str, directory: Path | None = None) -> bool:
        """Only the observer's disk: the quorum has no allowed losses."""
        return self._nodes[host] == OBSERVER

    def quorum_leader(self) -> str | None:
        found = self._leader()
        return None if found is None else found[0]

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _starter(self, name: str) -> Callable[[], Awaitable[None]]:
        return lambda: self._start(name)

    async def _start(self, name: str) -> None:
        node_id, host, options = self._nodes[name], self.world.host(name), self.options
        is_controller = node_id != OBSERVER
        config = options.config(node_id if is_controller else options.voter_ids[0], self._ports[name])
        first = self._first if node_id in options.voter_ids else None
        self._starts += 1
        machine = self._machines[node_id] = _StateMachine(self, f"{name}/{self._starts}")
        if is_controller:
            await host.start(
                lambda environment: open_quorum_process(config, environment, listeners=[machine], first=first)
            )
        else:
            await host.start(
                lambda environment: open_observer_process(config, node_id, environment, listeners=[machine])
            )

    def _replica(self, name: str) -> QuorumNode | None:
        node = self.world.host(name).node
        return node.replica if isinstance(node, QuorumProcess | ObserverProcess) else None

    def _replicas(self) -> dict[int, QuorumNode]:
        found = {node_id: self._replica(name) for name, node_id in self._nodes.items()}
        return {node_id: replica for node_id, replica in found.items() if replica is not None}

    def _leader(self) -> tuple[str, QuorumNode] | None:
        """One that believes to lead; of several, any."""
        leading = [
            (name, replica)
            for name in self._nodes
            if (replica := self._replica(name)) is not None and replica.status.state is RaftState.LEADER
        ]
        return self.world.rng(f"leader/{self._values}").choice(leading) if leading else None

    def _newest_leader(self) -> tuple[str, QuorumNode] | None:
        """Return the one with the newest epoch that believes to lead."""
        leading = [
            (replica.status.leader_and_epoch.epoch, name, replica)
            for name in self._nodes
            if (replica := self._replica(name)) is not None and replica.status.state is RaftState.LEADER
        ]
        return max(leading, key=lambda each: each[:2])[1:] if leading else None

    async def _move(self, name: str) -> None:
        """Restart a controller, at another port."""
        if self.world.host(name).node is not None:
            self._ports[name] = other_port(self._ports[name])
            await self.world.host(name).stop()

    async def _upgrade(self) -> bool:
        """Raise kraft.version, as the leader's state machine does when an operator asks for it."""
        found = self._newest_leader()
        if found is None:
            return False
        name, replica = found
        request = UpgradeKRaftVersionRequest(epoch=replica.status.leader_and_epoch.epoch, level=1)
        try:
            answer = await self._in_process(name, lambda: replica.ask(request), APPEND_TIMEOUT_S)
        except (QuorumFailedError, TimeoutError):
            return False
        return isinstance(answer, VoterChangeResponse) and answer.error is ErrorCode.none

    async def _in_process(self, name: str, work: Callable[[], Awaitable[T]], timeout_s: float) -> T:
        """As code of the node's own process: it stands still with it, and dies with it. TimeoutError."""
        context = copy_context()
        context.run(current_process.set, self.world.host(name).process)

        async def run() -> T:
            return await work()

        task = self.world.loop.create_task(run(), context=context)
        task.add_done_callback(_seen)
        done, _ = await asyncio.wait([task], timeout=timeout_s)
        if not done:
            raise TimeoutError
        return task.result()

    def move_leaders(self) -> None:
        """The leader resigns."""
        found = self._leader()
        if found is not None and not self.world.host(found[0]).is_paused:
            name, replica = found
            context = copy_context()
            context.run(current_process.set, self.world.host(name).process)
            epoch = replica.status.leader_and_epoch.epoch
            self.world.loop.call_soon(replica.resign, epoch, "asked by the simulation", context=context)

    def _haunt(self) -> None:
        task = self.world.loop.create_task(self.world.host(GHOST_HOST).run(self._ghost.haunt()))
        self._haunting[task] = None
        task.add_done_callback(self._haunting.pop)

    # -- clients ------------------------------------------------------------------------------------------------------

    async def _append_forever(self, number: int) -> None:
        rng = self.world.rng(f"appender/{number}")
        while not self._stopping.is_set():
            count = rng.randint(1, self.options.batch_records_max)
            await self._append(self._send(f"appender-{number}", count))
            await asyncio.sleep(rng.expovariate(1000 / self.options.gap_ms))

    def _send(self, process: str, count: int = 1) -> Send:
        values = tuple(range(self._values + 1, self._values + 1 + count))
        self._values += count
        send = Send(process, PARTITION, values, ACKS_ALL, int(self.world.now_s * 1000))
        self.history.sends.append(send)
        return send

    async def _append(self, send: Send) -> bool:
        """Append once; whether it was committed."""
        while (found := self._leader()) is None:
            await asyncio.sleep(LOOK_FOR_LEADER_S)
            if self._stopping.is_set():
                return False
        name, replica = found
        epoch, records = replica.status.leader_and_epoch.epoch, [encode(0, value) for value in send.values]
        try:
            last_offset = await self._in_process(
                name, lambda: replica.append_and_commit(epoch, records), APPEND_TIMEOUT_S
            )
        except BufferFullError as refusal:
            send.fail(str(refusal), int(self.world.now_s * 1000))
            return False
        except (NotLeaderError, QuorumFailedError, TimeoutError):
            return False
        now_ms = int(self.world.now_s * 1000)
        send.ok(last_offset - len(records) + 1, now_ms, now_ms)
        return True

    async def _take_snapshots(self) -> None:
        """Each node, whenever it has applied enough since its last one."""
        while True:
            await asyncio.sleep(1.0)
            for name, node_id in self._nodes.items():
                machine, replica = self._machines[node_id], self._replica(name)
                is_due = len(machine.values) - machine.snapshot_at >= self.options.snapshot_every_records
                if replica is None or self.world.host(name).is_paused or not is_due:
                    continue
                machine.snapshot_at = len(machine.values)
                records = [encode(offset, value) for offset, value in machine.values.items()]
                position = (machine.next_offset, machine.last_epoch)
                create = partial(replica.create_snapshot, *position, records, machine.last_append_time_ms)
                try:
                    await self._in_process(name, create, APPEND_TIMEOUT_S)
                except (OSError, TimeoutError, QuorumFailedError) as error:
                    self.world.record(name, f"no snapshot at {position[0]}: {type(error).__name__}")


def _seen(task: asyncio.Task[T]) -> None:
    """Retrieve the exception: the caller may have given up."""
    if not task.cancelled():
        task.exception()


def encode(offset: int, value: int) -> bytes:
    return offset.to_bytes(RECORD_BYTES // 2, "big") + value.to_bytes(RECORD_BYTES // 2, "big")


def decode(record: bytes) -> tuple[int, int]:
    half = RECORD_BYTES // 2
    return int.from_bytes(record[:half], "big"), int.from_bytes(record[half:], "big")

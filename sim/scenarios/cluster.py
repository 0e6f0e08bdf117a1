"""The cluster scenario: three controllers and three brokers (some both in one process), a tiered topic on a simulated
store, clients, an administrator who changes the cluster, and the faults of a schedule on all of them.

    start -> clients and administrator begin -> safety phase: the schedule's faults -> heal, and start what is down
          -> clients and administrator end -> converge, within `CONVERGE_S` -> idle, measured
          -> in half of the seeds a broker loses its disk, and they converge again
          -> read everything, converge, look at every file, judge -> ask what operators ask (`looks`)

Nothing stands in for a node: who leads, who is in sync and who is fenced is decided by the production controllers. What
differs from seed to seed beside the faults is `ClusterOptions`. Segments are small and local retention short, so that
most of a log is in the tier soon. Where the main topic expires, its retention ends with the faults: every record that
no retention was allowed to take (`judges.core.retention`) must be found.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextvars import copy_context
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

from ...controller import ControllerService, WarmingPolicy
from ...protocol import TopicIdPartition, TopicPartition
from ...protocol.net import Address
from ..faults.injector import FaultInjector
from ..faults.schedule import Fault, FaultKind, Schedule
from ..judges.broker_losses import LossJudge
from ..judges.core.acknowledged_writes import Anomaly, FinalLog, check_history
from ..judges.core.allowed_losses import AllowedLosses
from ..judges.core.client_answers import ClientAnswersJudge
from ..judges.core.clients.answers import AnswersJudge
from ..judges.core.clients.beginnings import BeginningsJudge
from ..judges.core.clients.compacted import check_values
from ..judges.core.clients.given import GivenBatchesJudge, SoundReadsJudge
from ..judges.core.coordinators import CoordinatorsJudge
from ..judges.core.coverage import CoverageJudge
from ..judges.core.events import (
    DiskWiped,
    MetadataChanged,
    MomentPassed,
    Observed,
    ProcessEnded,
    SecondPassed,
)
from ..judges.core.fencing import FencingJudge
from ..judges.core.hand_overs import HandOversJudge
from ..judges.core.heartbeats import HeartbeatJudge
from ..judges.core.history import History
from ..judges.core.isr_leavers import IsrLeaversJudge
from ..judges.core.isr_lingerers import IsrLingerersJudge
from ..judges.core.isr_members import IsrMembersJudge
from ..judges.core.judge import Judge, Judges
from ..judges.core.pace import PaceJudge
from ..judges.core.partition import ReplicaStatus
from ..judges.core.quorum.epochs import QuorumEpochsJudge
from ..judges.core.thin_leaders import ThinLeadersJudge
from ..judges.core.throttles import ThrottlesJudge
from ..judges.core.tiered_records import TieredRecordsJudge
from ..judges.core.truth import ClusterTruth
from ..judges.core.unfenced import UnfencedJudge
from ..judges.directory_moves import DirectoryMovesJudge, LogPlaces
from ..judges.durability import DurableLogs
from ..judges.final_state import DIRECTORY, directory_id, log_at_rest, replica_anomalies
from ..judges.joined_batches import JoinedBatchesJudge
from ..judges.observer import ReplicaObserver
from ..judges.quorum_replicas import QuorumJudge
from ..judges.retention import RecentClock, RetentionJudge
from ..judges.tiering import TieringJudge
from ..machine.filesystem import LOG_DIRECTORIES
from ..machine.process import Process, current_process
from ..machine.tasks import every_second, first_error
from ..machine.world import World
from .administrator import GROUP_VERSION, SHARE_VERSION, Administrator
from .cluster_clients import ClusterClients, Work
from .cluster_nodes import ClusterNodes
from .cluster_options import BROKERS, CLIENTS, PORT, ClusterOptions, start_groups
from .cluster_state import lags, metadata_changes, thin, unsettled
from .cluster_voters import ClusterVoters
from .controller_taps import tap_heartbeats, tap_isr_changes
from .controllers import CLUSTER_ID
from .final_reads import FinalReads
from .looks.more_looks import more_looks
from .operations.grammar import Operations
from .operations.rows import ROWS, Crew
from .operations.share_offsets import ShareOffsets
from .operations.tables import PARTITION as TABLE_PARTITION
from .operations.tables import TABLE
from .operator import Operator
from .parties import PARTY_TOPICS, Parties
from .report import Tallies
from .sharing.sharers import PARTITIONS as SHARED_PARTITIONS
from .sharing.sharers import SHARED_IN
from .strangers.impostors import Impostors
from .strangers.quorum_ghost import QuorumGhost
from .strangers.zombie_brokers import ZombieBrokers
from .tier_probes import TierProbes
from .upkeep import Upkeep
from .workload import Shared

TOPIC: Final = "orders"
LISTENER: Final = "PLAINTEXT"
CONVERGE_S: Final = 90.0
CHECK_S: Final = 0.25
MOMENT_S: Final = 0.25
RUN_LIMIT_S: Final = 600.0
CATCH_UP_FACTOR: Final = 5.0
IDLE_S: Final = 2.0
IDLE_EVENTS_MAX: Final = 600
"""A second of one host, when there is nothing to do."""


class ClusterScenario:
    """One run. `run` once; then `findings` and `tallies` say what it came to."""

    def __init__(self, world: World, schedule: Schedule | None = None, options: ClusterOptions | None = None) -> None:
        self.world = world
        self.options = options or ClusterOptions.drawn(world.rng)
        self.schedule = schedule or self.options.schedule(world.rng)
        self.history = History()
        self.anomalies: list[Anomaly] = []
        self.records_checked = 0
        self.records_excused = 0
        self._addresses = [Address(name, PORT) for name in BROKERS]
        self._idle_events: Counter[str] | None = None
        self._next_moment_s = 0.0
        self._doing: dict[asyncio.Task[None], None] = {}
        self._hosts = {node_id: name for name, node_id in BROKERS.items()}
        self._judges = Judges()
        self._observe()
        self._administrate()
        self._judges.add(*self._make_judges(), self, self.injector)
        self.injector.check(self.schedule)
        self.operations.check(self.schedule)

    def _observe(self) -> None:
        """Make everything that publishes events, but clients."""
        world, judges = self.world, self._judges
        self.truth = ClusterTruth(CLUSTER_ID, LISTENER, judges)
        self.nodes = ClusterNodes(world, self.options, self.truth.tap, self._listen_in)
        self.observer = ReplicaObserver(
            self.nodes.broker_of, world.record, judges.on, has_gaps=lambda name: name.topic == TABLE
        )
        self._disks = DurableLogs(
            lambda host: world.host(host).files, lambda directory: directory.name.startswith(f"{TABLE}-")
        )
        self._places = LogPlaces(
            self._hosts, lambda host: world.host(host).files, self.nodes.brokers, lambda: self.truth.image, self._disks
        )
        nodes = self.nodes
        self.quorum = QuorumJudge(
            nodes.controller_ids, nodes.replica, self._disks, world.record, judges.on, nodes.has_disk
        )
        starters = {name: partial(self.nodes.start, name) for name in self.nodes.names}
        self.injector = FaultInjector(world, starters, (*starters, *CLIENTS), self, judges.on)
        world.store.subscribers.append(judges.on_inside)
        self._upkeep = Upkeep(world, self.nodes, self.injector, self.truth, judges.on)
        self.voters = ClusterVoters(world, self.options, nodes, self._upkeep, self.injector, judges.on)

    def _administrate(self) -> None:
        """Make the administrator, and what is done at once when a fault is a request to the cluster."""
        self.administrator = Administrator(
            self.truth,
            self.nodes.brokers,
            self._addresses,
            self.world.rng("administrator"),
            side_configs=self.options.side_configs,
            record=self.world.record,
            kept_features=() if self.options.classic_group else (GROUP_VERSION,),
        )
        self.operator = Operator(
            self.truth,
            self.nodes.brokers,
            self.world.rng("operator"),
            main_topic=TOPIC,
            replication_factor=self.options.replication_factor,
            may_delete_from_main=self.options.expires,
            kept=(*PARTY_TOPICS, TABLE),
            publish=self._judges.on,
            record=self.world.record,
        )
        self._crew = Crew.made(
            self.administrator,
            self.truth,
            tuple(self._addresses),
            self.world.rng,
            brokers=tuple(BROKERS.values()),
            deleted_end=lambda partition: self.operator.deleted.get(partition, 0),
            has_lost=lambda partition: bool(self.losses.allowed_losses_of(partition)),
            roll=self._upkeep.roll,
            unclean_topics=(TOPIC,) if self.options.unclean else (),
            rises=self.options.rises,
            share_offsets=self._make_resets() if self.options.resets else None,
            voters=self.voters.operator,
            clocks=lambda: [self.world.host(name).clock for name in BROKERS],
            more_looks=more_looks(self.world, self.nodes, self.truth, self._upkeep, self._has_lost),
        )
        self.operations = Operations(ROWS, self._crew, self._do, self.world.record)
        controllers = self.nodes.controller_ids
        self._zombies = ZombieBrokers(controllers, self.world.rng("ghosts"), self.nodes.brokers)
        self._ghost = QuorumGhost(controllers, self.world.rng("quorum ghost"))
        self._impostors = Impostors(controllers, self.truth, self._is_in_contact, self.world.rng("impostors"))
        self.injector.immediate_faults |= self._immediate_faults()

    def _make_resets(self) -> ShareOffsets:
        partitions = [TopicPartition(SHARED_IN, number) for number in range(SHARED_PARTITIONS)]
        return ShareOffsets(partitions, self._addresses, self.world.rng("share offsets' operator"), self._has_lost)

    def _make_judges(self) -> list[Judge]:
        """Make all judges, and the clients, which ask some of them."""
        replicas, now_s = self.observer, self.world.loop.time
        places = self._places
        self.losses = LossJudge(self.world, self.truth, replicas, BROKERS, places.log_of, places.is_in)
        self._heartbeats = HeartbeatJudge(
            now_s, warm_bytes=WarmingPolicy().bytes_min, warm_ms=self.options.thin_warm_ms
        )
        self.thin_leaders = ThinLeadersJudge(self._heartbeats)
        tiered, coverage = self._judge_tier()
        answers = ClientAnswersJudge(
            self.history,
            self.losses.allowed_losses_of,
            replicas,
            self._hosts,
            self._name,
            self.retention.highest_start,
            self.retention.all_segments_of,
        )
        self._make_clients(answers)
        self._beginnings = BeginningsJudge()
        self._given = GivenBatchesJudge(
            self.injector.may_give_wrong_bytes, lambda each: bool(self.losses.allowed_losses_of(self._name(each)))
        )
        return [
            self.losses,
            self._beginnings,
            self._given,
            CoordinatorsJudge(self._has_lost, self._shared.now_ms),
            *self.parties.judges(),
            IsrMembersJudge(
                replicas, self.losses.has_lost, lambda: self.truth.image, self._disks, self._hosts, places.log_of
            ),
            self._judge_leavers(),
            *self._judge_promises(),
            self.retention,
            self._judge_fencing(),
            self.thin_leaders,
            self._heartbeats,
            tiered,
            coverage,
            answers,
            self.quorum,
            PaceJudge(),
            QuorumEpochsJudge(),
            ThrottlesJudge(),
            HandOversJudge(lambda: self.truth.image, BROKERS),
            *self._judge_moves(),
            self._judge_joined_batches(),
            *self.voters.judges(self._disks),
            self._zombies,
        ]

    def _make_clients(self, answers: ClientAnswersJudge) -> None:
        self._shared = Shared(
            self.history,
            lambda: int(self.world.now_s * 1000),
            asyncio.Event(),
            self._judges.on,
            logs_of=answers.logs_of,
            were_clocks_set=lambda: self.injector.injected[FaultKind.CLOCK_JUMP] > 0,
        )
        self.clients = ClusterClients(
            self.world,
            self.options,
            self._addresses,
            self._shared,
            has_throttled=str(FaultKind.QUOTA) in self.schedule.kinds,
        )
        self.parties = Parties(
            self.world,
            self.options,
            self._addresses,
            self._shared,
            topic_id=lambda name: self.truth.image.topics[name].topic_id,
            has_lost=self._has_lost,
            hosts=self._hosts,
        )

    def _judge_tier(self) -> tuple[TieredRecordsJudge, CoverageJudge]:
        world, store = self.world, self.world.store
        coverage = CoverageJudge(store.objects, self._covered_from)
        hosts = {node_id: world.host(name) for name, node_id in BROKERS.items()}
        machines = {node_id: (RecentClock(host.clock), host.files) for node_id, host in hosts.items()}
        self.retention = RetentionJudge(self.observer, lambda: self.truth.image, store, coverage, machines, DIRECTORY)
        return TieredRecordsJudge(self.nodes.stable_end_of, self.nodes.finished_in, store.put_ever), coverage

    def _judge_fencing(self) -> FencingJudge:
        return FencingJudge(
            self._hosts,
            self._heartbeats,
            session_s=self.options.session_timeout_ms / 1000,
            now_s=self.world.loop.time,
            up_since_s=self.nodes.up_since_s,
        )

    def _judge_leavers(self) -> IsrLeaversJudge:
        hosts = self._hosts
        return IsrLeaversJudge(
            lambda: self.truth.image,
            self.world.loop.time,
            self._heartbeats,
            lag_time_max_ms=self.options.lag_time_max_ms,
            failed_s=lambda node_id, directory: self._directory_failed_s(hosts[node_id], directory),
            may_lose=lambda node_id: self.injector.may_lose_logs(hosts[node_id]),
        )

    def _judge_joined_batches(self) -> JoinedBatchesJudge:
        files = {node_id: self.world.host(name).files for name, node_id in BROKERS.items()}
        return JoinedBatchesJudge(
            self.observer,
            lambda: self.truth.image,
            files,
            self._places.log_of,
            lambda name: name.topic == TABLE or bool(self.losses.allowed_losses_of(name)),
        )

    def _judge_moves(self) -> list[Judge]:
        """Make the judge of moves between log directories, where brokers have several."""
        image, places = lambda: self.truth.image, self._places
        self._moves = DirectoryMovesJudge(
            image, self.observer, self.losses.has_lost, places.end_where_named, places.twice_open, BROKERS
        )
        return [self._moves] if self.options.log_directories > 1 else []

    def _judge_promises(self) -> list[Judge]:
        """Make the judges of what settings promise by when, faults or not."""
        options, now_s, image = self.options, self.world.loop.time, lambda: self.truth.image
        injector = self.injector
        return [
            IsrLingerersJudge(image, now_s, self._is_running, lag_time_max_ms=options.lag_time_max_ms),
            AnswersJudge(lambda: self.injector.troubled, lambda: int(now_s() * 1000)),
            UnfencedJudge(image, now_s, session_timeout_ms=options.session_timeout_ms),
            SoundReadsJudge(injector.may_be_corrupt, injector.was_damaged, self.nodes.damaged_reads, injector.injected),
            TieringJudge(partial(lags, self.truth, self.nodes.brokers), self.injector.is_troubled, image, now_s),
        ]

    def _is_running(self, replica: ReplicaStatus) -> bool:
        process = self.world.host(self._hosts[replica.node_id]).process
        return process is not None and process.number == replica.incarnation and process.is_running

    def _directory_failed_s(self, host: str, directory: UUID) -> float | None:
        """When a call in that log directory failed last; one that nobody knows any longer may be any."""
        machine = self.world.host(host)
        places = [place for place in LOG_DIRECTORIES if directory_id(machine.files, place) == directory]
        failed_at_s = machine.disk_faults.failed_at_s
        return max([failed_at_s[place] for place in places or LOG_DIRECTORIES if place in failed_at_s], default=None)

    def _immediate_faults(self) -> dict[FaultKind, Callable[[Fault], None]]:
        """Faults that are requests to the cluster."""
        of_cluster: dict[FaultKind, Work] = {
            FaultKind.REPLACE_TOPIC: partial(self.administrator.replace, self.world.rng("replacements")),
            FaultKind.QUORUM_GHOST: self._ghost.haunt,
            FaultKind.DELETE_RECORDS: self.operator.delete_records,
            FaultKind.MIN_ISR: self.operator.set_min_isr,
            FaultKind.QUOTA: self.operator.set_quota,
        }
        of_broker: dict[FaultKind, Callable[[int], Coroutine[None, None, None]]] = {
            FaultKind.GHOST: self._zombies.wake,
            FaultKind.MOVE_REPLICA: self.administrator.move_replica,
            FaultKind.IMPOSTOR: self._impostors.knock,
            FaultKind.UNREGISTER: self.operator.unregister,
            FaultKind.MOVE_DIRECTORY: self.operator.move_directory,
        }
        return {
            **{kind: partial(self._request, work) for kind, work in of_cluster.items()},
            **{kind: partial(self._request_of, work) for kind, work in of_broker.items()},
            FaultKind.RESTART: lambda fault: self._do(partial(self._upkeep.restart, fault.targets[0])),
        }

    def _request(self, work: Work, fault: Fault) -> None:
        self._do(work)

    def _request_of(self, work: Callable[[int], Coroutine[None, None, None]], fault: Fault) -> None:
        self._do(partial(work, BROKERS[fault.targets[0]]))

    def _is_in_contact(self, broker_id: int) -> bool:
        """Whether a broker lives, and controllers had its heartbeat so recently that it cannot be replaced."""
        host, broker = self.world.host(self._hosts[broker_id]), self.truth.image.brokers.get(broker_id)
        heard_s = self._heartbeats.last_s(broker_id)
        is_recent = self.world.now_s - heard_s < self.options.session_timeout_ms / 2000
        return host.node is not None and not host.is_paused and broker is not None and not broker.fenced and is_recent

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(TOPIC, number) for number in range(self.options.partitions)]

    def run(self) -> None:
        """InvariantViolationError at the event that violates one; what is found at the end is in `anomalies`."""
        self.world.loop.on_event = self._on_event
        try:
            self.world.run(self._main(), limit_s=RUN_LIMIT_S)
        finally:
            self.schedule = self.schedule.with_actions(self.operations.performed)

    def findings(self) -> list[str]:
        return [str(anomaly) for anomaly in self.anomalies]

    def tallies(self) -> Tallies:
        changers = (self.administrator, self.operator, self.parties, self._crew)
        by_config = Counter({"unclean elections by config": self.truth.unclean_elections})
        changed = sum((each.changed for each in changers), by_config)
        checked, excused = self.records_checked, self.records_excused
        return Tallies(dict(self.injector.injected), self.history.acknowledged, checked, excused, dict(changed))

    def option_texts(self) -> dict[str, str]:
        return {key: str(value) for key, value in asdict(self.options).items()}

    # -- after every event --------------------------------------------------------------------------------------------

    def _on_event(self, process: Process | None) -> None:
        if process is None:
            return
        self._judges.check()
        self.losses.follow_cluster()
        if self.world.now_s >= self._next_moment_s:
            self._next_moment_s = self.world.now_s + MOMENT_S
            self._judges.on(MomentPassed())
        if self._idle_events is not None:
            self._idle_events[process.host] += 1
        if process.host in self.nodes.controller_ids:
            self.quorum.look(process)
        if process.host in BROKERS:
            self.observer.look(process)

    def on(self, event: Observed) -> None:
        """What the scenario itself has to do, once all judges have had the event."""
        match event:
            case MetadataChanged(_, _, before, after):
                for text in metadata_changes(before, after):
                    self.world.record("metadata", text)
            case ProcessEnded(host) if host in BROKERS:
                self.observer.process_ended(BROKERS[host])
            case DiskWiped(host) if host not in BROKERS:
                self.nodes.disk_lost(host)
            case DiskWiped(host, directory):
                files = self.world.host(host).files
                for place in LOG_DIRECTORIES if directory is None else (directory,):
                    if (lost := directory_id(files, place)) is not None:
                        self.truth.wiped(BROKERS[host], lost)

    def _second_passed(self, events: int) -> None:
        self._judges.on(SecondPassed(events))

    def _has_lost(self, topic: str) -> bool:
        """Whether the fault model permits that something of a topic is lost."""
        now = self.truth.image.topics.get(topic)
        return now is not None and any(
            self.losses.allowed_losses_of(now.id_partition(number)) for number in now.partitions
        )

    def _covered_from(self, name: TopicIdPartition, node_id: int) -> int:
        """Below it a replica may name offsets that have expired: outside of the ISR, or if it was brought back."""
        now = self.truth.image.partition(name.topic_partition)
        is_member = now is not None and node_id in now.isr and not self.losses.allowed_losses_of(name)
        return 0 if is_member else self.retention.highest_start(name)

    def _name(self, partition: TopicPartition) -> TopicIdPartition:
        return self.truth.image.topics[partition.topic].id_partition(partition.partition)

    def _listen_in(self, service: ControllerService) -> None:
        tap_heartbeats(service, self._judges.on_inside)
        tap_isr_changes(service, self._hold)

    def _hold(self, broker_ids: Collection[int]) -> float:
        return max(self.injector.joins(host) for host, broker_id in BROKERS.items() if broker_id in broker_ids)

    # -- the run ------------------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        for names in start_groups(self.nodes.names):
            await asyncio.gather(*(self.nodes.start(name) for name in names))
        await self._create_topics()
        upkeep = [asyncio.create_task(self.injector.keep(name)) for name in self.nodes.names]
        upkeep.append(asyncio.create_task(self._administer(self.administrator.rescue)))
        if self.options.log_directories > 1:
            upkeep.append(asyncio.create_task(self._upkeep.tend_disks()))
        changes = asyncio.create_task(self._administer(partial(self.operations.run, self.schedule.actions)))
        works = [work for partition in self.partitions for work in self.clients.of(partition)]
        works += self.parties.works()
        clients = [asyncio.create_task(self._run_client(host, work), name=name) for name, host, work in works]
        try:
            await first_error(self.injector.run(self.schedule), [*upkeep, changes, *clients])
            self.world.record("faults", "all over: the liveness phase begins")
            for task in (changes, *self._doing):
                task.cancel()
            upkeep.append(asyncio.create_task(every_second(self.world.loop, self._second_passed)))
            await first_error(self._calm_down(clients), [*upkeep, *clients])
        finally:
            for task in [*upkeep, changes, *clients]:
                task.cancel()
            await asyncio.gather(*upkeep, changes, *clients, return_exceptions=True)
        if not self.anomalies:
            await self._rest()
        if not self.anomalies and self.options.newcomer:
            await self._welcome_newcomer()
        if not self.anomalies and self.options.slow_tier:
            await self._administer(self._probe_tier)
        if not self.anomalies:
            await self._judge()
        await self.administrator.close()
        await self.operator.close()
        await self._crew.close()

    async def _create_topics(self) -> None:
        create = self.administrator.create_topic
        await self._administer(partial(create, TOPIC, self.options.assignments, self.options.topic_configs))
        await self.parties.prepare(self.administrator, BROKERS.values(), self._administer)

    async def _calm_down(self, clients: Sequence[asyncio.Task[None]]) -> None:
        """Clients continue for a moment without faults, end, and everything converges. Nothing expires any longer, or
        there would be nothing left to judge; until then clients leave the tier time to catch up with them.
        """
        if self.options.late_shares:
            await self._administer(partial(self.administrator.raise_feature, SHARE_VERSION))
        if self.options.expires:
            self._shared.gap_factor = CATCH_UP_FACTOR
            await self._wait_out("kept too long", self.retention.behind, self.world.now_s + CONVERGE_S)
            await self._administer(lambda: self.administrator.keep_for_ever(TOPIC))
        await asyncio.sleep(2.0)
        await self._administer(self.administrator.copy_again)
        self._shared.stopping.set()
        deadline_s = self.world.now_s + CONVERGE_S
        waiting = [task for task in clients if not task.done()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=CONVERGE_S)
            if late:
                names = sorted(task.get_name() for task in late)
                self.anomalies.append(Anomaly("not live", TOPIC, f"clients that still wait for an answer: {names}"))
        await self._converge(deadline_s)

    async def _converge(self, deadline_s: float) -> None:
        await self._wait_out(
            "not converged",
            lambda: [
                *self.voters.unsettled(),
                *unsettled(
                    self.truth,
                    self.nodes.brokers(),
                    self.nodes.controllers(),
                    self.world.store,
                    self.retention.highest_start,
                    controllers_count=len(self.nodes.controller_ids),
                ),
            ],
            deadline_s,
        )

    async def _wait_out(self, kind: str, left: Callable[[], list[tuple[str, str]]], deadline_s: float) -> None:
        while reasons := left():
            if self.world.now_s > deadline_s:
                self.anomalies += [Anomaly(kind, name, reason) for name, reason in reasons]
                return
            await asyncio.sleep(CHECK_S)

    async def _rest(self) -> None:
        """Check that idle nodes stay idle."""
        self._idle_events = Counter()
        await asyncio.sleep(IDLE_S)
        for host, events in sorted(self._idle_events.items()):
            if events > IDLE_EVENTS_MAX * IDLE_S:
                detail = f"{events / IDLE_S:.0f} events a second of an idle node"
                self.anomalies.append(Anomaly("busy when idle", host, detail))
        self._idle_events = None

    async def _welcome_newcomer(self) -> None:
        """A broker without a vote gets an empty disk, and has to find what it needs in the tier and at the leaders."""
        names = [name for name in BROKERS if name not in self.nodes.controller_ids and self.may_wipe(name)]
        if names:
            name = self.world.rng("newcomer").choice(names)
            self.injector.exchange_disk(name)
            await self.nodes.start(name)
            await self._converge(self.world.now_s + CONVERGE_S)
            if self.options.warms and not self.anomalies:
                await self._wait_out("still thin", lambda: thin(self.nodes.brokers()), self.world.now_s + CONVERGE_S)

    async def _probe_tier(self) -> None:
        """See how a tier that is slow is felt. Brokers restart first: their caches are empty then."""
        await self._upkeep.renew_brokers()
        await self._converge(self.world.now_s + CONVERGE_S)
        if self.anomalies:
            return
        reads = FinalReads(self.world, self._addresses, self._shared, CONVERGE_S)
        probes = TierProbes(
            self.world.store,
            self.world.rng("tier probes"),
            image=lambda: self.truth.image,
            brokers=self.nodes.brokers,
            read_stable=reads.comes_to_the_end,
        )
        self.anomalies += await probes.fetches()
        whole = [each for each in self.partitions if not self.losses.allowed_losses_of(self._name(each))]
        self.anomalies += await probes.committed(whole)

    async def _judge(self) -> None:
        reads = FinalReads(self.world, self._addresses, self._shared, CONVERGE_S)
        logs: dict[str, FinalLog] = {}
        allowed: dict[str, AllowedLosses] = {}
        began: dict[str, Callable[[int], int]] = {}
        for partition in self.partitions + self.parties.partitions:
            logs[str(partition)] = await reads.everything(partition)
            allowed[str(partition)] = self.losses.allowed_losses_of(self._name(partition))
            began[str(partition)] = partial(self._beginnings.began, self._name(partition))
            if not allowed[str(partition)]:
                self.anomalies += await reads.committed(partition)
        self.anomalies += await self.parties.anomalies(logs, "judge")
        verdict = check_history(self.history, logs, allowed, expires=self.options.expires, began=began)
        self.anomalies += verdict.anomalies
        self.records_checked, self.records_excused = verdict.records_checked, verdict.records_excused
        self.anomalies += self.administrator.anomalies()
        for filled in self.administrator.filled:
            log = await reads.everything(filled.topic_partition)
            lost = self.losses.allowed_losses_of(filled)
            self.anomalies += self.administrator.lost_from(filled, log, lost, self.operator.deleted.get(filled, 0))
        if self._crew.tables.is_there and not self.losses.allowed_losses_of(self._name(TABLE_PARTITION)):
            records = await reads.keyed(TABLE_PARTITION)
            self.anomalies += check_values(str(TABLE_PARTITION), self._crew.tables.histories, records)
        self.anomalies += self.operator.anomalies(lambda name: bool(self.losses.allowed_losses_of(name)))
        self.anomalies += self.voters.anomalies()
        if self.options.log_directories > 1:
            await self._administer(self.operator.move_replicas)
            await self._converge(self.world.now_s + CONVERGE_S)
            await self._upkeep.renew_brokers()
        await self._converge(self.world.now_s + CONVERGE_S)
        self.anomalies += self._moves.anomalies(self._places.directory_of)
        self._look_at_files()
        self.anomalies += [] if self.anomalies else await self._crew.looks_at_last()

    def _look_at_files(self) -> None:
        """At rest: a leader that was elected meanwhile may have had to read the remote log metadata first."""
        files = {node_id: self.world.host(name).files for name, node_id in BROKERS.items()}
        image = self.truth.image
        for topic in image.topics.values():
            for number in topic.partitions:
                name = TopicPartition(topic.name, number)
                self.anomalies += replica_anomalies(
                    name, self.nodes.brokers(), files, self.world.store, image, is_compacted=topic.name == TABLE
                )
        for partition in [] if self.anomalies else self.partitions:
            start, batches = log_at_rest(partition, self.nodes.brokers(), files, self.world.store, image)
            self.anomalies += self._given.anomalies(partition, start, batches)

    # -- what the injector asks ----------------------------------------------------------------------------------------

    def move_leaders(self) -> None:
        """Half of the time the partitions', else the quorum's."""
        if self.world.rng(f"move/{self.world.now_s}").random() < 0.5:
            self._do(self.administrator.move_leaders)
        elif (name := self.quorum_leader()) is not None and not self.world.host(name).is_paused:
            replica = self.nodes.replica(name)
            assert replica is not None, name
            context = copy_context()
            context.run(current_process.set, self.world.host(name).process)
            epoch = replica.status.leader_and_epoch.epoch
            self.world.loop.call_soon(replica.resign, epoch, "asked by the simulation", context=context)

    def quorum_leader(self) -> str | None:
        return self.nodes.quorum_leader()

    def may_wipe(self, host: str, directory: Path | None = None) -> bool:
        return self.losses.may_wipe(host, directory)

    # -- clients ------------------------------------------------------------------------------------------------------

    async def _administer(self, work: Work) -> None:
        await self.world.host("administrator").run(work())

    def _do(self, work: Work) -> None:
        """Do it beside everything else, on the administrator's host."""
        task = self.world.loop.create_task(self._administer(work))
        self._doing[task] = None
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._doing[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            assert isinstance(error, Exception), error
            self._judges.report(error)

    async def _run_client(self, host: str, work: Work) -> None:
        await self.world.host(host).run(work())

"""One replica of the metadata quorum: the shell that does what `RaftCore` decides.

    requests, responses, timers, completions --event--> core.step --effects--> this shell

| effect | done by |
|---|---|
| PersistState, VoterProven | `VoteKeeper`, the one task that writes `quorum-state` |
| append, flush, truncate, snapshot effects | `LogOwner`, the one task that changes the log |
| Send | `Peers`, each with a deadline |
| Reply | the future that the request's handler waits for |
| SetTimer | one timer of the event loop |
| HighWatermarkAdvanced, leader changes | `Delivery`, which notifies the listeners |
| AppendAccepted, Completed, Failed | the future that the append's caller waits for |
| Fatal | everything stops; `failed` says why |

Every event goes through `_step`, which does not wait; effects only begin there, in the core's order. Time is the event
loop's clock, chance the `Random` that was given, files the `Disk`: nothing here knows whether it is simulated.

    opened, then started                           stopped
    ---------------------------------------------  ---------------------------------------------------------
    `meta.properties` read, directory locked       the core leaves the quorum in good order: a leader hands over
    log and `quorum-state` opened and recovered    requests under way are abandoned
    `start`: owner and delivery run, core started  log flushed and closed, lock released

`open_replica` returns a whole `QuorumNode`: its log is recovered, and it is silent until `start` names its listeners.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final, TypeVar

from ..light_dataclass import dataclass
from ..log.disk import LogDirectoryLockedError
from ..protocol import OUTSIDE, Unanswered
from ..protocol.fetch import SnapshotId
from ..protocol.net import Address, cancelled
from ..security import ClientIdentity
from .core.config import RaftConfig, ReplicaConfig
from .core.effects import (
    AppendAccepted,
    AppendCompleted,
    AppendFailed,
    AppendFetched,
    AppendRecords,
    BecameLeader,
    Effect,
    Fatal,
    Flush,
    HighWatermarkAdvanced,
    InstallSnapshot,
    LeaderChanged,
    PersistState,
    Reply,
    ResignedLeadership,
    Send,
    SetTimer,
    ShutdownCompleted,
    SnapshotChunkAppend,
    Truncate,
    VoterProven,
    VotersChanged,
)
from .core.errors import QuorumFailedError, QuorumStartError
from .core.events import (
    Append,
    Event,
    RecoveredState,
    RequestReceived,
    Resign,
    Shutdown,
    SnapshotInstalled,
    Started,
    TimerFired,
)
from .core.machine import RaftCore
from .core.messages import Request, Response
from .core.replica import RaftStatus
from .core.state import Endpoint, LeaderAndEpoch, RaftState, ReplicaKey
from .core.voters import KRAFT_VERSION_STATIC, VotersAt
from .delivery import Delivery
from .environment import Machine
from .listener import QuorumListener
from .log_owner import LogOwner
from .metrics import QuorumMetrics
from .peers import Peers
from .pending_appends import PendingAppends
from .storage.control_batches import setup_of_voters
from .storage.formatting import identify
from .storage.metadata_log import METADATA_PARTITION, MetadataLog
from .storage.recovery import recover
from .storage.vote_keeper import VoteKeeper

SHUTDOWN_SLACK_S: Final = 1.0
"""What a shutdown may take beyond the request timeout."""
_TIMER_SLACK_S: Final = 0.0005
"""A timer fires in the millisecond of its deadline, not at its edge, where rounding could make it early."""
_Effect = TypeVar("_Effect", bound=Effect)
_ELECTING: Final = frozenset({RaftState.PROSPECTIVE, RaftState.CANDIDATE})

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_replica(
    config: ReplicaConfig, machine: Machine, *, identity: ClientIdentity | None = None
) -> AsyncIterator[QuorumNode]:
    """Open the replica in `config.directory`. It takes part in the quorum from its `start` on, and stops at the end.

    `identity` protects its connections to other replicas. Raise QuorumStartError, which says what an operator can do.
    """
    try:
        async with AsyncExitStack() as stack:
            raft, storage = await _open_storage(config, machine, stack)
            node = QuorumNode(raft, storage, machine, identity)
            stack.push_async_callback(node.stop)
            opened = stack.pop_all()
    except (*OUTSIDE, LogDirectoryLockedError) as error:
        raise QuorumStartError(f"the quorum's replica in {config.directory} cannot start: {error}") from error
    async with opened:
        yield node


async def _open_storage(
    config: ReplicaConfig, machine: Machine, stack: AsyncExitStack
) -> tuple[RaftConfig, ReplicaStorage]:
    """Identify and lock the directory, open and recover what it holds; `stack` closes and releases it."""
    raft = config.raft
    properties = await identify(machine.disk, config.directory, raft.key.id, raft.cluster_id)
    if not config.is_locked:
        stack.callback(machine.lock_directory(config.directory).release)
    key = ReplicaKey(raft.key.id, properties.directory_id or raft.key.directory_id)
    raft = replace(raft, key=key, cluster_id=properties.cluster_id)
    log = await MetadataLog.open(machine.disk, config.directory, config.log, machine.now_ms)
    stack.push_async_callback(log.close)
    votes = VoteKeeper(machine.disk, config.directory / str(METADATA_PARTITION))
    configured = VotersAt(-1, config.static_voters, KRAFT_VERSION_STATIC)
    recovered = await recover(log, votes, configured, key, can_vote=bool(raft.endpoints))
    return raft, ReplicaStorage(log, votes, configured, recovered)


@dataclass(frozen=True, slots=True)
class ReplicaStorage:
    """What a replica has on its disk, opened and recovered. `configured` are the static voters."""

    log: MetadataLog
    votes: VoteKeeper
    configured: VotersAt
    recovered: RecoveredState


class QuorumNode:
    """One replica, recovered: `open_replica` makes it. Nothing happens before its `start`."""

    def __init__(
        self, config: RaftConfig, storage: ReplicaStorage, machine: Machine, identity: ClientIdentity | None
    ) -> None:
        self.config = config
        self.log = storage.log
        self._votes = storage.votes
        self._configured = storage.configured
        self._now_ms = machine.now_ms
        self._loop = asyncio.get_running_loop()
        self.metrics = QuorumMetrics(self._loop.time)
        self._timer: asyncio.TimerHandle | None = None
        self._election_began_s: float | None = None
        self._left = asyncio.Event()
        self._appends = PendingAppends(self.metrics)
        self._requests: dict[asyncio.Future[Response], None] = {}
        self._is_running = False
        self._stack = AsyncExitStack()
        self.failed: asyncio.Future[str] = self._loop.create_future()
        """Done, with the reason, when this replica has stopped by itself."""
        self._core = RaftCore(config, storage.recovered, machine.rng)
        self._owner = LogOwner(
            self.log,
            now_ms=self._now_ms,
            configured=self._configured,
            metrics=self.metrics,
            report=self._step,
        )
        self._delivery = Delivery(self.log, self._configured, self.metrics, self._fail)
        self._peers = Peers(
            own_id=self.node_id,
            random=machine.rng,
            identity=identity,
            request_timeout_ms=config.request_timeout_ms,
            voters=lambda: self._core.voters_at_end,
            report=self._step,
            ended=self._ended,
        )
        self._performers = self._make_performers()

    # Beginning and end.

    def start(self, listeners: Sequence[QuorumListener] = ()) -> None:
        """Take part in the quorum, and deliver what is committed to `listeners`. To be called once."""
        assert not self._is_running, f"replica {self.node_id} was started before"
        self._delivery.listeners = tuple(listeners)
        self._is_running = True
        tasks = {
            "quorum-state": self._votes.run(lambda: self._core.voters_at_end, self._step),
            "quorum-log": self._owner.run(),
            "quorum-delivery": self._delivery.run(),
        }
        for name, work in tasks.items():
            task = asyncio.create_task(work, name=name)
            task.add_done_callback(self._ended)
            self._stack.push_async_callback(cancelled, task)
        self._stack.callback(self._owner.drop)
        self._stack.push_async_callback(self._peers.close)
        self._step(Started())

    async def stop(self) -> None:
        """Leave in good order: a leader hands over. Idempotent; also after a failure."""
        if self._is_running:
            self._step(Shutdown())
            try:
                async with asyncio.timeout(self.config.request_timeout_ms / 1000 + SHUTDOWN_SLACK_S):
                    await self._left.wait()
            except TimeoutError:
                _log.warning(
                    "replica %d leaves the quorum before its shutdown completed: no other voter took over in time",
                    self.node_id,
                )
        self._halt("it was stopped")
        await self._stack.aclose()

    def _fail(self, reason: str) -> None:
        """Stop for good, without being asked. The owner of this replica sees `failed` and calls `stop`."""
        if not self.failed.done():
            _log.error("replica %d of the quorum has failed: %s", self.config.key.id, reason)
            self.failed.set_result(reason)
        self._halt(reason)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """The supervisor of every task: one that breaks off stops the replica."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("internal error in %s", task.get_name(), exc_info=error)
            self._fail(f"internal error in {task.get_name()}: {error!r}; restart the node")

    def _halt(self, reason: str) -> None:
        """Take no further events, and fail all that wait. Idempotent, does not wait."""
        self._is_running = False
        self._left.set()
        if self._timer is not None:
            self._timer.cancel()
        failure = QuorumFailedError(reason)
        self._appends.fail_all(failure)
        for asked in self._requests:
            if not asked.done():
                asked.set_exception(failure)
                asked.exception()  # it is known: who asked may wait no longer, or be who has failed the replica

    # What it knows.

    @property
    def node_id(self) -> int:
        return self.config.key.id

    @property
    def status(self) -> RaftStatus:
        """What the core knows at this instant."""
        return self._core.status

    @property
    def observers(self) -> int:
        """The number of observers that a leader knows; 0 on other replicas."""
        return self._core.observers

    @property
    def unanswered(self) -> Unanswered:
        """The peers that did not answer the last request."""
        return self._peers.unanswered

    @property
    def has_leader_responded(self) -> bool:
        """Whether the leader has answered this process, or is this replica. Until then the leader is the one that the
        disk names, which led when the process ran last.
        """
        status = self.status
        if status.state is RaftState.LEADER:
            return True
        endpoint = status.leader_endpoint
        return endpoint is not None and self.unanswered.has_answered(Address(endpoint.host, endpoint.port))

    @property
    def has_static_voters(self) -> bool:
        """Whether the configuration names static voters, whatever the log says."""
        return bool(self._configured.voters.nodes)

    @property
    def applied_offset(self) -> int:
        """The offset up to which everything was delivered to the listeners, exclusive."""
        return self._delivery.applied_offset

    # What a state machine asks for.

    async def append(self, epoch: int, records: Sequence[bytes], *, base_offset: int | None = None) -> int:
        """Append one atomic batch as the leader of `epoch`; its last offset. It is committed when a listener sees it.

        NotLeaderError, BufferFullError, QuorumFailedError; UnexpectedOffsetError if it could not be at `base_offset`.
        """
        return await self._append(epoch, records, base_offset, is_for_commit=False)

    async def append_and_commit(self, epoch: int, records: Sequence[bytes]) -> int:
        """Append one atomic batch, and return its last offset once the high watermark has passed it.

        NotLeaderError also when leadership was lost meanwhile: the records may yet be committed.
        """
        return await self._append(epoch, records, None, is_for_commit=True)

    async def _append(
        self, epoch: int, records: Sequence[bytes], base_offset: int | None, *, is_for_commit: bool
    ) -> int:
        self._check_running()
        pending = self._appends.begin(is_for_commit=is_for_commit)
        self._step(Append(pending, epoch, tuple(records), base_offset))
        return await pending.answer

    async def create_snapshot(self, offset: int, epoch: int, records: Iterable[bytes], append_time_ms: int) -> None:
        """Cut a snapshot of the state after the applied record before `offset`, whose epoch and time are given.

        Durable when this returns; then old segments and snapshots are deleted as retention allows. Nothing happens if
        there is one of that offset or a later one.
        """
        self._check_running()
        assert offset <= self.applied_offset, (offset, self.applied_offset)
        latest = self.log.snapshots.latest
        if latest is not None and offset <= latest.end_offset:
            return
        setup = setup_of_voters(self._delivery.voters_at(offset))
        await self._owner.take_snapshot(SnapshotId(offset, epoch), records, setup, append_time_ms)
        self._delivery.snapshot_taken(offset)

    def resign(self, epoch: int, reason: str) -> None:
        """Give up leadership of `epoch`, handing over to the best successor."""
        self._step(Resign(epoch, reason))

    async def ask(self, request: Request) -> Response:
        """The core's answer to a request from another node. QuorumFailedError, also when this replica stops before the
        answer: the caller is not cancelled by that.
        """
        self._check_running()
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._requests[answer] = None
        try:
            self._step(RequestReceived(answer, request))
            return await answer
        finally:
            self._requests.pop(answer, None)

    async def kraft_versions(self, endpoint: Endpoint) -> tuple[int, int]:
        """The range of `kraft.version` that the node at this endpoint supports. OSError."""
        return await self._peers.kraft_versions(endpoint)

    def wall_clock_ms(self, core_ms: int) -> int:
        """Unix time of an instant of the core's clock."""
        return self._now_ms() - (int(self.metrics.now_s() * 1000) - core_ms)

    def _check_running(self) -> None:
        if not self._is_running:
            reason = self.failed.result() if self.failed.done() else "it is not started, or was stopped"
            raise QuorumFailedError(f"replica {self.config.key.id} of the quorum does not run: {reason}")

    # Events in, effects out.

    def _step(self, event: Event) -> None:
        """An internal error stops the replica: a core that broke off half-way must not decide again."""
        if not self._is_running:
            return
        try:
            self._perform_all(event)
        except BaseException as error:
            self._fail(f"internal error at {type(event).__name__}: {error!r}; restart the node")
            raise

    def _perform_all(self, event: Event) -> None:
        core, metrics = self._core, self.metrics
        began_s, state = metrics.now_s(), core.state
        for effect in core.step(event, int(began_s * 1000)):
            self._performers[type(effect)](effect)
        if isinstance(event, SnapshotInstalled):
            self._delivery.snapshot_installed()
        if state is not core.state:
            self._changed_state(state)
        metrics.busy_s += metrics.now_s() - began_s

    def _changed_state(self, before: RaftState) -> None:
        after = self._core.state
        message = "replica %d: %s -> %s, epoch %d, leader %s, high watermark %d, log end %d"
        status = self._core.status
        leader, offsets = status.leader_and_epoch, (status.high_watermark, self.log.log_end_offset)
        _log.info(message, self.node_id, before.value, after.value, leader.epoch, leader.leader_id, *offsets)
        if before in _ELECTING:
            return
        if after in _ELECTING:
            self._election_began_s = self.metrics.now_s()
            self.metrics.elections += 1
        elif after is RaftState.LEADER:  # a lone voter elects itself within one step
            self.metrics.elections += 1
            self.metrics.election.observe(0)

    def _make_performers(self) -> Mapping[type, Callable[..., None]]:
        return dict(
            (
                _performer(PersistState, self._votes.put),
                _performer(VoterProven, self._votes.put),
                _performer(AppendRecords, self._owner.put),
                _performer(AppendFetched, self._owner.put),
                _performer(Flush, self._owner.put),
                _performer(Truncate, self._owner.put),
                _performer(InstallSnapshot, self._owner.put),
                _performer(SnapshotChunkAppend, self._owner.put),
                _performer(Send, self._peers.send),
                _performer(Reply, self._reply),
                _performer(SetTimer, self._set_timer),
                _performer(HighWatermarkAdvanced, lambda effect: self._delivery.advance(effect.offset)),
                _performer(AppendAccepted, self._appends.accepted),
                _performer(AppendCompleted, self._appends.completed),
                _performer(AppendFailed, self._appends.failed),
                _performer(LeaderChanged, self._leader_changed),
                _performer(BecameLeader, self._became_leader),
                _performer(ResignedLeadership, self._resigned),
                _performer(VotersChanged, self._voters_changed),
                _performer(ShutdownCompleted, lambda _: self._left.set()),
                _performer(Fatal, lambda effect: self._fail(effect.reason)),
            )
        )

    def _reply(self, effect: Reply) -> None:
        answer = effect.token
        assert isinstance(answer, asyncio.Future), answer
        if not answer.done():
            answer.set_result(effect.response)

    def _set_timer(self, effect: SetTimer) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if effect.deadline_ms is not None:
            self._timer = self._loop.call_at(effect.deadline_ms / 1000 + _TIMER_SLACK_S, self._step, TimerFired())

    def _leader_changed(self, effect: LeaderChanged) -> None:
        if effect.leader.leader_id is not None and self._election_began_s is not None:
            self.metrics.election.observe(self.metrics.now_s() - self._election_began_s)
            self._election_began_s = None
        if effect.leader.leader_id != self.node_id:
            self._delivery.leader_changed(effect.leader)

    def _became_leader(self, effect: BecameLeader) -> None:
        self._delivery.leader_changed(LeaderAndEpoch(self.node_id, effect.epoch), effect.epoch_start_offset)

    def _resigned(self, effect: ResignedLeadership) -> None:
        """Notify the listeners at once: what they still decide would be rejected, long before a new leader is known."""
        _log.info("replica %d resigned leadership of epoch %d: %s", self.node_id, effect.epoch, effect.reason)
        self._delivery.leader_changed(LeaderAndEpoch(None, effect.epoch))

    def _voters_changed(self, effect: VotersChanged) -> None:
        ids = [node.id for node in effect.voters]
        _log.info("replica %d: voters %s, kraft.version %d", self.node_id, ids, effect.kraft_version)


def _performer(kind: type[_Effect], perform: Callable[[_Effect], None]) -> tuple[type, Callable[..., None]]:
    """Return a row of the table of performers; its types say that the function takes the effect."""
    return kind, perform

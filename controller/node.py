"""A controller at work: a replica of the quorum's log, and if it leads the quorum, the one that decides.

    requests, timers, probes --job--> one worker: core decides --records--> quorum --committed--> core replays, answer

| who | does |
|---|---|
| the quorum | calls `on_commit` for each committed batch, on each controller: only there the image changes |
| the worker | takes one job after the other: decide, append, wait until committed and replayed, answer |
| a heartbeat | is answered where it arrives, if the worker has nothing to do and it brings nothing to write |
| a standby | replays, cuts snapshots, makes itself known to the active one, answers NOT_CONTROLLER |

So the image of the active controller is the committed one, and losing the lead takes nothing back: what was appended
and not committed is either committed by the next leader or never was. Its price is that decisions that write wait for
one another's commit; those that write nothing, as most heartbeats, do not wait.

Failure points: the quorum refuses an append, or leadership ends while a commit is awaited: NOT_CONTROLLER, and whether
it was done shows when the client looks. What does not fit into the quorum's buffer waits, for half a transaction must
not remain in the log. A record that cannot be replayed stops the replica. Where the quorum has appended a record of
its own at the offset that a decision counts on (a broker's epoch), the decision is made again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Final, cast

from ..light_dataclass import dataclass
from ..limited_log import LimitedLog
from ..protocol import ErrorCode, KafkaError
from ..protocol.messages import Request, ResponseT
from ..protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ..protocol.net import monotonic_ms
from ..protocol.wire import Steps
from ..quorum import (
    RECORDS_PER_STEP,
    BufferFullError,
    CommittedBatch,
    LeaderAndEpoch,
    QuorumFailedError,
    QuorumNode,
    SnapshotContent,
    UnexpectedOffsetError,
)
from ..quorum.core import UpgradeKRaftVersionRequest, VoterChangeResponse
from ..security import ClientIdentity
from .core.bootstrap import first_records
from .core.config import NEW_CLUSTER_LEVELS
from .core.fast_failover import LOOK_INTERVAL_S, ProbeOutcome, Verdict
from .core.machine import ControllerCore, batches
from .core.quotas.mutations import MutationClient
from .core.refusals import refusal
from .core.state import ControllerResult, KRaftUpgrade, Moment
from .image.image import MetadataImage
from .image.registrations import BrokerRegistration
from .prober import Prober
from .reachability import Reachability, Sight
from .records import (
    AbortTransactionRecord,
    BrokerRegistrationChangeRecord,
    EndTransactionRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    decode_record,
    encode_record,
)
from .snapshotter import Snapshotter

JOBS_MAX: Final = 10_000
"""Requests that may wait; a further one is rejected with a retriable error."""

DECISIONS_MAX: Final = 100
"""How often one job may be decided again."""

LATE_DIVISOR: Final = 4
"""A session whose end is seen later than this part of its timeout was not watched."""

_MAY_CHANGE_BROKERS: Final = (RegisterBrokerRecord, BrokerRegistrationChangeRecord, EndTransactionRecord)

Decide = Callable[[Moment], ControllerResult[object] | None]

_log = logging.getLogger(__name__)
_rejections = LimitedLog(_log, source_lines_max=1)
"""Brokers repeat a request many times a second."""
_of_peers = LimitedLog(_log)


@dataclass(slots=True, eq=False)
class _Job:
    """Something to decide, and who waits for the response."""

    decide: Decide
    answer: asyncio.Future[object] | None = None


class ControllerNode:
    """The `QuorumListener` of an opened replica, which runs `core` on its log. Its worker runs from `start` on."""

    def __init__(
        self,
        core: ControllerCore,
        node: QuorumNode,
        rng: Random,
        *,
        registration: RegisterControllerRecord,
        snapshotter: Snapshotter,
        formatted: Sequence[MetadataRecord] = (),
        first_levels: Mapping[str, int] = NEW_CLUSTER_LEVELS,
        identity: ClientIdentity | None = None,
    ) -> None:
        """`formatted` are the records that formatting has prepared for a new cluster, `first_levels` the feature levels
        that it begins at otherwise. `identity` is presented to brokers' listeners with TLS.
        """
        self.core = core
        self._node = node
        self._rng = rng
        self.registration = registration
        self._snapshotter = snapshotter
        self._formatted = formatted
        self._first_levels = first_levels
        self._epoch = -1
        self._applied_end = 0
        self._committed = asyncio.Event()
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue(JOBS_MAX)
        self._is_idle = False
        """Nothing is being decided or written."""
        self._workers: list[asyncio.Task[None]] = []
        """The worker, once it was started."""
        self._looking: asyncio.Task[None] | None = None
        """The task that looks for silent brokers while this controller is new."""
        self._prober = Prober(rng, identity)
        self._reachability = Reachability()
        self._brokers_changed = asyncio.Event()
        self._probes: dict[tuple[int, int, int], asyncio.Task[None]] = {}
        """The running probes by epoch of this controller, broker id and epoch of the broker."""
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when an internal error has ended the worker."""

    def start(self) -> None:
        worker = asyncio.create_task(self._work(), name="controller")
        worker.add_done_callback(self._worker_ended)
        self._workers.append(worker)
        if self.core.state.config.fast_failover:
            reaching = self._prober.keep_reaching(
                self._reachability, lambda: self.core.state.image, self._brokers_changed
            )
            worker = asyncio.create_task(reaching, name="controller-reaches")
            worker.add_done_callback(self._worker_ended)
            self._workers.append(worker)

    def _worker_ended(self, worker: asyncio.Task[None]) -> None:
        if not worker.cancelled() and not self.failed.done():
            error = worker.exception()
            _log.error(
                "internal error in controller %d: it stops deciding, restart it",
                self.registration.controller_id,
                exc_info=error,
            )
            self.failed.set_result(f"a decision failed: {error!r}")
            self._reject_jobs()
            if self.core.is_active:  # another decides at once, and not when this process has ended
                self._node.resign(self._epoch, "its controller decides no longer")

    async def close(self) -> None:
        tasks = [task for task in (*self._workers, self._looking, *self._probes.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._snapshotter.close()
        self._reject_jobs()

    @property
    def is_active(self) -> bool:
        """Whether it leads, and decides."""
        return self.core.is_active and not self.failed.done()

    @property
    def image(self) -> MetadataImage:
        """The state of the cluster, as far as it is replayed."""
        return self.core.state.image

    @property
    def applied_end(self) -> int:
        """The offset after the last record that is replayed."""
        return self._applied_end

    # Called by the quorum.

    def on_commit(self, batch: CommittedBatch) -> Steps[None]:
        # No decision falls between two steps: the worker waits until what it has appended is applied.
        records = [decode_record(value).record for value in batch.records]
        yield from self.core.replay_steps(records, batch.last_offset, RECORDS_PER_STEP)
        if any(isinstance(record, _MAY_CHANGE_BROKERS) for record in records):
            self._brokers_changed.set()
        self._applied_end = batch.last_offset + 1
        self._committed.set()
        self._snapshotter.applied(self.core.state.image, batch)

    def on_load_snapshot(self, snapshot: SnapshotContent) -> Steps[None]:
        records = (decode_record(value).record for value in chain.from_iterable(snapshot.batches))
        # Elections are reported after the snapshot: until it is loaded, the state before answers.
        yield from self.core.load_snapshot(records, snapshot.offset - 1, RECORDS_PER_STEP)
        self._applied_end = snapshot.offset
        self._brokers_changed.set()

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        self._stop_looking()
        if leader.leader_id == self._node.node_id and not self.failed.done():
            self._become_active(leader.epoch)
        elif self.core.is_active:
            _log.info("controller %d is no longer active; epoch %d", self._node.node_id, leader.epoch)
            self._resign()

    def _resign(self) -> None:
        self.core.resign()
        self._committed.set()
        self._reject_jobs()

    def _become_active(self, epoch: int) -> None:
        self._epoch = epoch
        config = self.core.state.config
        self.core.state.config = replace(config, cluster_id=self._node.config.cluster_id or config.cluster_id)
        self.core.become_active(monotonic_ms())
        _log.info("controller %d is active; epoch %d", self._node.node_id, epoch)
        self._put(_Job(self._begin))
        self._looking = asyncio.create_task(self._look_for_silent(), name="controller-looks")

    def _begin(self, _: Moment) -> ControllerResult[None]:
        """The first records of a new cluster, and who this controller is."""
        image = self.core.state.image
        # The worker may have waited for a job since before that transaction began, and gets this one before the timers.
        records: list[MetadataRecord] = [AbortTransactionRecord()] if image.is_in_transaction else []
        records += first_records(image, self._formatted, self._first_levels)
        if image.controllers.get(self.registration.controller_id) != self.registration:
            records.append(self.registration)
        return ControllerResult(records, None)

    # Asked by others.

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        """Return the response to a heartbeat: at once where there is nothing to decide."""
        response = self._undecided_response(request) if self.is_active else None
        return await self.request(request) if response is None else response

    async def request(self, request: Request[ResponseT], client: MutationClient | None = None) -> ResponseT:
        """Return the response, once what it says is committed. `client` is given where its changes are limited."""
        if not self.is_active:
            return refusal(request, self._not_active())
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        try:
            self._put(_Job(lambda moment: self._decided(request, moment, client), answer))
            response = cast(ResponseT, await answer)
        except KafkaError as error:
            return refusal(request, error)
        if isinstance(response, BrokerRegistrationResponse) and isinstance(request, BrokerRegistrationRequest):
            self._registration_answered(request.broker_id, response.error_code)
        return response

    def _registration_answered(self, broker_id: int, code: ErrorCode) -> None:
        """Look again for the incarnation that kept a newcomer from being registered."""
        if code is ErrorCode.duplicate_broker_registration and self.core.challenged(broker_id) is Verdict.PROBE:
            self._probe(broker_id)

    def _decided(
        self, request: Request[ResponseT], moment: Moment, client: MutationClient | None
    ) -> ControllerResult[ResponseT]:
        if client is None:
            return self.core.handle(request, moment)
        return self.core.handle_of(request, moment, client)

    def _undecided_response(self, heartbeat: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse | None:
        """Return the response to a heartbeat that finds nothing to decide; None to one that the worker has to see."""
        moment = self._moment()
        if not self._is_idle or not self._jobs.empty():
            self.core.observe(heartbeat, moment)
            return None
        result = self.core.handle(heartbeat, moment)
        return None if result.records or result.refusal else result.response

    def connection_lost(self, broker_id: int, broker_epoch: int) -> None:
        """The connection of a broker's heartbeats has ended: probe whether its process is dead."""
        if self.core.connection_lost(broker_id, broker_epoch) is Verdict.PROBE:
            self._probe(broker_id)

    async def _look_for_silent(self) -> None:
        """Probe silent brokers: a new controller has no connection yet whose end would show that a broker is dead."""
        while (silent := self.core.look_for_silent(monotonic_ms())) is not None:
            for broker_id in silent:
                self._probe(broker_id)
            await asyncio.sleep(LOOK_INTERVAL_S)

    def _stop_looking(self) -> None:
        """What was seen under another leader counts for nothing."""
        for task in (self._looking, *self._probes.values()):
            if task is not None:
                task.cancel()

    def _probe(self, broker_id: int) -> None:
        broker = self.core.state.image.brokers[broker_id]
        key = self._epoch, broker_id, broker.epoch
        if key in self._probes:
            return
        probing = self._prober.until_decided(broker, self._probed)
        task = self._probes[key] = asyncio.create_task(probing, name=f"probe-{broker_id}")
        task.add_done_callback(lambda _: self._probes.pop(key, None))

    async def _probed(self, broker: BrokerRegistration, sight: Sight) -> Verdict:
        """Return FENCE once the broker is fenced, or leadership is lost."""
        verdict: list[Verdict] = []
        outcome = self._reachability.outcome(broker, sight)

        def decide(moment: Moment) -> ControllerResult[None]:
            found, result = self.core.probed(broker.broker_id, broker.epoch, outcome, moment.now_ms)
            verdict.append(found)
            if found is Verdict.FENCE:
                _log.warning("broker %d is dead: %s; fencing it", broker.broker_id, outcome.value)
            return result

        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        try:
            self._put(_Job(decide, answer))
            await answer
        except KafkaError:
            return Verdict.WAIT
        if outcome is ProbeOutcome.REFUSED and self.core.is_in_contact(broker.broker_id):
            self._reachability.is_alive(broker.broker_id)
            self._brokers_changed.set()
        return verdict[0]

    def _put(self, job: _Job) -> None:
        if self.failed.done():
            raise self._not_active()
        try:
            self._jobs.put_nowait(job)
        except asyncio.QueueFull:
            message = f"{JOBS_MAX} requests wait for this controller: try again"
            raise KafkaError(ErrorCode.request_timed_out, message) from None

    def _not_active(self) -> KafkaError:
        leader = self._node.status.leader_and_epoch.leader_id
        message = f"controller {self._node.node_id} is not the active one, but {'none' if leader is None else leader}"
        return KafkaError(ErrorCode.not_controller, message)

    def _reject_jobs(self) -> None:
        while not self._jobs.empty():
            job = self._jobs.get_nowait()
            if job.answer is not None and not job.answer.done():
                job.answer.set_exception(self._not_active())

    # The worker.

    def _moment(self) -> Moment:
        return Moment(monotonic_ms(), self._node.status.next_offset)

    async def _work(self) -> None:
        while True:
            job = await self._next_job()
            try:
                await self._do(job)
            except QuorumFailedError as error:  # for good: what is due would be due again at once, for ever
                self._undone(job, error)
                self._resign()
            except KafkaError as error:
                self._undone(job, error)
            except BaseException:
                self._undone(job, self._not_active())
                raise

    async def _next_job(self) -> _Job:
        """What waits, or the timers that are due."""
        deadline_ms = self.core.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= monotonic_ms():
            return _Job(self._fire)
        self._is_idle = True
        try:
            async with asyncio.timeout_at(None if deadline_ms is None else deadline_ms / 1000):
                return await self._jobs.get()
        except TimeoutError:
            return _Job(self._fire)
        finally:
            self._is_idle = False

    def _fire(self, moment: Moment) -> ControllerResult[None] | None:
        expiry_ms = self.core.next_expiry_ms()
        if (
            expiry_ms is not None
            and moment.now_ms - expiry_ms > self.core.state.config.session_timeout_ms // LATE_DIVISOR
        ):
            _log.warning("controller %d was held up: every broker session starts again", self._node.node_id)
            self.core.on_pause(moment.now_ms)
        return self.core.fire(moment)

    async def _do(self, job: _Job) -> None:
        if not self.is_active:
            raise self._not_active()
        result = await self._decide(job)
        if job.answer is not None and not job.answer.done():
            job.answer.set_result(None if result is None else result.response)

    async def _decide(self, job: _Job) -> ControllerResult[object] | None:
        """Decide, and commit the decision."""
        for _ in range(DECISIONS_MAX):
            self.core.state.kraft_version = self._node.status.voters.kraft_version
            result = job.decide(self._moment())
            try:
                if result is not None:
                    await self._carry_out(result)
            except UnexpectedOffsetError:
                continue
            if result is not None and result.refusal:
                _rejections.warning(result.refusal, "controller %d rejects: %s", self._node.node_id, result.refusal)
            return result
        raise KafkaError(ErrorCode.request_timed_out, f"the quorum's own records came first {DECISIONS_MAX} times")

    async def _carry_out(self, result: ControllerResult[object]) -> None:
        if result.kraft_upgrade is not None:
            await self._upgrade(result.kraft_upgrade)
        if result.records:
            self.core.written(result, await self._commit(result))

    async def _upgrade(self, upgrade: KRaftUpgrade) -> None:
        request = UpgradeKRaftVersionRequest(
            epoch=self._epoch, level=upgrade.level, validate_only=upgrade.validate_only
        )
        response = await self._node.ask(request)
        assert isinstance(response, VoterChangeResponse), response
        if response.error is ErrorCode.not_leader_or_follower:
            raise self._not_active()
        if response.error is not ErrorCode.none:
            raise KafkaError(response.error, response.message)

    def _undone(self, job: _Job, error: KafkaError | QuorumFailedError) -> None:
        if job.answer is None:
            if self.is_active:
                _of_peers.warning("", "controller %d: a decision was not written: %s", self._node.node_id, error)
        elif not job.answer.done():
            job.answer.set_exception(error if isinstance(error, KafkaError) else self._not_active())

    async def _commit(self, result: ControllerResult[object]) -> int:
        """Append, and wait until all of it was replayed here; the last offset."""
        epoch, last_offset, base_offset = self._epoch, -1, result.base_offset
        for records in batches(result):
            last_offset = await self._append(epoch, [encode_record(record) for record in records], base_offset)
            base_offset = None
            await asyncio.sleep(0)
        while self._applied_end <= last_offset:
            await self._until_applied_more(epoch)
        return last_offset

    async def _append(self, epoch: int, values: Sequence[bytes], base_offset: int | None) -> int:
        while True:
            try:
                return await self._node.append(epoch, values, base_offset=base_offset)
            except BufferFullError:
                await self._until_applied_more(epoch)

    async def _until_applied_more(self, epoch: int) -> None:
        if not self.is_active or self._epoch != epoch:
            raise self._not_active()
        self._committed.clear()
        await self._committed.wait()

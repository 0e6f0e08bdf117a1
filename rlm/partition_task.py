"""Keeps one hosted partition's tier: looks, plans, performs, and looks again. A leader also copies; a follower never.

Three loops run side by side, so that an upload of minutes holds up neither expiry nor what the ledger says:

| loop   | woken by                                              | does                                   |
|--------|-------------------------------------------------------|----------------------------------------|
| copy   | a roll, the last stable offset, the ledger, `wake`    | the next copy, as long as there is one |
| upkeep | the ledger, a copy that ended, `wake`                 | everything else that the plan asks for |
| ledger | every new event of the partition                      | wakes the other two                    |

Copy and upkeep also check once in every task interval whether another look may find something: whether anything has
changed on which the last one depended, or its time is over (`core/rest.py`). Only then do they look.

Rules:

* A loop survives every error: it waits, longer each time, and looks again. What failed is in the next view.
* A plan that comes out as the one just performed has no effect: it waits for the next reason to look.
* A segment that was found damaged on its way is read and checked before it is tried again: until somebody mends it, or
  another replica leads, nothing is uploaded in vain, and nothing behind it either.
* A copy that another broker's has overtaken is not tried again before that one has ended, or its time is over. The
  leader of a later epoch is overtaken by none of an earlier one, so it never waits for a deposed leader.
* The task belongs to one leadership. When that ends it is cancelled, and what it was copying is an orphan in the
  ledger for the next leader.
* What holds back copies without being an error is reported once it can no longer end by itself: an open transaction
  (`core/held_back.py`).
* While the ledger is not ready, nothing is known and nothing is done. A log that lost its log start takes it from the
  ledger before anything else (bootstrap rule 4).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random

from ..light_dataclass import dataclass
from ..log import PartitionLog
from ..log.core import OpenTransaction
from ..log.segment import LogSegment
from ..protocol import OUTSIDE, TopicIdPartition
from ..remote import IndexType, RemoteLogMetadataManager
from ..remote.core import Bounds, RemoteLogLedger, RemoteLogSegmentId, RemoteLogSegmentMetadata, UsableSegments
from .checked_source import DamagedSegmentError, checked_log
from .config import RemoteLogManagerConfig
from .copier import SegmentCopier, describe_copy, open_segment_data
from .core.held_back import BUFFER_MS, HeldBack, Notice
from .core.moment import Moment
from .core.plan import (
    AbandonOrphan,
    DeleteRemote,
    Prove,
    Upkeep,
    first_offset_of_tier,
    must_give_way,
    overtaken_by,
    pending_copies,
    plan_upkeep,
)
from .core.rest import Inputs, Rest
from .core.view import LocalSegment, PartitionView, TierMode, TierPolicy
from .expiry import PartitionUpkeep, Proofs, RemoteSegmentDeleter, raise_if_cancelled
from .metrics import CopyLag, RemoteLogCounters

SEGMENTS_PER_SLICE = 512
"""Remote segments that one slice looks at before the event loop gets its turn: two to four milliseconds."""
ENDING_WORK = frozenset({"copy", "upkeep"})
"""The repeated work that ends each time, in success or in an error."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Leadership:
    """`isr_log_start_min` gives the lowest log start offset in the ISR, the leader's own included."""

    leader_epoch: int
    isr_log_start_min: Callable[[], int]


@dataclass(frozen=True, slots=True)
class TierServices:
    """What all partitions of a broker share. `storage` keeps deadlines."""

    broker_id: int
    config: RemoteLogManagerConfig
    metadata: RemoteLogMetadataManager
    copier: SegmentCopier
    deleter: RemoteSegmentDeleter
    copy_slots: asyncio.Semaphore
    counters: RemoteLogCounters
    random: Random
    wall_clock_ms: Callable[[], int]


class PartitionTask:
    """See the module's docstring; `run` until cancelled."""

    def __init__(
        self, partition: TopicIdPartition, log: PartitionLog, leadership: Leadership | None, services: TierServices
    ) -> None:
        self.partition = partition
        self.lag = CopyLag()
        self.errors: dict[str, str] = {}
        """Why the last copy or upkeep failed, by kind of work; a success removes it."""
        self._name = str(partition.topic_partition)
        self._log = log
        self._leadership = leadership
        self._services = services
        self._usable = UsableSegments()
        self._proofs = Proofs(self._usable, disproven_for_s=services.config.task_interval_ms / 1000)
        self._upkeep = PartitionUpkeep(partition, log, services.deleter, services.counters, self._proofs)
        self._performed: list[Upkeep] = []
        self._copy_pause = _Pause()
        self._upkeep_pause = _Pause()
        self._copying: RemoteLogSegmentId | None = None
        self._copy_task: asyncio.Task[None] | None = None
        self._damaged_base_offset: int | None = None
        self._rival: RemoteLogSegmentMetadata | None = None
        """The copy of another broker that has overtaken one of ours, the last time that this happened."""
        self._seen_active_base_offset = -1
        self._awaited_stable_offset: int | None = None
        self._held_back = HeldBack(services.config.transaction_max_timeout_ms + BUFFER_MS)
        self._ledger_version = -1

    @property
    def policy(self) -> TierPolicy:
        return TierPolicy.of(self.partition.topic, self._log.state.config)

    def wake(self) -> None:
        """Note a change that no listener reports: the configuration, or what the ISR has fetched."""
        self._copy_pause.wake()
        self._upkeep_pause.wake()
        if self._copy_task is not None and self.policy.mode is not TierMode.COPYING:
            self._copy_task.cancel()

    async def run(self) -> None:
        self._log.state.listeners.append(self._on_log_change)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._repeat(self._follow_ledger, _Pause(), "following the ledger"))
                group.create_task(self._repeat(self._do_upkeep, self._upkeep_pause, "upkeep"))
                if self._leadership is not None:
                    group.create_task(self._repeat(self._copy_next, self._copy_pause, "copy"))
        finally:
            self._log.state.listeners.remove(self._on_log_change)

    async def _repeat(self, step: Callable[[], Awaitable[bool]], pause: _Pause, what: str) -> None:
        """`step` again at once while it says True, else when woken, or after a task interval in which its rest ended.
        The first failure of an outage is a warning; those that follow, which may last for hours and on many partitions,
        are logged at INFO.
        """
        is_warned = False
        backoff = self._services.config.backoff(self._services.random)
        while True:
            pause.begin_step()
            try:
                has_more = await step()
            except OUTSIDE as error:
                delay_ms = backoff.next_delay_ms()
                self._note(what, str(error))
                level, is_warned = logging.INFO if is_warned else logging.WARNING, True
                logger.log(level, "%s: %s failed, retrying in %.0f ms: %s", self._name, what, delay_ms, error)
            except Exception:
                delay_ms = backoff.next_delay_ms()
                self._note(what, "internal error, see the broker's log")
                logger.exception("%s: internal error in %s, retrying in %.0f ms", self._name, what, delay_ms)
            else:
                backoff.reset()
                self.errors.pop(what, None)
                is_warned = False
                if not has_more:
                    await pause.until_due(self._services.config.task_interval_ms, self._is_at_rest)
                continue
            raise_if_cancelled()
            self._services.counters.errors[what] += 1
            await asyncio.sleep(delay_ms / 1000)

    def _note(self, what: str, error: str) -> None:
        """Keep the error of a work that ends: to follow the ledger is to wait, and never known to have succeeded."""
        if what in ENDING_WORK:
            self.errors[what] = error

    async def _follow_ledger(self) -> bool:
        metadata = self._services.metadata
        if self._ledger_version < 0:
            await metadata.assign([self.partition])
        ledger = await metadata.wait_newer(self.partition, self._ledger_version)
        self._ledger_version = ledger.version
        self._copy_pause.wake()
        self._upkeep_pause.wake()
        return True

    async def _catch_up(self) -> None:
        """Bring the usable segments up to date in slices: after a change of role there may be many thousands."""
        metadata = self._services.metadata
        while True:
            ledger = metadata.ledger(self.partition)
            if ledger is None or self._advance(ledger):
                return
            await asyncio.sleep(0)

    def _advance(self, ledger: RemoteLogLedger) -> bool:
        log = self._log
        # Without a log start all of the tier's segments are looked at: they will say where it is.
        log_start_offset = log.state.log_start_offset if log.state.log_start_known else 0
        return self._usable.advance(
            ledger, Bounds(log.state.epochs, log_start_offset, log.state.log_end_offset), SEGMENTS_PER_SLICE
        )

    async def _do_upkeep(self) -> bool:
        await self._catch_up()
        inputs, moment = self._inputs(), Moment(self._services.wall_clock_ms())
        view = self._view_of(inputs)
        if view is not None and not inputs.log_start_known:
            await self._log.set_log_start_from_ledger(first_offset_of_tier(view))
            return True
        planned = plan_upkeep(view, moment) if view else []
        if view is None or not planned:
            self._upkeep_pause.rest = Rest(inputs, moment)
        if view is None or not planned or planned == self._performed:
            self._performed = []
            return False
        remote = _segments_of(planned, view.ledger)
        failures = [failure for action in planned if (failure := await self._try(action, remote))]
        if failures:
            raise failures[0]
        self._performed = planned
        return True

    async def _try(
        self, action: Upkeep, remote: Mapping[RemoteLogSegmentId, RemoteLogSegmentMetadata]
    ) -> Exception | None:
        """One action; what cannot be done now holds up none of the others."""
        try:
            await self._upkeep.perform(action, remote)
        except OUTSIDE as error:
            raise_if_cancelled()
            return error
        if isinstance(action, Prove):
            self._copy_pause.wake()
        return None

    async def _copy_next(self) -> bool:
        await self._catch_up()
        if self._next_copy() is None:
            return False
        async with self._services.copy_slots:
            found = self._next_copy()
            if found is None:
                return False
            self._copy_task = asyncio.create_task(self._copy(found[1]))
            await _wait_for_end(self._copy_task)
        return True

    def _next_copy(self) -> tuple[PartitionView, LocalSegment] | None:
        """The view and its oldest pending segment; without one, remember what could bring one."""
        inputs, moment = self._inputs(), Moment(self._services.wall_clock_ms())
        view = self._view_of(inputs)
        pending = pending_copies(view) if view else []
        holds_back = _holds_back(view, inputs.oldest_open) if view else None
        if view is not None:
            self._count_held_back(view, holds_back)
        self._note_lag(pending)
        if view is not None and pending:
            if self._rival is None or not must_give_way(view, pending[0], self._rival, moment):
                return view, pending[0]
        elif view is not None:
            self._seen_active_base_offset = view.active.base_offset
            above = (segment.end_offset for segment in view.closed if segment.end_offset > view.last_stable_offset)
            self._awaited_stable_offset = next(above, None)
        if holds_back is None:  # for how long it does is counted at each look
            self._copy_pause.rest = Rest(inputs, moment)
        return None

    def _count_held_back(self, view: PartitionView, transaction: OpenTransaction | None) -> None:
        """Count for how long `transaction` has held back copies; None: nothing does. Report what lasts too long."""
        notice = self._held_back.step(transaction, int(asyncio.get_running_loop().time() * 1000))
        if notice is not None:
            _report(self._name, notice, view)

    def _note_lag(self, pending: Sequence[LocalSegment]) -> None:
        self.lag = CopyLag(
            len(pending),
            sum(segment.size_bytes for segment in pending),
            bool(pending) and pending[0].base_offset == self._damaged_base_offset,
            self._held_back.held_ms,
            self._held_back.is_hanging,
        )

    async def _copy(self, segment: LocalSegment) -> None:
        try:
            await self._services.copier.admit(segment.size_bytes)
            found = self._next_copy()  # the wait may have been long
            if found is not None and found[1].base_offset == segment.base_offset:
                await self._upload(found[1])
        finally:
            self._copy_task = None

    async def _upload(self, segment: LocalSegment) -> None:
        services = self._services
        source = next(each for each in self._log.state.segments if each.base_offset == segment.base_offset)
        assert self._leadership is not None, f"{self._name}: only a leader copies"
        self._copying = RemoteLogSegmentId.of_attempt(
            self.partition, self._leadership.leader_epoch, services.random.getrandbits(128)
        )
        try:
            async with open_segment_data(self._log, source) as data:
                if segment.base_offset == self._damaged_base_offset:
                    await checked_log(data).finish()
                view = self._look()  # of the same moment as the epochs in `data`: the log start may have been raised
                if view is None or segment not in pending_copies(view):
                    return
                now_ms = services.wall_clock_ms()
                is_txn_index_empty = IndexType.TRANSACTION not in data.indexes
                metadata = describe_copy(
                    view, segment, self._copying, txn_index_empty=is_txn_index_empty, now_ms=now_ms
                )
                await services.copier.copy(metadata, data, lambda: self._is_wanted(segment, metadata.segment_id))
        except DamagedSegmentError:
            self._damaged_base_offset = segment.base_offset
            raise
        finally:
            self._copying = None
            self._upkeep_pause.wake()
        self._damaged_base_offset = None
        services.counters.copied_segments += 1
        services.counters.copied_bytes += segment.size_bytes

    def _is_wanted(self, segment: LocalSegment, attempt: RemoteLogSegmentId) -> bool:
        """Return whether this attempt to copy `segment` may continue, by what the ledger says now."""
        view = self._look()
        if view is None:
            return False
        pending = ((part.base_offset, part.end_offset) for part in pending_copies(view))
        if (rival := overtaken_by(view, attempt, Moment(self._services.wall_clock_ms()))) is not None:
            self._rival = rival
        return (segment.base_offset, segment.end_offset) in pending and rival is None

    def _on_log_change(self) -> None:
        """Called for every append: cheap, and wakes only for what can matter to a copy."""
        has_rolled = self._log.state.segments.active.base_offset != self._seen_active_base_offset
        awaited = self._awaited_stable_offset
        if has_rolled or (awaited is not None and self._log.state.offsets.last_stable_offset >= awaited):
            self._copy_pause.wake()

    def _is_at_rest(self, rest: Rest) -> bool:
        return rest.holds(self._inputs(), self._services.wall_clock_ms())

    def _inputs(self) -> Inputs:
        """Return all that a look sees now. A bad finding that has become old is forgotten here."""
        state, leadership = self._log.state, self._leadership
        ledger = self._services.metadata.ledger(self.partition)
        if self._copying is None:  # a bad finding may be why a copy is under way: it holds until that has ended
            self._proofs.forget_old(asyncio.get_running_loop().time())
        offsets, segments = state.offsets, state.segments
        active = segments.active
        return Inputs(
            ledger=ledger,
            ledger_version=-1 if ledger is None else ledger.version,
            config=state.config,
            log_start_known=state.log_start_known,
            log_start_offset=offsets.log_start_offset,
            local_log_start_offset=offsets.local_log_start_offset,
            high_watermark=offsets.high_watermark,
            last_stable_offset=offsets.last_stable_offset,
            log_end_offset=offsets.log_end_offset,
            epochs=state.epochs.entries,
            segments=segments,
            segments_version=segments.version,
            active_end_offset=active.next_offset,
            active_size_bytes=active.written_bytes,
            active_timestamp_ms=active.largest_timestamp_ms,
            oldest_open=state.producers.oldest_open,
            isr_log_start_min=leadership.isr_log_start_min() if leadership else offsets.log_start_offset,
            copying=self._copying,
            findings_version=self._proofs.version,
            rival=self._rival,
            damaged_base_offset=self._damaged_base_offset,
        )

    def _look(self) -> PartitionView | None:
        return self._view_of(self._inputs())

    def _view_of(self, inputs: Inputs) -> PartitionView | None:
        """The partition as it is now, `inputs` being of the same moment; None while its ledger is not ready, or tells
        that the topic was deleted and the partition's tier with it: what came then would stay for ever.
        """
        ledger = inputs.ledger
        if ledger is None or ledger.delete_state is not None:
            return None
        while not self._advance(ledger):
            pass  # little is left here: the loops have caught up before
        *closed, active = [_local_segment(segment) for segment in self._log.state.segments]
        return PartitionView(
            partition=self.partition,
            broker_id=self._services.broker_id,
            leader_epoch=self._leadership.leader_epoch if self._leadership else None,
            epochs=inputs.epochs,
            log_start_offset=inputs.log_start_offset,
            local_log_start_offset=inputs.local_log_start_offset,
            high_watermark=inputs.high_watermark,
            last_stable_offset=inputs.last_stable_offset,
            log_end_offset=inputs.log_end_offset,
            closed=tuple(closed),
            active=active,
            ledger=ledger,
            usable=self._usable,
            deleted_to=ledger.deleted_to(inputs.epochs, inputs.log_start_offset),
            isr_log_start_min=inputs.isr_log_start_min,
            policy=TierPolicy.of(self.partition.topic, inputs.config),
            copy_deadline=self._services.config.copy_deadline,
            in_flight=frozenset() if inputs.copying is None else frozenset({inputs.copying}),
            proven=self._proofs.proven,
            disproven=self._proofs.disproven,
        )


class _Pause:
    """Where one loop waits between its looks. `rest` is what its last look left that found nothing to do."""

    _timer: asyncio.TimerHandle

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self.rest: Rest | None = None

    def wake(self) -> None:
        """Have the loop look once more, whatever it rests on."""
        self._woken.set()

    def begin_step(self) -> None:
        """Forget the rest, and every wake so far: what they reported is seen by the step that begins."""
        self._woken.clear()
        self.rest = None

    async def until_due(self, interval_ms: int, holds: Callable[[Rest], bool]) -> None:
        """Wait until woken, or for whole intervals until the rest, if there is one, no longer `holds`."""
        self._check_after(interval_ms / 1000, holds)
        try:
            await self._woken.wait()
        finally:
            self._timer.cancel()

    def _check_after(self, interval_s: float, holds: Callable[[Rest], bool]) -> None:
        self._timer = asyncio.get_running_loop().call_later(interval_s, self._check, interval_s, holds)

    def _check(self, interval_s: float, holds: Callable[[Rest], bool]) -> None:
        self._check_after(interval_s, holds)  # first: an error of ours below does not end the checks
        if self.rest is None or not holds(self.rest):
            self.wake()


def _holds_back(view: PartitionView, transaction: OpenTransaction | None) -> OpenTransaction | None:
    """Return `transaction`, the oldest open one, if it keeps closed segments out of the tier; else None."""
    if transaction is None or view.policy.mode is not TierMode.COPYING or not view.closed:
        return None
    is_lowest = max(transaction.first_offset, view.log_start_offset) <= view.last_stable_offset
    return transaction if is_lowest and view.closed[-1].end_offset > view.last_stable_offset else None


def _report(name: str, notice: Notice, view: PartitionView) -> None:
    producer_id, epoch, offset = notice.transaction
    if notice.is_over:
        logger.info(
            "%s: the transaction of producer %d at offset %d no longer holds back copies to the tier, after %d s",
            name, producer_id, offset, notice.held_ms // 1000,
        )  # fmt: skip
        return
    held = [segment for segment in view.closed if segment.end_offset > view.last_stable_offset]
    logger.warning(
        "%s: producer %d in epoch %d has a transaction open at offset %d, which has held back %d closed segments"
        " (%d bytes) from the tier for %d s, longer than transaction.max.timeout.ms allows: end it with"
        " `tierfetch transactions abort --topic %s --partition %d --start-offset %d` if"
        " `tierfetch transactions find-hanging` lists it",
        name, producer_id, epoch, offset, len(held), sum(segment.size_bytes for segment in held),
        notice.held_ms // 1000, view.partition.topic, view.partition.partition, offset,
    )  # fmt: skip


def _segments_of(
    planned: Sequence[Upkeep], ledger: RemoteLogLedger
) -> dict[RemoteLogSegmentId, RemoteLogSegmentMetadata]:
    """Return the segments that `planned` names, as they are in the ledger when it is planned."""
    found: dict[RemoteLogSegmentId, RemoteLogSegmentMetadata] = {}
    for action in planned:
        match action:
            case AbandonOrphan(segment_id):
                segment_ids: tuple[RemoteLogSegmentId, ...] = (segment_id,)
            case DeleteRemote(segment_ids) | Prove(segment_ids):
                pass
            case _:
                segment_ids = ()
        for segment_id in segment_ids:
            segment = ledger.get(segment_id)
            assert segment is not None, (action, segment_id)
            found[segment_id] = segment
    return found


def _local_segment(segment: LogSegment) -> LocalSegment:
    return LocalSegment(segment.base_offset, segment.next_offset, segment.written_bytes, segment.largest_timestamp_ms)


async def _wait_for_end(task: asyncio.Task[None]) -> None:
    """Raises what `task` raised, nothing if somebody else cancelled it; cancelled itself, it cancels `task` too."""
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
    if not task.cancelled():
        task.result()

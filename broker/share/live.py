"""One share-partition at work, in one leader epoch: what one group has under way in one partition that is led here.

    loading --the state is read--> active --leadership ends, a newer one has written, the state is deleted--> closed
       \\--it cannot be read--> closed <--an exception that nothing expects, anywhere--

| state | fetches | acknowledgements |
|---|---|---|
| loading | wait | INVALID_RECORD_STATE: nothing is locked |
| active | one at a time reads the log and acquires | answered once they are written |
| closed | NOT_LEADER_OR_FOLLOWER, or what the coordinator said; the next fetch loads again | the same |

One write is under way; what is decided meanwhile shares the next one, unless it is about the same records. So writes
never overtake one another. A write belongs to the share-partition, not to the request that waits for it: a request may
be cancelled, its acknowledgement is settled all the same.

Timers: one for the lock that ends first.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

from ...light_dataclass import dataclass
from ...limited_log import LimitedLog
from ...protocol import OUTSIDE, ErrorCode, KafkaError
from ...protocol.net import monotonic_ms
from ..replicas.delayed import Sleepers
from ..replicas.partition import Partition
from .core.acknowledgements import Acknowledged
from .core.partition import AcquiredRecords, AcquireLimits, FetchedBatch, SharePartition, Write
from .metrics import ShareCounters
from .persister import UNINITIALIZED, LeaderPersister, ShareKey, StateWrite
from .settings import GroupShareSettings

WRITES_JOINED_MAX: Final = 100
"""The number of decisions that share a write."""
BATCHES_JOINED_MAX: Final = 5_000
"""The number of ranges of offsets above which a write takes in no further decision."""
WRITES_WAITING_MAX: Final = 10_000
"""The number of decisions that wait to be written; an acknowledgement beyond is COORDINATOR_NOT_AVAILABLE."""

_NOT_NOW: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)
_FENCED: Final = frozenset({ErrorCode.fenced_leader_epoch, ErrorCode.fenced_state_epoch})
_ENDED_BY: Final = _FENCED | {ErrorCode.invalid_request}
"""The errors of a write after which what is held here is not what the coordinator has; INVALID_REQUEST: nothing."""
_PASSED_ON: Final = frozenset({ErrorCode.group_id_not_found, ErrorCode.unknown_topic_or_partition})

_log = LimitedLog(logging.getLogger(__name__))

FirstOffset = Callable[[Partition, GroupShareSettings], Awaitable[int]]
"""Returns where a group begins that has nothing in this partition yet."""


@dataclass(slots=True, eq=False)
class _Waiting:
    write: Write
    written: asyncio.Future[None] | None
    """None where no request waits for it."""


class LiveSharePartition:
    """See the module's docstring. `close` it when leadership ends."""

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        persister: LeaderPersister,
        settings: GroupShareSettings,
        first_offset: FirstOffset,
        counters: ShareCounters,
        *,
        on_closed: Callable[[LiveSharePartition], None],
        on_settled: Callable[[LiveSharePartition], None],
    ) -> None:
        """`on_settled` is called when it has loaded, and whenever all is written."""
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader().leader_epoch
        self.settings = settings
        self.news = Sleepers()
        """Wakes fetches: something may be acquired that could not be before, or the share-partition is closed."""
        self.turns = Sleepers()
        """Wakes fetches that found another one reading."""
        self.is_being_read = False
        self.holders: set[str] = set()
        """The members of sessions that have acquired something here."""
        self.closed: KafkaError | None = None
        self._persister = persister
        self._first_offset = first_offset
        self._counters = counters
        self._on_closed = on_closed
        self._on_settled = on_settled
        self._machine: SharePartition | None = None
        self._state_epoch = 0
        self._waiting: deque[_Waiting] = deque()
        self._under_way: list[_Waiting] = []
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = asyncio.create_task(self._load(), name=f"load-{key}")
        """The load, then each run of writes."""

    # What is there.

    @property
    def machine(self) -> SharePartition | None:
        """What the group has under way; None while it is loaded."""
        return self._machine

    @property
    def is_idle(self) -> bool:
        """Whether it may be forgotten: nothing is locked, no write is under way."""
        return self._task is None and self._machine is not None and self._machine.is_idle

    def can_acquire(self) -> bool:
        """Return whether a fetch has something to look for."""
        return self._machine is not None and self.closed is None and self._machine.can_acquire()

    def fetch_offset(self) -> int:
        """Return where to read, at this instant."""
        assert self._machine is not None, f"{self.key} is read before it is loaded"
        self._machine.log_start_moved(self.partition.log.state.log_start_offset)
        return self._machine.next_fetch_offset()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep other fetches from reading the same records meanwhile."""
        assert not self.is_being_read, self.key
        self.is_being_read = True
        try:
            yield
        finally:
            self.is_being_read = False
            self.turns.wake()

    # What is done.

    def acquire(
        self, member: str, fetch_offset: int, batches: Sequence[FetchedBatch], limits: AcquireLimits
    ) -> tuple[AcquiredRecords, ...]:
        """Give a member what it may have of what was read."""
        if self._machine is None or self.closed is not None:
            return ()
        self._machine.settings = self.settings.records
        acquired = self._machine.acquire(member, fetch_offset, batches, limits, monotonic_ms())
        self._set_timer()
        return acquired

    def give_back(self, acquired: Sequence[AcquiredRecords]) -> None:
        """Undo an acquisition of this instant."""
        assert self._machine is not None, self.key
        self._machine.give_back(acquired)
        self._set_timer()
        self.news.wake()

    def note_given(self, acquired: Sequence[AcquiredRecords]) -> None:
        """Count what a member is sent."""
        self._counters.acquired_records += sum(each.last - each.first + 1 for each in acquired)

    def acknowledge(self, member: str, ranges: Sequence[Acknowledged]) -> asyncio.Future[None] | None:
        """Begin an acknowledgement; return what is done once it holds, None if it does already. Raise KafkaError, also
        from what is returned.
        """
        if self.closed is not None:
            raise self.closed
        if self._machine is None:
            raise KafkaError(ErrorCode.invalid_record_state, f"{self.key}: nothing is locked since leadership began")
        if len(self._waiting) >= WRITES_WAITING_MAX:
            raise KafkaError(
                ErrorCode.coordinator_not_available,
                f"{self.key}: {len(self._waiting)} acknowledgements wait for the share coordinator",
            )
        self._machine.settings = self.settings.records
        write = self._machine.acknowledge(member, ranges, monotonic_ms())
        self._set_timer()
        return None if write is None else self._write(write)

    def release(self, member: str, *, was_given: bool) -> None:
        """Begin to give up what a member has locked. If that cannot be written, it is released when its lock ends."""
        if self._machine is None or self.closed is not None:
            return
        write = self._machine.release(member, was_given=was_given)
        if write is not None:
            self._write(write, is_awaited=False)

    async def close(self, reason: KafkaError) -> None:
        """End: leadership is over, or a newer one has been there."""
        self._end(reason)
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _end(self, reason: KafkaError) -> None:
        if self.closed is not None:
            return
        self.closed = reason
        if self._timer is not None:
            self._timer.cancel()
        for each in (*self._under_way, *self._waiting):
            _fail(each, reason)
        self._waiting.clear()
        self._on_closed(self)
        self.news.wake()
        self.turns.wake()

    # The state, which the share coordinator keeps.

    async def _load(self) -> None:
        began_ms = monotonic_ms()
        try:
            stored = await self._persister.read_state(self.key, self.leader_epoch)
            start_offset = stored.start_offset
            if start_offset == UNINITIALIZED:
                start_offset = await self._begin(stored.state_epoch)
            machine = SharePartition.load(start_offset, stored.batches, self.settings.records)
        except OUTSIDE as error:
            _log.warning(str(self.key), "%s could not be loaded, the next fetch tries again: %s", self.key, error)
            self._end(_told(error))
            return
        except Exception as error:  # noqa: BLE001 - the supervisor of this share-partition's work
            self._end(self._failed("load its state", error))
            return
        finally:
            self._task = None
        self._state_epoch, self._machine = stored.state_epoch, machine
        self._counters.loads.observe((monotonic_ms() - began_ms) / 1000)
        self.news.wake()
        self._on_settled(self)

    async def _begin(self, state_epoch: int) -> int:
        """Choose where the group begins. It is written before anything is delivered: another leader would choose again,
        and skip what came meanwhile.
        """
        offset = await self._first_offset(self.partition, self.settings)
        write = StateWrite(
            state_epoch=state_epoch, leader_epoch=self.leader_epoch, start_offset=offset, completed=0, batches=()
        )
        await self._persister.write_state(self.key, write)
        return offset

    def _write(self, write: Write, *, is_awaited: bool = True) -> asyncio.Future[None] | None:
        written: asyncio.Future[None] | None = None
        if is_awaited:
            written = asyncio.get_running_loop().create_future()
            written.add_done_callback(_seen)
        self._waiting.append(_Waiting(write, written))
        if self._task is None:
            self._task = asyncio.create_task(self._write_all(), name=f"write-{self.key}")
        return written

    async def _write_all(self) -> None:
        try:
            while self._waiting and self.closed is None:
                await self._write_some(self._take())
        except Exception as error:  # noqa: BLE001 - the supervisor of this share-partition's work
            # What it has locked would stay so: the next fetch loads what is written.
            self._end(self._failed("write what was decided", error))
        finally:
            self._task = None
        if self.closed is None:
            self._on_settled(self)

    def _failed(self, what: str, error: Exception) -> KafkaError:
        """Log an exception that is a defect; return what is answered."""
        _log.error(str(self.key), "%s: failed to %s, the next fetch loads again", self.key, what, exc_info=error)
        return KafkaError(ErrorCode.unknown_server_error, f"{self.key}: this broker failed to {what}: fetch again")

    def _take(self) -> list[_Waiting]:
        """Return the decisions that share the next write: none is about records of another one."""
        taken: list[_Waiting] = []
        ranges: list[tuple[int, int]] = []
        while self._waiting and len(taken) < WRITES_JOINED_MAX and len(ranges) < BATCHES_JOINED_MAX:
            some = [(batch.first, batch.last) for batch in self._waiting[0].write.batches]
            merged = sorted(ranges + some)
            if any(before[1] >= after[0] for before, after in pairwise(merged)):
                break
            ranges = merged
            taken.append(self._waiting.popleft())
        return taken

    async def _write_some(self, waiting: list[_Waiting]) -> None:
        assert self._machine is not None, self.key
        self._under_way = waiting
        batches = tuple(sorted(batch for each in waiting for batch in each.write.batches))
        write = StateWrite(
            state_epoch=self._state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self._machine.start_offset,
            completed=self._machine.completed,
            batches=batches,
        )
        failure: KafkaError | None = None
        try:
            await self._persister.write_state(self.key, write)
        except OUTSIDE as error:
            _log.warning(str(self.key), "%s: offsets %s could not be written: %s", self.key, _named(waiting), error)
            failure = _told(error)
            if isinstance(error, KafkaError) and error.code in _ENDED_BY:
                self._end(failure)
        if self.closed is None:
            for each in waiting:
                self._machine.settle(each.write, is_written=failure is None)
            self._set_timer()
        for each in waiting:
            if failure is not None:
                _fail(each, failure)
            elif each.written is not None and not each.written.done():
                each.written.set_result(None)
        self._under_way = []
        self.news.wake()

    # Locks.

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = None if self._machine is None else self._machine.next_deadline_ms()
        if deadline_ms is not None and self.closed is None:
            self._timer = asyncio.get_running_loop().call_at(deadline_ms / 1000, self._expire)

    def _expire(self) -> None:
        assert self._machine is not None, self.key
        self._timer = None
        write = self._machine.expire(monotonic_ms())
        if write is not None:
            self._counters.lock_timeouts += sum(batch.last - batch.first + 1 for batch in write.batches)
            # What is not written is only the number of deliveries: the next leader delivers these records again.
            if len(self._waiting) < WRITES_WAITING_MAX:
                self._write(write, is_awaited=False)
            self.news.wake()
        self._set_timer()


def _told(error: Exception) -> KafkaError:
    """Return what a consumer is answered for an error of the share coordinator, as Kafka's leaders do."""
    if not isinstance(error, KafkaError):
        return KafkaError(ErrorCode.coordinator_not_available, f"the share coordinator cannot be reached: {error}")
    if error.code in _PASSED_ON:
        return error
    if error.code in _FENCED:
        return KafkaError(ErrorCode.not_leader_or_follower, error.message)
    code = ErrorCode.coordinator_not_available if error.code in _NOT_NOW else ErrorCode.unknown_server_error
    return KafkaError(code, error.message)


def _seen(written: asyncio.Future[None]) -> None:
    """The request may have been cancelled: then its failure is no one's."""
    if not written.cancelled():
        written.exception()


def _fail(each: _Waiting, reason: KafkaError) -> None:
    if each.written is not None and not each.written.done():
        each.written.set_exception(reason)


def _named(waiting: Sequence[_Waiting]) -> str:
    batches = [batch for each in waiting for batch in each.write.batches]
    return f"{min(batch.first for batch in batches)} to {max(batch.last for batch in batches)}"

"""One led partition of a coordinator's topic at work: from the beginning of a leader epoch to its end.

    loading --read to its end--> active --leadership ends--> closed

| state | requests |
|---|---|
| loading | COORDINATOR_LOAD_IN_PROGRESS; a read that failed begins again, after a back-off |
| active | served; requests that wait for something are parked here |
| closed | NOT_COORDINATOR, also to every parked request |

After an internal error in a write, what is in memory may differ from the log: the shard is closed, and read again.

The kind of coordinator decides with pure machines, `step(event, now) -> effects`. This performs what they want done:
an answer goes to the future that is its token, a record to the writer, a timer to the event loop. Nothing of it
outlives the leader epoch: the next leader, also if it is this broker, reads the partition again.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final, Generic, TypeVar

from ...protocol import OUTSIDE, ErrorCode, KafkaError
from ...protocol.records import Compression
from ..replicas.leadership import WallClock
from ..replicas.partition import Partition
from .log_writer import InTransaction, LogRecord, ShardWriter

RETRY_MIN_S: Final = 0.1
RETRY_MAX_S: Final = 10.0
CODES_OF_ASKERS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
}
"""The code that is answered when the log rejects a record, by the log's; after the first five it is asked again."""

RecordT = TypeVar("RecordT", bound=LogRecord)

_log = logging.getLogger(__name__)


class ActiveShard(ABC, Generic[RecordT]):
    """See the module's docstring."""

    kind: str
    """What it coordinates, in logs and names of tasks."""

    def __init__(
        self, partition: Partition, rng: Random, now_ms: WallClock, compression: Compression = Compression.NONE
    ) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader().leader_epoch
        self.is_loaded = False
        self._rng = rng
        self._now_ms = now_ms
        self._writer: ShardWriter[RecordT] = ShardWriter(
            partition, self.leader_epoch, now_ms, self._apply, self._broken, compression=compression
        )
        self.submit = self._writer.submit
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self._parked: set[asyncio.Future[Any]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._end: KafkaError | None = None
        self.on_broken: Callable[[], None] = lambda: None
        """Called when it must be read again."""

    # What a kind of coordinator says.

    @abstractmethod
    def _clear(self) -> None:
        """Begin again, empty."""

    @abstractmethod
    async def _read(self) -> int:
        """Take in what is in the log; return the number of records. Raise KafkaError, OSError."""

    async def _prepare(self) -> None:
        """Complete what was read, before the first request."""

    @abstractmethod
    async def _resume(self, records: int) -> None:
        """Continue what was under way, now that the partition is read."""

    def _apply(self, record: RecordT, transaction: InTransaction | None, offset: int) -> None:
        """Take in a record of its own once it is committed at an offset; machines with a `Stored` need not."""

    def _release(self) -> None:
        """Give back what is held of the broker: leadership is over. It is called twice."""

    # Life.

    def begin(self) -> None:
        """Read the partition, and serve."""
        self.spawn(self._load())

    async def close(self, reason: KafkaError) -> None:
        """End with the leadership."""
        self._end = reason
        self._stop_timers()
        for answered in [each for each in self._parked if not each.done()]:
            answered.set_exception(reason)
        self._release()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._writer.close(reason)
        # What was not written has been taken back meanwhile, which holds memory and sets timers.
        self._stop_timers()
        self._release()

    async def _load(self) -> None:
        retry_s = RETRY_MIN_S
        while (records := await self._try_to_load()) is None:
            self._clear()
            await asyncio.sleep(retry_s * self._rng.uniform(0.5, 1.0))
            retry_s = min(2 * retry_s, RETRY_MAX_S)
        await self._prepare()
        self.is_loaded = True
        await self._resume(records)

    async def _try_to_load(self) -> int | None:
        try:
            return await self._read()
        except OUTSIDE as error:
            message = "%s: the %s could not be read, trying again: %s"
            _log.warning(message, self.partition.partition, self.kind, error)
            return None

    # For what machines want done.

    @contextmanager
    def _parking(self) -> Iterator[asyncio.Future[Any]]:
        """A future that is the token of a request; it fails if the leadership ends first."""
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._parked.add(answered)
        try:
            yield answered
        finally:
            self._parked.discard(answered)

    @staticmethod
    def _answer(token: object, answer: object) -> None:
        """Answer the request that waits for the token, if it still does."""
        assert isinstance(token, asyncio.Future), (token, answer)
        if not token.done():
            token.set_result(answer)

    def set_timer(self, name: Hashable, deadline_ms: int, fire: Callable[[], None]) -> None:
        """Call `fire` at this time of the loop's clock, and not at the one that was set before under this name."""
        self.stop_timer(name)

        def fired() -> None:
            self._timers.pop(name, None)
            fire()

        self._timers[name] = asyncio.get_running_loop().call_at(deadline_ms / 1000, fired)

    def _stop_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def stop_timer(self, name: Hashable) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Do work that ends with the leadership, at the latest."""
        task = asyncio.create_task(work, name=f"{self.kind}-{self.partition.partition.topic_partition}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure is not None and failure is not self._end:
            self._report(failure)

    def _broken(self, failure: Exception) -> None:
        self._report(failure)
        self.on_broken()

    def _report(self, failure: BaseException) -> None:
        _log.error("internal error in the %s of %s", self.kind, self.partition.partition, exc_info=failure)

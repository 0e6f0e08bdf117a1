"""Appends the records of a coordinator's partition, and wakes the callers once they are committed.

    write -> queue -> one batch of all that waits -> append -> high watermark -> apply, in the order of the log -> done

One batch is under way at a time; what comes meanwhile shares the next one. So records are applied in their order, and
a busy coordinator appends few batches. What belongs to a transaction is a batch of its own.

| what goes wrong | answer | what is known |
|---|---|---|
| it waits in the queue longer than its timeout | REQUEST_TIMED_OUT | never appended |
| the append is refused or fails | its KafkaError, KAFKA_STORAGE_ERROR | never committed |
| not committed within its timeout | REQUEST_TIMED_OUT | committed and applied later, or lost with the leadership |
| leadership ends | NOT_LEADER_OR_FOLLOWER | the next leader finds out by reading |
| an internal error | as where leadership ends | memory may differ from the log: it is read again |
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

from ...light_dataclass import dataclass
from ...log.core import AppendOrigin
from ...protocol import ErrorCode, KafkaError
from ...protocol.net import done_within
from ...protocol.records import BATCH_HEADER_SIZE, Compression, Record, build_batch
from ..replicas.leadership import WallClock
from ..replicas.partition import PLAIN, Partition, TransactionAppend

BATCH_BYTES_MAX: Final = 512 * 1024
"""Above this no further request joins a batch; a single larger one is a batch of its own."""
QUEUED_MAX: Final = 10_000
"""Requests that wait to be appended; more are refused."""
RECORD_OVERHEAD_BYTES: Final = 32

_log = logging.getLogger(__name__)


class LogRecord(Protocol):
    """A record of a coordinator's log."""

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Return its key and value as bytes."""


RecordT = TypeVar("RecordT", bound=LogRecord)
Encoded = tuple[bytes, bytes | None]
"""The key and the value of a record."""


@dataclass(frozen=True, slots=True)
class InTransaction:
    """The transaction that records belong to, verified under `guard` (`ProducerStateManager.guard`)."""

    producer_id: int
    producer_epoch: int
    guard: object | None = None


@dataclass(slots=True, eq=False)
class _Write(Generic[RecordT]):
    records: Sequence[RecordT]
    """Empty in an entry that only waits for the writes before it."""
    encoded: list[Encoded]
    size: int
    done: asyncio.Future[None]
    transaction: InTransaction | None = None
    on_lost: Callable[[KafkaError], None] | None = None


def _size_of(key: bytes, value: bytes | None) -> int:
    return len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES


class ShardWriter(Generic[RecordT]):
    """The writer of one leader epoch of a partition. `apply` is called for each record once it is committed, with the
    transaction that it belongs to, and its offset; `on_broken` with an internal error, after which nothing is taken.
    """

    def __init__(
        self,
        partition: Partition,
        leader_epoch: int,
        now_ms: WallClock,
        apply: Callable[[RecordT, InTransaction | None, int], None],
        on_broken: Callable[[Exception], None],
        *,
        compression: Compression = Compression.NONE,
    ) -> None:
        self._partition = partition
        self._leader_epoch = leader_epoch
        self._now_ms = now_ms
        self._apply = apply
        self._on_broken = on_broken
        self._compression = compression
        self._queue: deque[_Write[RecordT]] = deque()
        self._under_way: list[_Write[RecordT]] = []
        self._after_batch: list[Callable[[], None]] = []
        """What is called once the batch under way is applied, or has failed."""
        self._runner: asyncio.Task[None] | None = None
        self._end: KafkaError | None = None
        self._on_their_way: dict[bytes, int] = {}
        """The keys of records that are queued, or not committed yet, with their number."""

    async def write(
        self, records: Sequence[RecordT], *, timeout_s: float | None, transaction: InTransaction | None = None
    ) -> None:
        """Return once they are committed and applied, all of them in one batch. Raise KafkaError as in the table.

        With a timeout of None it is always known afterwards whether they are committed, unless leadership ends.
        """
        done = self.submit(records, transaction=transaction)
        if timeout_s is None:
            await done
            return
        try:
            await done_within(done, timeout_s)
        except TimeoutError:
            raise KafkaError(ErrorCode.request_timed_out, f"not committed within {timeout_s} s") from None

    async def write_apart(self, records: Sequence[RecordT], *, timeout_s: float) -> None:
        """As `write`, in as many batches as they need, of which the first ones may be committed and the others not. All
        are queued at once, so that nothing comes between them.
        """
        queued: list[asyncio.Future[None]] = []
        try:
            for some, encoded in self._parts(records):
                queued.append(self._put(some, encoded))
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*queued)
        except TimeoutError:
            raise KafkaError(ErrorCode.request_timed_out, f"not committed within {timeout_s} s") from None
        finally:
            for each in queued:
                each.cancel()

    def _parts(self, records: Sequence[RecordT]) -> Iterator[tuple[list[RecordT], list[Encoded]]]:
        """Yield the records, in order, as many at once as one batch takes, one at least."""
        some, encoded, left = list[RecordT](), list[Encoded](), self.batch_bytes_max
        for record in records:
            pair = record.encoded()
            size = _size_of(*pair)
            if some and size > left:
                yield some, encoded
                some, encoded, left = [], [], self.batch_bytes_max
            some.append(record)
            encoded.append(pair)
            left -= size
        if some:
            yield some, encoded

    def submit(
        self,
        records: Sequence[RecordT],
        *,
        transaction: InTransaction | None = None,
        on_lost: Callable[[KafkaError], None] | None = None,
    ) -> asyncio.Future[None]:
        """Queue records; the future is done once they are committed and applied, or fails as in the table.

        `on_lost` is called with the error, before anything else is appended, if they are not committed. A future that
        is done before its records are appended takes them out of the queue. Raise KafkaError if nothing is queued.
        """
        assert records, "a write without records"
        return self._put(records, [record.encoded() for record in records], transaction, on_lost)

    def _put(
        self,
        records: Sequence[RecordT],
        encoded: list[Encoded],
        transaction: InTransaction | None = None,
        on_lost: Callable[[KafkaError], None] | None = None,
    ) -> asyncio.Future[None]:
        if self._end is not None:
            raise self._end
        if len(self._queue) >= QUEUED_MAX:
            raise KafkaError(ErrorCode.request_timed_out, f"{QUEUED_MAX} requests wait for the log already")
        size = sum(_size_of(*each) for each in encoded)
        for key, _ in encoded:
            self._on_their_way[key] = self._on_their_way.get(key, 0) + 1
        write = _Write(records, encoded, size, asyncio.get_running_loop().create_future(), transaction, on_lost)
        self._queue.append(write)
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run(), name="coordinator-writer")
        return write.done

    def settled(self) -> asyncio.Future[None] | None:
        """Return a future that is done once all that is queued or under way is committed or has failed, or leadership
        ends; None if there is nothing to wait for. All callers between two writes share it, so that they take one place
        in the queue. Raise KafkaError as `submit`.
        """
        if self._queue and not self._queue[-1].records:
            return self._queue[-1].done
        return self._put([], []) if self._queue or self._under_way else None

    def size_of(self, records: Sequence[RecordT]) -> int:
        """Return what records take in a batch, at most."""
        return sum([_size_of(*record.encoded()) for record in records])

    def is_writing(self, key: bytes) -> bool:
        """Return whether a record with this key is queued, or not committed yet."""
        return key in self._on_their_way

    def once_applied(self, producer_id: int, do: Callable[[], None]) -> None:
        """Call `do` once no records of a producer's transaction are in the log, or about to be, and not applied yet; at
        once if there are none.
        """
        transaction = self._under_way[0].transaction if self._under_way else None  # it is a batch of its own
        if transaction is not None and transaction.producer_id == producer_id:
            self._after_batch.append(do)
        else:
            do()

    async def close(self, reason: KafkaError) -> None:
        """Stop appending, and fail every write that waits."""
        self._end = reason
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)
        self._settle([*self._under_way, *self._queue], reason)
        self._queue.clear()

    async def _run(self) -> None:
        while self._queue and self._end is None:
            batch = self._under_way = self._take()
            if not batch:
                continue
            try:
                await self._commit(batch)
            except KafkaError as error:
                self._settle(batch, error)
            except OSError as error:
                _log.error("%s: append failed: %s; check the log directory's disk", self._partition.partition, error)
                self._settle(batch, KafkaError(ErrorCode.kafka_storage_error, str(error)))
            except Exception as error:  # noqa: BLE001 - what waits is answered by `close`, once the log is read again
                self._end = KafkaError(ErrorCode.not_leader_or_follower, f"{self._partition.partition} is read again")
                self._on_broken(error)
            else:
                self._settle(batch, None)

    async def _commit(self, batch: list[_Write[RecordT]]) -> None:
        partition, transaction = self._partition, batch[0].transaction
        if partition.leader().leader_epoch != self._leader_epoch:
            raise KafkaError(ErrorCode.not_leader_or_follower, f"{partition.partition} is led under another epoch")
        appended = await partition.append(
            memoryview(self._encode(batch)),
            AppendOrigin.COORDINATOR,
            acks_all=True,
            transaction=PLAIN if transaction is None else TransactionAppend(guard=transaction.guard),
        )
        committed = partition.committed(appended.last_offset + 1, appended.leader_epoch)
        if committed is not None:
            await committed
        # Only what is committed is applied: an offset that was served could otherwise be lost with this leader.
        records = [record for write in batch for record in write.records]
        for offset, record in enumerate(records, appended.last_offset + 1 - len(records)):
            self._apply(record, transaction, offset)

    def _take(self) -> list[_Write[RecordT]]:
        """Return the next batch; writes whose caller gave up are left out."""
        batch: list[_Write[RecordT]] = []
        size = 0
        while self._queue and (not batch or self._may_join(batch, size, self._queue[0])):
            write = self._queue.popleft()
            if not batch and not write.records:
                self._settle([write], None)  # All before it is known.
            elif write.done.done():
                self._arrived(write)
            else:
                batch.append(write)
                size += write.size
        return batch

    def _may_join(self, batch: list[_Write[RecordT]], size: int, write: _Write[RecordT]) -> bool:
        is_plain = write.transaction is None and batch[0].transaction is None
        # What is too large for the log fails alone.
        return is_plain and size + write.size <= self.batch_bytes_max

    @property
    def batch_bytes_max(self) -> int:
        """The bytes of records that one batch takes (`size_of`)."""
        return min(BATCH_BYTES_MAX, self._partition.log.state.config.max_message_bytes - BATCH_HEADER_SIZE)

    def _encode(self, batch: list[_Write[RecordT]]) -> bytearray:
        now_ms = self._now_ms()
        pairs = [pair for write in batch for pair in write.encoded]
        records = [Record(offset, now_ms, key, value) for offset, (key, value) in enumerate(pairs)]
        transaction = batch[0].transaction
        if transaction is None:
            return bytearray(build_batch(records, base_offset=0, compression=self._compression))
        return bytearray(
            build_batch(
                records,
                base_offset=0,
                compression=self._compression,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                is_transactional=True,
            )
        )

    def _settle(self, batch: list[_Write[RecordT]], error: KafkaError | None) -> None:
        self._under_way = []
        for write in batch:
            self._arrived(write)
            if error is not None and write.on_lost is not None and not write.done.done():
                write.on_lost(error)
            if write.done.done():
                continue
            if error is None or not write.records:
                write.done.set_result(None)
            else:
                write.done.set_exception(error)
        after, self._after_batch = self._after_batch, []
        for do in after:
            do()

    def _arrived(self, write: _Write[RecordT]) -> None:
        """Note that records are no longer on their way: they are committed, or lost."""
        for key, _ in write.encoded:
            left = self._on_their_way[key] - 1
            if left:
                self._on_their_way[key] = left
            else:
                del self._on_their_way[key]

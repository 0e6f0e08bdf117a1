"""What clients do during a run: producers, transactional producers, readers; all of it goes into the history.

| client                 | does, until it is asked to stop                                                           |
|------------------------|-------------------------------------------------------------------------------------------|
| producer               | one idempotent batch after the other to one partition, each until it is known what became |
|                        | of it; its sequences restart, with    a new producer id, where the broker lost some; in   |
|                        | some seeds several at a time (`pipelined`)                                                |
| transactional producer | the same in transactions of a few batches, each committed or aborted                      |
| reader                 | follows one partition from its start, read committed or not                               |
| sweeper                | reads all of a partition from its start, again and again, read committed every other      |
|                        | time: what is in the tier, too                                                            |

A send that is answered with an error that may mean "it was appended" is repeated under the same sequence until the
answer is certain. A reader whose offset is out of range goes to the nearest one that is in it. Error codes that no
fault explains end the run: `UnexpectedError`; and so do, as violated invariants:

| invariant          | violated when                                                        |
|--------------------|----------------------------------------------------------------------|
| new producer id    | a producer is given the id of another one                            |
| reads what is kept | records are given from below the log start that is told with them    |
| told in order      | the last stable offset that is told is above the high watermark      |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import field
from itertools import count
from random import Random
from typing import Final

from ...light_dataclass import dataclass
from ...protocol import CorruptRecordError, ErrorCode, KafkaError, TopicPartition
from ...protocol.records import ControlType, Record, build_batch, control_type, iter_batches, iter_records
from ..judges.core.acknowledged_writes import FinalLog
from ..judges.core.events import (
    BatchesRead,
    ClientEvent,
    CommitReported,
    DamageRead,
    Logs,
    LogStartReported,
    OffsetRefused,
    SequenceRefused,
)
from ..judges.core.history import ACKS_ALL, History, Poll, Send, TransactionEnd
from ..judges.core.partition import InvariantViolationError
from ..machine.clock import EPOCH_MS
from .client import EARLIEST, LATEST, AttemptFailedError, Fetched, SimClient

POLL_WAIT_MS: Final = 300
RETRY_MIN_S: Final = 0.05
RETRY_MAX_S: Final = 0.4
TRANSACTION_BATCHES_MAX: Final = 4
LONG_SHARE: Final = 0.3
"""The share of transactions that stay open for so long that segments are closed meanwhile."""
LONG_S: Final = (1.0, 4.0)

RETRIABLE: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.kafka_storage_error,
        ErrorCode.leader_not_available,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.not_leader_or_follower,
        ErrorCode.offset_not_available,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
    }
)
SEQUENCE_LOST: Final = frozenset({ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id})


class UnexpectedError(AssertionError):
    """A broker answered what it never should."""


@dataclass(slots=True)
class Shared:
    """What the clients of a run share. `now_ms` is virtual time; `stopping` ends them."""

    history: History
    now_ms: Callable[[], int]
    stopping: asyncio.Event
    publish: Callable[[ClientEvent], None]
    logs_of: Callable[[TopicPartition], Logs]
    """The logs of a partition as they are now."""
    were_clocks_set: Callable[[], bool]
    """Whether a leader's clock may be more than an hour behind: it takes no records of now."""
    values: Iterator[int] = field(default_factory=lambda: count(1))
    transactions: Iterator[int] = field(default_factory=lambda: count(1))
    gap_factor: float = 1.0
    """The factor by which gaps between batches are longer than `Pace` says."""
    producer_ids: set[int] = field(default_factory=set)
    """Producer ids that were given out."""

    def take_producer_id(self, producer_id: int) -> None:
        """InvariantViolationError if it was given out before."""
        if producer_id in self.producer_ids:
            raise InvariantViolationError("new producer id", f"{producer_id} is another's already")
        self.producer_ids.add(producer_id)

    async def pause(self, seconds: float) -> None:
        """Or until the clients are asked to stop."""
        try:
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        except TimeoutError:
            return


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a producer is, and how large its batches are."""

    gap_s: float = 0.1
    records_max: int = 4
    value_bytes_max: int = 300


class Producer:
    """One process that sends to one partition, one batch at a time."""

    def __init__(
        self,
        name: str,
        partition: TopicPartition,
        acks: int,
        client: SimClient,
        shared: Shared,
        rng: Random,
        pace: Pace,
    ) -> None:
        self._name = name
        self._partition = partition
        self._acks = acks
        self._client = client
        self._shared = shared
        self._rng = rng
        self._pace = pace
        self._producer: tuple[int, int] | None = None
        self._sequence = 0

    async def run(self) -> None:
        """One batch after the other."""
        while not self._shared.stopping.is_set():
            await self._send(None)
            await self._pause()

    async def run_transactions(self) -> None:
        """A few batches, then their marker; a transaction that lost a batch is aborted."""
        while not self._shared.stopping.is_set():
            transaction = next(self._shared.transactions)
            producer = await self._producer_id()
            is_whole = True
            for _ in range(self._rng.randint(1, TRANSACTION_BATCHES_MAX)):
                is_whole = await self._send(transaction)
                if not is_whole:
                    break
                await self._pause()
            if self._rng.random() < LONG_SHARE:
                await self._shared.pause(self._rng.uniform(*LONG_S))
            await self._end(transaction, producer, commit=is_whole and self._rng.random() < 0.6)

    async def _pause(self, batches: int = 1) -> None:
        """After so many."""
        gap_s = batches * self._pace.gap_s * self._shared.gap_factor
        await self._shared.pause(self._rng.expovariate(1 / gap_s))

    async def _send(self, transaction: int | None) -> bool:
        """Send one batch; whether it is in the log."""
        send, batch = await self._prepare(transaction)
        attempt = Retries(self._rng)
        while True:
            try:
                await self._attempt(send, batch)
            except AttemptFailedError:
                await attempt.back_off()
            except KafkaError as error:
                if error.code in SEQUENCE_LOST:
                    self._producer = None
                    self._refused(send, error)
                    return False
                self._check(error)
                await attempt.back_off()
            else:
                self._sequence += len(send.values)
                return True

    async def _prepare(self, transaction: int | None) -> tuple[Send, bytes]:
        """The next batch."""
        values = tuple(next(self._shared.values) for _ in range(self._rng.randint(1, self._pace.records_max)))
        producer = await self._producer_id()
        batch = self._batch(values, producer, is_transactional=transaction is not None)
        send = Send(
            self._name,
            str(self._partition),
            values,
            self._acks,
            self._shared.now_ms(),
            transaction,
            producer_id=producer[0],
            sequence=self._sequence,
        )
        self._shared.history.sends.append(send)
        return send, batch

    async def _attempt(self, send: Send, batch: bytes) -> None:
        """Send it once. AttemptFailedError, KafkaError."""
        asked_ms = self._shared.now_ms()
        base_offset = await self._client.produce(self._partition, batch, self._acks)
        send.ok(base_offset, asked_ms, self._shared.now_ms())
        if self._acks == ACKS_ALL:
            end_offset = base_offset + len(send.values)
            self._shared.publish(CommitReported(self._partition, end_offset, self._name, asked_ms))

    def _check(self, error: KafkaError) -> None:
        """UnexpectedError if no fault explains that a batch is refused so."""
        if error.code is not ErrorCode.invalid_timestamp or not self._shared.were_clocks_set():
            Retries.check(error)

    def _refused(self, send: Send, error: KafkaError) -> None:
        send.reason = error.code.name
        self._shared.publish(SequenceRefused(self._partition, send))

    async def _end(self, transaction: int, producer: tuple[int, int], *, commit: bool) -> None:
        end = TransactionEnd(transaction, commit, str(self._partition), self._shared.now_ms())
        self._shared.history.ends.append(end)
        attempt = Retries(self._rng)
        while True:
            try:
                return await self._client.write_marker(self._partition, *producer, commit=commit)
            except AttemptFailedError:
                await attempt.back_off()
            except KafkaError as error:
                attempt.check(error)
                await attempt.back_off()

    async def _producer_id(self) -> tuple[int, int]:
        attempt = Retries(self._rng)
        while self._producer is None:
            try:
                self._producer = await self._client.init_producer_id()
                self._shared.take_producer_id(self._producer[0])
                self._sequence = 0
            except AttemptFailedError:
                await attempt.back_off()
            except KafkaError as error:
                attempt.check(error)
                await attempt.back_off()
        return self._producer

    def _batch(self, values: tuple[int, ...], producer: tuple[int, int], *, is_transactional: bool) -> bytes:
        created_ms = EPOCH_MS + self._shared.now_ms()
        records = [
            Record(index, created_ms, None, encode_value(value, self._rng.randint(8, self._pace.value_bytes_max)))
            for index, value in enumerate(values)
        ]
        return build_batch(
            records,
            base_offset=0,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=self._sequence,
            is_transactional=is_transactional,
        )


class Reader:
    """One process that reads one partition."""

    def __init__(
        self,
        name: str,
        partition: TopicPartition,
        client: SimClient,
        shared: Shared,
        rng: Random,
        *,
        is_read_committed: bool = False,
    ) -> None:
        self._name = name
        self._partition = partition
        self._client = client
        self._shared = shared
        self._rng = rng
        self._is_read_committed = is_read_committed
        self._asked_ms = 0
        """When the fetch began that was answered last."""

    async def run(self) -> None:
        """Follow the partition from its start."""
        position = await self._offset(EARLIEST)
        while not self._shared.stopping.is_set():
            position = await self._poll(self._name, position)

    async def sweep(self) -> None:
        """From the start to where the end was at the beginning, then again, each time as another process."""
        for number in count(1):
            if self._shared.stopping.is_set():
                return
            self._is_read_committed = number % 2 == 0
            end = await self._offset(LATEST)
            position = await self._offset(EARLIEST)
            while position < end and not self._shared.stopping.is_set():
                position = await self._poll(f"{self._name}.{number}", position)
            await self._shared.pause(self._rng.uniform(1.0, 3.0))

    async def read_stable(self) -> None:
        """What read-committed readers are given, once the cluster is quiet: up to the end, where nothing is open."""
        end, position = await self._offset(LATEST), await self._offset(EARLIEST)
        while position < end:
            position = await self._poll(self._name, position)

    async def read_all(self) -> FinalLog:
        """Everything from start to end, once the cluster is quiet."""
        start = position = await self._offset(EARLIEST)
        end = await self._offset(LATEST)
        values: dict[int, int] = {}
        while position < end:
            fetched = await self._fetch(position)
            if fetched is None:
                raise UnexpectedError(f"{self._partition}: offset {position} of [{start}, {end}) is out of range")
            records, position = records_of(fetched, position, is_read_committed=False)
            values.update(records)
        return FinalLog(str(self._partition), start, end, values)

    async def read_keyed(self) -> dict[int, tuple[bytes, bytes | None]]:
        """Key and value of everything by offset, once the cluster is quiet; some offsets are missing."""
        position, end = await self._offset(EARLIEST), await self._offset(LATEST)
        found: dict[int, tuple[bytes, bytes | None]] = {}
        while position < end:
            fetched = await self._fetch(position)
            if fetched is None:
                raise UnexpectedError(f"{self._partition}: offset {position}, below {end}, is out of range")
            for at, header in iter_batches(fetched.data):
                records = () if header.is_control else iter_records(fetched.data, at, header)
                found |= {each.offset: (each.key or b"", each.value) for each in records}
                position = max(position, header.next_offset)
        return found

    async def _poll(self, process: str, position: int) -> int:
        fetched = await self._fetch(position)
        if fetched is None:
            return max(await self._offset(EARLIEST), min(position, await self._offset(LATEST)))
        self._check_offsets(process, position, fetched)
        try:
            records, end = records_of(fetched, position, is_read_committed=self._is_read_committed)
        except CorruptRecordError as damage:
            detail = f"{process} was given a damaged batch of {self._partition} at {position}: {damage}"
            self._shared.publish(DamageRead(detail))
            await self._shared.pause(RETRY_MAX_S)
            return position
        if fetched.data:
            self._shared.publish(BatchesRead(self._partition, fetched.data, process))
        if end > position:
            self._shared.publish(CommitReported(self._partition, end, process, self._asked_ms))
            poll = Poll(
                process,
                str(self._partition),
                position,
                end,
                tuple(records),
                self._asked_ms,
                self._shared.now_ms(),
                self._is_read_committed,
            )
            self._shared.history.polls.append(poll)
        return end

    def _check_offsets(self, process: str, position: int, fetched: Fetched) -> None:
        """What an answer says beside its records. InvariantViolationError."""
        where = f"{process} asked {self._partition} from {position} on"
        start, stable, watermark = fetched.log_start_offset, fetched.last_stable_offset, fetched.high_watermark
        if position < start:
            raise InvariantViolationError("reads what is kept", f"{where}, and was answered that it starts at {start}")
        if stable > watermark:
            detail = f"{where}: the last stable offset is {stable}, the high watermark {watermark}"
            raise InvariantViolationError("told in order", detail)
        self._shared.publish(LogStartReported(self._partition, start, process))
        self._shared.publish(CommitReported(self._partition, watermark, process, self._asked_ms))

    async def _fetch(self, position: int) -> Fetched | None:
        """None if the position is out of range."""
        attempt = Retries(self._rng)
        while True:
            self._asked_ms, logs = self._shared.now_ms(), self._shared.logs_of(self._partition)
            try:
                return await self._client.fetch(
                    self._partition, position, max_wait_ms=POLL_WAIT_MS, is_read_committed=self._is_read_committed
                )
            except AttemptFailedError:
                await attempt.back_off()
            except KafkaError as error:
                if error.code is ErrorCode.offset_out_of_range:
                    self._shared.publish(OffsetRefused(self._partition, position, self._client.leader_host, logs))
                    await attempt.back_off()
                    return None
                attempt.check(error)
                await attempt.back_off()

    async def _offset(self, timestamp: int) -> int:
        attempt = Retries(self._rng)
        while True:
            asked_ms = self._shared.now_ms()
            try:
                offset = await self._client.list_offset(self._partition, timestamp)
            except AttemptFailedError:
                await attempt.back_off()
            except KafkaError as error:
                attempt.check(error)
                await attempt.back_off()
            else:
                if timestamp == EARLIEST:
                    self._shared.publish(LogStartReported(self._partition, offset, self._name))
                else:
                    self._shared.publish(CommitReported(self._partition, offset, self._name, asked_ms))
                return offset


class Retries:
    """Back-off that doubles, with jitter; `check` raises what no fault explains."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._delay_s = RETRY_MIN_S

    @staticmethod
    def check(error: KafkaError) -> None:
        if error.code not in RETRIABLE:
            raise UnexpectedError(f"{error.code.name}: {error}") from error

    async def back_off(self) -> None:
        await asyncio.sleep(self._delay_s * self._rng.uniform(0.5, 1.0))
        self._delay_s = min(2 * self._delay_s, RETRY_MAX_S)


def encode_value(value: int, size: int) -> bytes:
    """A value as the bytes of a record, at least 8 of them."""
    return value.to_bytes(8, "big") + bytes(max(0, size - 8))


def decode_value(data: bytes) -> int:
    return int.from_bytes(data[:8], "big")


def records_of(fetched: Fetched, position: int, *, is_read_committed: bool) -> tuple[list[tuple[int, int]], int]:
    """(offset, value) from `position` on, as a consumer gives them out, and where it continues."""
    records: list[tuple[int, int]] = []
    aborted = sorted(fetched.aborted, key=lambda each: each.first_offset, reverse=True)
    ongoing: set[int] = set()
    end = position
    for at, header in iter_batches(fetched.data):
        while aborted and aborted[-1].first_offset <= header.last_offset:
            ongoing.add(aborted.pop().producer_id)
        end = max(end, header.next_offset)
        if header.is_control:
            first = next(iter(iter_records(fetched.data, at, header)))
            if control_type(first) is ControlType.ABORT:
                ongoing.discard(header.producer_id)
            continue
        if is_read_committed and header.is_transactional and header.producer_id in ongoing:
            continue
        for record in iter_records(fetched.data, at, header):
            if record.offset >= position:
                assert record.value is not None, record
                records.append((record.offset, decode_value(record.value)))
    return records, end

"""One led partition of `__transaction_state` at work (`coordinator.shard` has its life).

It performs what the machine of a transactional id decides: records go to the writer, markers to the sender, answers to
the futures that are the tokens. The leader epoch is the coordinator epoch that markers carry.

A request that finds a transaction on its way to its end waits up to `PARK_S` for that end: clients repeat it only after
a back-off, which would take longer than the markers. A commit does not wait: at times Java's producer (4.3) sends it
before the first batch of its transaction, and what it repeats waits for the batches, as it should have.

| a record | then |
|---|---|
| is committed | the machine takes it in |
| is refused before the append | COORDINATOR_NOT_AVAILABLE, nothing has changed; Complete* is tried again |
| may have been appended | it stays under way: this leadership ends, and the next one reads what became of it |
| takes longer than `append_timeout_ms` | the client is answered COORDINATOR_NOT_AVAILABLE, the record stays under way |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import field, replace
from functools import partial
from random import Random
from typing import Final

from ...light_dataclass import dataclass
from ...limited_log import LimitedLog
from ...protocol import OUTSIDE, ErrorCode, KafkaError
from ...protocol.net import Slices, done_within, monotonic_ms
from ..coordinator.compacted_shard import CompactedShard
from ..coordinator.shard import RETRY_MAX_S, RETRY_MIN_S
from ..replicas.leadership import WallClock
from ..replicas.partition import Partition
from .core.events import (
    Effect,
    End,
    Event,
    Expire,
    Init,
    MarkersWritten,
    NeedProducerId,
    Producer,
    Reply,
    Resume,
    SendMarkers,
    Store,
    Stored,
    TimedOut,
    Token,
)
from .core.memory import IdMemory, bytes_of
from .core.records import TransactionRecord, decode_record
from .core.shard import Shard
from .core.states import COMPLETE, PREPARED, TransactionValue
from .core.transaction import Transaction
from .markers import MarkerSender
from .settings import TransactionSettings

PARK_S: Final = 0.1
PARKED_MAX: Final = 10_000
"""The number of requests that wait for an end; what exceeds it is answered CONCURRENT_TRANSACTIONS at once."""
STEP_WEIGHT: Final = 50
"""What a step of a transactional id, and its record, cost on the loop, in elements of `pace`."""
STEPS_FREE: Final = 5
"""So many of those that were looked at together are stepped with the look."""

_UNKNOWN_FATE: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.kafka_storage_error})
"""The errors after which a record may be in the log; the leadership ends with each of them."""
_TOO_LARGE: Final = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})

_log = logging.getLogger(__name__)
_of_peers = LimitedLog(_log)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardServices:
    """What all shards of a broker share. `transaction_version` returns the level that the cluster runs at."""

    settings: TransactionSettings
    rng: Random
    now_ms: WallClock
    next_producer_id: Callable[[], Awaitable[int]]
    transaction_version: Callable[[], int]
    markers: MarkerSender
    memory: IdMemory = field(default_factory=IdMemory)


class ActiveShard(CompactedShard[TransactionRecord]):
    """See the module's docstring."""

    kind = "transactions"

    def __init__(self, partition: Partition, services: ShardServices) -> None:
        super().__init__(partition, services.rng, services.now_ms)
        self.shard = Shard()
        self._services = services
        self._ends: dict[str, asyncio.Future[None]] = {}
        """The ends that requests wait for, by transactional id."""
        self._held_bytes = 0
        """What the transactional ids of this shard take of `memory`."""

    # Requests.

    async def ask(self, transactional_id: str, event_of: Callable[[Token], Event], *, parks: bool = True) -> Reply:
        """Step a transactional id with an event, and return the answer once it is durable. Raise KafkaError with the
        code that a client gets. `parks`: whether it may wait for a transaction that ends.
        """
        reply = await self._ask(transactional_id, event_of)
        if parks and reply.error is ErrorCode.concurrent_transactions and await self._has_ended(transactional_id):
            reply = await self._ask(transactional_id, event_of)
        return reply

    async def _ask(self, transactional_id: str, event_of: Callable[[Token], Event]) -> Reply:
        try:
            with self._parking() as answered:
                event = event_of(answered)
                if isinstance(event, Init):
                    self._check_room(transactional_id)
                self._step(transactional_id, event)
                reply: Reply = await done_within(answered, self._services.settings.append_timeout_ms / 1000)
                return reply
        except TimeoutError:
            message = f"transactional id {transactional_id!r}: its record is not committed yet"
            raise KafkaError(ErrorCode.coordinator_not_available, message) from None

    def _check_room(self, transactional_id: str) -> None:
        memory = self._services.memory
        if transactional_id not in self.shard.transactions and not memory.has_room(transactional_id):
            message = (
                f"{self.partition.partition}: a new transactional id is refused: those of this broker hold "
                f"{memory.used} of {memory.bytes_max} bytes, until transactional.id.expiration.ms"
            )
            _of_peers.warning("", "%s", message)
            raise KafkaError(ErrorCode.coordinator_not_available, message)

    def _account(self, before: int, after: int) -> None:
        self._held_bytes += after - before
        self._services.memory.changed(before, after)

    async def _has_ended(self, transactional_id: str) -> bool:
        """Wait for the end of what the transactional id has under way; return whether it came in time."""
        if len(self._ends) >= PARKED_MAX:
            return False
        ends = self._ends.setdefault(transactional_id, asyncio.get_running_loop().create_future())
        if self._is_settled(transactional_id):
            self._report_end(transactional_id)
        try:
            async with asyncio.timeout(PARK_S):
                await asyncio.shield(ends)
        except TimeoutError:
            return False
        return True

    def _is_settled(self, transactional_id: str) -> bool:
        transaction = self.shard.transactions.get(transactional_id)
        if transaction is None:
            return True
        value = transaction.value
        return not transaction.is_under_way and (value is None or value.state not in PREPARED)

    def _report_end(self, transactional_id: str) -> None:
        ends = self._ends.pop(transactional_id, None)
        if ends is not None:
            ends.set_result(None)

    # Upkeep.

    async def abort_timed_out(self) -> None:
        """Abort the transactions that are open for longer than their timeout."""
        version, now_ms = self._services.transaction_version(), self._services.now_ms()
        await self._step_each(lambda each: each.is_timed_out(now_ms), TimedOut(version))

    async def expire(self) -> None:
        """Forget the transactional ids that were not used for `transactional.id.expiration.ms`."""
        retention_ms, now_ms = self._services.settings.retention_ms, self._services.now_ms()
        await self._step_each(lambda each: each.is_unused(now_ms, retention_ms), Expire(retention_ms))

    async def _step_each(self, is_due: Callable[[Transaction], bool], event: TimedOut | Expire | Resume) -> None:
        """Step all for which that is so within the loop's share; each is judged by its state when its turn comes."""
        async for looked_at in Slices(list(self.shard.transactions.values())):
            due = [each.transactional_id for each in looked_at if is_due(each)]
            async for some in Slices(due, weight=STEP_WEIGHT, free=STEPS_FREE):
                for transactional_id in some:
                    if self._end is not None:
                        return
                    self._step(transactional_id, event)

    # Life.

    def _clear(self) -> None:
        self.shard.clear()
        self._account(self._held_bytes, 0)

    def _release(self) -> None:
        self._account(self._held_bytes, 0)
        for transactional_id in list(self._ends):
            self._report_end(transactional_id)

    async def _resume(self, records: int) -> None:
        name = self.partition.partition.topic_partition
        _log.info("%s: %d transactional ids from %d records", name, len(self.shard.transactions), records)
        await self._step_each(lambda each: each.value is not None and each.value.state in PREPARED, Resume())

    def _decode(self, key: bytes, value: bytes | None) -> TransactionRecord | None:
        return decode_record(key, value)

    def _replay(self, record: TransactionRecord) -> None:
        before = bytes_of(self.shard.transactions.get(record.transactional_id))
        self.shard.replay(record)
        self._account(before, bytes_of(self.shard.transactions.get(record.transactional_id)))

    # Transactional ids.

    def _step(self, transactional_id: str, event: Event) -> None:
        """Step a transactional id, which is not remembered if it is still nothing afterwards."""
        if self._end is not None:
            raise self._end
        transactions = self.shard.transactions
        before = bytes_of(transactions.get(transactional_id))
        transaction = transactions.get(transactional_id) or Transaction(transactional_id)
        effects = transaction.step(event, self._services.now_ms())
        if transaction.is_idle:
            transactions.pop(transactional_id, None)
        else:
            transactions[transactional_id] = transaction
        self._account(before, bytes_of(transactions.get(transactional_id)))
        self._perform(transactional_id, effects)
        if transactional_id in self._ends and self._is_settled(transactional_id):
            self._report_end(transactional_id)

    def _perform(self, transactional_id: str, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply():
                    self._answer(effect.token, effect)
                case Store():
                    self._store(transactional_id, effect)
                case SendMarkers(value):
                    self.spawn(self._send_markers(transactional_id, value))
                case NeedProducerId(event):
                    self.spawn(self._with_producer_id(transactional_id, event))

    def _store(self, transactional_id: str, store: Store, retry_s: float = RETRY_MIN_S) -> None:
        """Queue a record at once, without a task; what becomes of it is taken in in a later turn of the loop."""
        version = min(self._services.transaction_version(), 1)
        try:
            written = self.submit([TransactionRecord(transactional_id, store.value, version)])
        except KafkaError as error:
            written = asyncio.get_running_loop().create_future()
            written.set_exception(error)
        written.add_done_callback(partial(self._stored, transactional_id, store, retry_s))

    def _stored(self, transactional_id: str, store: Store, retry_s: float, written: asyncio.Future[None]) -> None:
        failure, error = written.exception(), ErrorCode.none
        if self._end is not None:
            return
        if failure is not None:
            if not isinstance(failure, KafkaError):
                raise failure
            if failure.code in _UNKNOWN_FATE:
                message = "transactional id %r: its record may be lost: %s"
                _of_peers.warning(transactional_id, message, transactional_id, failure)
                return
            message = "transactional id %r: its record is not written: %s"
            _of_peers.warning(transactional_id, message, transactional_id, failure)
            # The end of a transaction is reported to no client: only this broker can try it again.
            if store.value is not None and store.value.state in COMPLETE:
                again = partial(self._store, transactional_id, store, min(2 * retry_s, RETRY_MAX_S))
                self.set_timer(transactional_id, monotonic_ms() + int(1000 * retry_s), again)
                return
            is_too_large = failure.code in _TOO_LARGE
            error = ErrorCode.unknown_server_error if is_too_large else ErrorCode.coordinator_not_available
        self._step(transactional_id, Stored(store.store_id, error))

    async def _send_markers(self, transactional_id: str, value: TransactionValue) -> None:
        try:
            await self._services.markers.send(value, self.leader_epoch)
        except KafkaError as error:
            _of_peers.error(
                transactional_id,
                "transactional id %r, producer %d in epoch %d: its transaction cannot be ended by this coordinator, %s;"
                " if no other broker coordinates it, end it with kafka-transactions.sh abort",
                transactional_id, value.producer_id, value.producer_epoch, error,
            )  # fmt: skip
            return
        self._step(transactional_id, MarkersWritten(Producer(value.producer_id, value.producer_epoch)))

    async def _with_producer_id(self, transactional_id: str, event: Init | End | TimedOut) -> None:
        try:
            producer_id = await self._services.next_producer_id()
        except OUTSIDE as error:
            message = "transactional id %r: there is no producer id now: %s"
            _of_peers.warning(transactional_id, message, transactional_id, error)
            # What has timed out is looked at again at the next interval.
            if not isinstance(event, TimedOut):
                self._answer(event.token, Reply(event.token, ErrorCode.coordinator_not_available))
            return
        if isinstance(event, Init):
            try:
                self._check_room(transactional_id)  # others may have taken it meanwhile
            except KafkaError as refusal:
                self._answer(event.token, Reply(event.token, refusal.code))
                return
        self._step(transactional_id, replace(event, new_producer_id=producer_id))

"""One led partition of `__share_group_state` at work (`coordinator.shard` has its life).

| a record | then |
|---|---|
| is committed | the request is answered, and reads see it |
| is not written, whatever the reason | it is undone, with all later ones of its share-partition, and each is answered |
| takes longer than `share.coordinator.write.timeout.ms` | COORDINATOR_NOT_AVAILABLE; the record goes its way |

Each `share.coordinator.state.topic.prune.interval.ms` the log is made to begin at the first record that is needed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable
from functools import partial
from random import Random
from typing import Final
from uuid import UUID

from ...limited_log import LimitedLog
from ...protocol import ErrorCode, KafkaError
from ...protocol.net import Slices, exhausted
from ...protocol.records import BatchHeader, SkimmedRecord
from ..coordinator import shard as runtime
from ..coordinator.log_reader import one_by_one, read_log
from ..coordinator.log_writer import InTransaction
from ..replicas.leadership import WallClock
from ..replicas.partition import Partition
from .core.records import ShareKey, ShareRecord, Snapshot, Update, decode_record
from .core.shard import Shard
from .core.state import (
    NOT_GIVEN,
    ShareState,
    Write,
    check_size,
    deleted,
    initialized,
    is_fence,
    is_over,
    read_by,
    rewritten,
    written,
)
from .settings import ShareStateSettings

SHARE_PARTITIONS_MAX: Final = 100_000
"""The share-partitions of one partition of the topic; what exceeds it is not initialized: COORDINATOR_NOT_AVAILABLE."""
BATCHES_MAX: Final = 10_000
"""The ranges of one share-partition, as many as Kafka lets records be locked."""
COLD_MAX: Final = 1_000
"""The share-partitions that are snapshotted again in one interval."""
RECORD_WEIGHT: Final = 20
"""What a record of the upkeep costs on the loop, in elements of `pace`."""

_log = logging.getLogger(__name__)
_of_peers = LimitedLog(_log)


class ActiveShard(runtime.ActiveShard[ShareRecord]):
    """See the module's docstring."""

    kind = "share group state"

    def __init__(self, partition: Partition, settings: ShareStateSettings, rng: Random, now_ms: WallClock) -> None:
        super().__init__(partition, rng, now_ms, settings.compression)
        self.shard = Shard()
        self._settings = settings

    # Requests.

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        """Let a share-partition begin, or begin again, at an offset, which is -1 if its first leader chooses it."""
        state = self.shard.latest(key)
        if state is None and self.shard.has(SHARE_PARTITIONS_MAX):
            message = f"{self.partition.partition} has {SHARE_PARTITIONS_MAX} share-partitions already"
            raise KafkaError(ErrorCode.coordinator_not_available, message)
        value = initialized(state, state_epoch, start_offset, self._now_ms())
        if value is None:
            await self._settled(key)
        else:
            await self._write(key, value)

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """Return a share-partition as its new leader has to take it over; from then on older leaders are fenced."""
        state = self._initialized(key)
        update = read_by(state, leader_epoch)
        if update is not None:
            await self._write(key, update)
        else:
            await self._settled(key)
        return state

    async def write(self, key: ShareKey, write: Write) -> None:
        """Take in what the leader of a share-partition says."""
        state = self._initialized(key)
        value = written(state, write, self._settings.updates_per_snapshot, self._now_ms())
        if len(state.snapshot.batches) + len(write.batches) > BATCHES_MAX:
            check_size(state, value, BATCHES_MAX)
        await self._write(key, value)

    async def summary(self, key: ShareKey) -> ShareState | None:
        """Return a share-partition as it is, a fence where it was deleted; None if nothing is known of it."""
        await self._settled(key)
        return self.shard.latest(key)

    async def delete(self, key: ShareKey, state_epoch: int = NOT_GIVEN) -> None:
        """Forget a share-partition, which may be unknown; with an epoch of its group a fence is left."""
        state = self.shard.latest(key)
        has_epoch, fence = state_epoch > NOT_GIVEN, None
        # One that is not known needs a fence too: what lets it begin may be under way. It takes no place of another.
        if has_epoch and (state is not None or not self.shard.has(SHARE_PARTITIONS_MAX)):
            fence = deleted(state, state_epoch, self._now_ms())
        is_tombstone = state is not None and not has_epoch
        if fence is None and not is_tombstone:
            await self._settled(key)
        else:
            await self._write(key, fence)

    def _initialized(self, key: ShareKey) -> ShareState:
        state = self.shard.latest(key)
        if state is None or is_fence(state):
            raise KafkaError(ErrorCode.invalid_request, f"share-partition {key} is not initialized")
        return state

    # Records.

    async def _write(self, key: ShareKey, value: Snapshot | Update | None) -> None:
        await self._wait(self._submit(key, value))

    def _submit(self, key: ShareKey, value: Snapshot | Update | None) -> asyncio.Future[None]:
        """Queue a record. Raise KafkaError if nothing is queued."""
        if self._end is not None:
            raise self._end
        record = ShareRecord(key, value)
        try:
            committed = self.submit([record], on_lost=partial(self._lost, key))
        except KafkaError as error:
            raise _for_client(error) from error
        committed.add_done_callback(_seen)
        self.shard.decided(record, committed)
        return committed

    async def _settled(self, key: ShareKey) -> None:
        """Return once all that was decided is committed."""
        token = self.shard.last_pending(key)
        if token is not None:
            assert isinstance(token, asyncio.Future), token
            await self._wait(token)

    async def _wait(self, committed: asyncio.Future[None]) -> None:
        try:
            # Whatever becomes of the request, its record goes its way: later ones are decided on it.
            async with asyncio.timeout(self._settings.write_timeout_ms / 1000):
                await asyncio.shield(committed)
        except TimeoutError:
            message = f"{self.partition.partition}: the record is not committed yet"
            raise KafkaError(ErrorCode.coordinator_not_available, message) from None
        except KafkaError as error:
            raise _for_client(error) from error

    def _lost(self, key: ShareKey, _: KafkaError) -> None:
        error = KafkaError(ErrorCode.coordinator_not_available, f"share-partition {key}: a record was not written")
        for token in self.shard.lost(key):
            assert isinstance(token, asyncio.Future), token
            if not token.done():
                token.set_exception(error)
        _of_peers.warning(
            str(key), "share-partition %s: what was decided of it was undone: a record could not be written", key
        )

    def _apply(self, record: ShareRecord, transaction: InTransaction | None, offset: int) -> None:
        self.shard.committed(record, offset)

    # Life.

    def _clear(self) -> None:
        self.shard.clear()

    async def _read(self) -> int:
        # Its topic is not compacted: an update counts with the snapshot before it, and where it is in the log.
        return await read_log(self.partition, one_by_one(self._replay))

    def _replay(self, header: BatchHeader, record: SkimmedRecord) -> None:
        decoded = None if header.is_control or record.key is None else decode_record(record.key, record.value)
        if decoded is not None:
            self.shard.replay(decoded, record.offset)

    async def _resume(self, records: int) -> None:
        name = self.partition.partition.topic_partition
        _log.info("%s: %d share-partitions from %d records", name, len(self.shard), records)

    # Upkeep.

    async def prune(self, topic_ids: Callable[[], Container[UUID]]) -> None:
        """Delete what no longer is needed: share-partitions of topics that are deleted, fences that no longer hold, and
        records before the last snapshots.
        """
        gone = await exhausted(self.shard.look_for(topic_ids))
        await self._write_all(gone, lambda _: None)
        now_ms = self._now_ms()
        over: list[ShareKey] = []
        async for some in Slices(list(self.shard.held.items())):
            over += [key for key, held in some if is_over(held.state, now_ms)]
        await self._write_all(over, lambda _: None, lambda state: is_over(state, now_ms))
        log = self.partition.log
        before_ms = self._now_ms() - self._settings.prune_interval_ms
        cold = await exhausted(self.shard.cold(log.state.high_watermark, before_ms, COLD_MAX))
        await self._write_all(cold, lambda state: rewritten(state, self._now_ms()))
        # What is not committed may begin at the high watermark, so that is as far as it goes.
        needed = await exhausted(self.shard.needed_offset(log.state.high_watermark))
        if needed > log.state.offsets.log_start_offset and self._end is None:
            await log.increment_log_start_offset(needed)

    async def forget(self, topic_ids: Iterable[UUID]) -> None:
        """Forget the share-partitions of topics that are deleted."""
        gone = await exhausted(self.shard.of_topics(topic_ids))
        await self._write_all(gone, lambda _: None)

    async def _write_all(
        self,
        keys: list[ShareKey],
        value_of: Callable[[ShareState], Snapshot | None],
        may_write: Callable[[ShareState], bool] = lambda _: True,
    ) -> None:
        """Write a record, or a tombstone, of each that is there and may be written by then."""
        written: list[asyncio.Future[None]] = []
        async for some in Slices(keys, weight=RECORD_WEIGHT):
            for key in some:
                state = self.shard.latest(key)
                if state is not None and may_write(state):
                    written.append(self._submit(key, value_of(state)))
        for committed in written:
            await self._wait(committed)


def _for_client(error: KafkaError) -> KafkaError:
    return KafkaError(runtime.CODES_OF_ASKERS.get(error.code, error.code), error.message)


def _seen(committed: asyncio.Future[None]) -> None:
    """Take note of an error that nothing may wait for."""
    if not committed.cancelled():
        committed.exception()

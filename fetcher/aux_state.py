"""Rebuilds from the tier what a replica needs to begin at an offset: leader epochs and producer state (KIP-405).

Everything is fetched and verified first, and nothing local changes here; the result is one value to commit.

    step                                                              if it fails
    ----------------------------------------------------------------  -----------------------------------------------
    1 find the finished segment with (last epoch, start - 1)          wait for the ledger, then LedgerBehindError
    2 ask the leader where the segment's last epoch ends: whole, if   next candidate: none of it is the leader's
      the segment lies below that (it may reach beyond start); else
      its first records up to there, or to the end of an epoch below
    3 fetch epoch index, producer snapshot; ask for the `.log`'s      absent, and the ledger says it is being deleted:
      size                                                            AskAgainError; else the next candidate, then
                                                                      RemoteResourceNotFoundError
    4 the epoch index agrees with what the metadata state of the      next candidate, then RemoteStorageCorruptError
      segment's epochs; size as stated; snapshot's checksum
    5 where the index begins above the log start, another segment     as for a gap
      with the offset below it is proven as 2 to 4, and so on
    6 finished segments cover [log start, start) without a gap, and   wait for the ledger, then LedgerBehindError; at
      so do the epochs                                                  once, where an object of step 5 was damaged
    7 the producer state: the snapshot of a whole segment; for one    no state at its start: next candidate, then as
      that straddles, the state at its start and the batches up to    for a gap; a damaged `.log`:
      the cut, read from its `.log`                                   RemoteStorageCorruptError

A segment whose last record (epoch, offset) is in the leader's log lies whole on the leader's lineage: that pair
identifies everything below it. One that straddles a divergence is cut there, and taken only where no whole one serves:
after all machines have lost power, the leader's log may end within what it had tiered, and nothing else holds what lies
below. A segment's index begins above the log start if another leader had raised its own, copied, and gone before the
followers had heard of it; within the segment, if it did so as the copy began (Kafka's leaders may): then the metadata
tell the segment's epochs below. The ledger is awaited by its version, so the wait ends the moment metadata arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from itertools import takewhile

from ..light_dataclass import dataclass
from ..log.core import CorruptFileError, EpochEntry, LeaderEpochCache, ProducerStateManager, decode_leader_epochs
from ..log.keeper import AdoptedState
from ..log.segment import decoded_producers, end_transaction_marker
from ..protocol import CorruptRecordError, RetriableError, TopicIdPartition
from ..remote import (
    IndexType,
    RemoteLogMetadataManager,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageManager,
    RemoteStorageTimeoutError,
    scan,
)
from ..remote.core import (
    Gap,
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    covering,
    is_within_lineage,
)
from .all_done import all_done
from .core.bootstrap import AdoptFromTier
from .ports import LeaderEndpoint

LEDGER_WAIT_S = 10.0
"""How long one attempt waits for the remote log metadata to catch up with the leader's answers."""

STORAGE_DEADLINE_S = 30.0

LEDGER_SETTLE_S = 1.0
"""How long a missing object's ledger entry may take to become one that is being deleted."""


class LedgerBehindError(RetriableError):
    """The remote log metadata did not catch up with the leader's answers in time; retriable."""


class AskAgainError(RetriableError):
    """The state that the decision was based on is being deleted: the bootstrap begins again."""


@dataclass(frozen=True, slots=True)
class AuxState:
    """`state` is verified and ready to commit. `bytes_from_tier`: what was fetched for it."""

    state: AdoptedState
    bytes_from_tier: int


@dataclass(frozen=True, slots=True)
class _ProvenSegment:
    """A segment with its verified objects; its records below `end_offset` are on the leader's lineage. `epochs` cover
    what its index knows of [log start, end_offset). The snapshot is that of the segment's own end.
    """

    segment: RemoteLogSegmentMetadata
    end_offset: int
    epochs: LeaderEpochCache
    producer_snapshot: bytes
    bytes_fetched: int

    @property
    def is_whole(self) -> bool:
        return self.end_offset == self.segment.end_offset + 1


class _Proofs:
    """What was found of the segments that one bootstrap has looked at: each is fetched once. `damage` is what was wrong
    with one of them.
    """

    def __init__(self, prove: Callable[[RemoteLogSegmentMetadata], Awaitable[_ProvenSegment | None]]) -> None:
        self._prove = prove
        self._found: dict[RemoteLogSegmentId, _ProvenSegment | None] = {}
        self.damage: RemoteStorageError | None = None

    async def of(self, segment: RemoteLogSegmentMetadata) -> _ProvenSegment | None:
        """None if it is not of the leader's history, or damaged: another upload of the same offsets may serve."""
        if segment.segment_id not in self._found:
            try:
                self._found[segment.segment_id] = await self._prove(segment)
            except (RemoteStorageCorruptError, RemoteResourceNotFoundError) as error:
                self._found[segment.segment_id] = None
                self.damage = error
        return self._found[segment.segment_id]

    async def reaching(
        self, end_offset: int, segments: Iterable[RemoteLogSegmentMetadata]
    ) -> AsyncIterator[_ProvenSegment]:
        """Yield those of `segments` that are proven up to `end_offset`: the whole ones, then those that straddle."""
        straddling = []
        for segment in segments:
            found = await self.of(segment)
            if found is None or found.end_offset < end_offset:
                continue
            if found.is_whole:
                yield found
            else:
                straddling.append(found)
        for found in straddling:
            yield found

    @property
    def bytes_fetched(self) -> int:
        return sum(found.bytes_fetched for found in self._found.values() if found is not None)


class AuxStateBuilder:
    """Reads remote log metadata and the remote store; one for all partitions of a broker."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        metadata: RemoteLogMetadataManager,
        *,
        ledger_wait_s: float = LEDGER_WAIT_S,
        storage_deadline_s: float = STORAGE_DEADLINE_S,
    ) -> None:
        self._storage = storage
        self._metadata = metadata
        self._ledger_wait_s = ledger_wait_s
        self._storage_deadline_s = storage_deadline_s

    async def build(
        self, partition: TopicIdPartition, adoption: AdoptFromTier, leader: LeaderEndpoint, leader_epoch: int
    ) -> AuxState:
        """The state for `adoption`, decided upon the answers of `leader` in `leader_epoch`.

        LedgerBehindError, AskAgainError and RemoteStorageError as in the table above; KafkaError and OSError from the
        leader.
        """
        deadline = asyncio.get_running_loop().time() + self._ledger_wait_s
        proofs = _Proofs(lambda segment: self._prove(segment, adoption, leader, leader_epoch))
        while True:
            ledger = self._metadata.ledger(partition)
            version = -1 if ledger is None else ledger.version
            missing = f"offset {adoption.start_offset - 1} of epoch {adoption.last_epoch}"
            candidates = _holding(ledger, adoption.start_offset - 1, adoption.last_epoch)
            async for found in proofs.reaching(adoption.start_offset, candidates):
                assert ledger is not None, "it has the candidates"
                found = await _with_history(found, adoption.log_start_offset, ledger, proofs)
                coverage = covering(ledger, found.epochs, adoption.log_start_offset, found.end_offset)
                begin = found.epochs.entries[0].start_offset
                if coverage.gap is not None or begin > adoption.log_start_offset:
                    missing = f"the offsets {coverage.gap or Gap(adoption.log_start_offset, begin)}"
                    continue
                producers = await self._producers(found, adoption.log_start_offset, ledger, proofs)
                if producers is not None:
                    return _aux_state(found, producers, adoption, proofs.bytes_fetched)
                missing = f"the producer state at offset {found.segment.start_offset}"
            if proofs.damage is not None:
                raise proofs.damage
            await self._wait_newer(partition, version, deadline, missing)

    async def finished_segments(
        self, partition: TopicIdPartition, start_offset: int, end_offset: int
    ) -> tuple[RemoteLogSegmentMetadata, ...]:
        """Return segments with records in the range, once one reaches its end. LedgerBehindError if none does."""
        deadline = asyncio.get_running_loop().time() + self._ledger_wait_s
        while True:
            ledger = self._metadata.ledger(partition)
            segments = [] if ledger is None else list(ledger.finished_from(start_offset))
            if any(segment.start_offset < end_offset <= segment.end_offset + 1 for segment in segments):
                return tuple(
                    segment
                    for segment in segments
                    if segment.end_offset >= start_offset and segment.start_offset < end_offset
                )
            version = -1 if ledger is None else ledger.version
            await self._wait_newer(partition, version, deadline, f"offset {end_offset - 1}")

    async def _prove(
        self, segment: RemoteLogSegmentMetadata, adoption: AdoptFromTier, leader: LeaderEndpoint, leader_epoch: int
    ) -> _ProvenSegment | None:
        """None if no record of the segment from the log start on is of the leader's history."""
        end_offset = await _end_on_leader(segment, leader, leader_epoch)
        if end_offset <= max(segment.start_offset, adoption.log_start_offset):
            return None
        epoch_index, snapshot, log_size = await self._fetch(segment)
        if log_size != segment.segment_size_in_bytes:
            raise RemoteStorageCorruptError(
                f"segment {segment.segment_id}: the tier holds {log_size} bytes of log,"
                f" but {segment.segment_size_in_bytes} were uploaded"
            )
        epochs = _verified_epochs(segment, epoch_index, adoption.log_start_offset)
        epochs = LeaderEpochCache(epochs.range(adoption.log_start_offset, end_offset))
        await _verified_producers(segment, snapshot)
        return _ProvenSegment(segment, end_offset, epochs, snapshot, len(epoch_index) + len(snapshot))

    async def _producers(
        self, found: _ProvenSegment, log_start_offset: int, ledger: RemoteLogLedger, proofs: _Proofs
    ) -> bytes | None:
        """The producer snapshot at the end of what was proven; None if no segment has the state at its start."""
        if found.is_whole:
            return found.producer_snapshot
        base = found.segment.start_offset
        producers = ProducerStateManager(base)
        if base > log_start_offset:
            below = [proven async for proven in proofs.reaching(base, _holding(ledger, base - 1)) if proven.is_whole]
            below = [proven for proven in below if proven.segment.end_offset < found.end_offset]
            if not below:
                return None
            producers = await _verified_producers(below[0].segment, below[0].producer_snapshot)
        await self._replay(producers, found.segment, found.end_offset)
        return producers.snapshot()

    async def _replay(
        self, producers: ProducerStateManager, segment: RemoteLogSegmentMetadata, end_offset: int
    ) -> None:
        """Apply the segment's batches from the end of the state up to `end_offset`."""
        async with aclosing(scan(segment, self._storage)) as batches:
            while True:
                async with self._storage_deadline(f"reading the log of {segment.segment_id}"):
                    batch = await anext(batches, None)
                if batch is None or batch.header.base_offset >= end_offset:
                    break
                if batch.header.has_producer_id and batch.header.base_offset >= producers.map_end_offset:
                    try:
                        marker = end_transaction_marker(batch.data, batch.at, batch.header)
                    except CorruptRecordError as error:
                        raise RemoteStorageCorruptError(f"{segment.segment_id}: {error.message}") from error
                    producers.apply(batch.header, marker=marker)
        producers.advance_to(end_offset)

    async def _fetch(self, segment: RemoteLogSegmentMetadata) -> tuple[bytes, bytes, int]:
        """Epoch index, producer snapshot, size of the `.log`: three calls at the same time."""
        epoch_index = asyncio.create_task(self._fetch_index(segment, IndexType.LEADER_EPOCH))
        snapshot = asyncio.create_task(self._fetch_index(segment, IndexType.PRODUCER_SNAPSHOT))
        log_size = asyncio.create_task(self._log_size(segment))
        try:
            await all_done(epoch_index, snapshot, log_size)
        except RemoteResourceNotFoundError as error:
            raise await self._absence(segment, error) from error
        return epoch_index.result(), snapshot.result(), log_size.result()

    async def _fetch_index(self, segment: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        async with self._storage_deadline(f"fetching the {index_type.value} of {segment.segment_id}"):
            return await self._storage.fetch_index(segment, index_type)

    async def _log_size(self, segment: RemoteLogSegmentMetadata) -> int:
        async with self._storage_deadline(f"asking for the size of {segment.segment_id}"):
            size = await self._storage.log_segment_size(segment)
        if size is None:
            raise RemoteResourceNotFoundError(f"no log of segment {segment.segment_id}")
        return size

    @asynccontextmanager
    async def _storage_deadline(self, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._storage_deadline_s):
                yield
        except TimeoutError as error:
            raise RemoteStorageTimeoutError(f"{what} did not end within {self._storage_deadline_s} s") from error

    async def _absence(self, segment: RemoteLogSegmentMetadata, error: RemoteResourceNotFoundError) -> Exception:
        """Why an object is absent: its segment is being deleted (the ledger may learn that a bit later), or a fault."""
        partition = segment.segment_id.topic_id_partition
        deadline = asyncio.get_running_loop().time() + LEDGER_SETTLE_S
        while (ledger := self._metadata.ledger(partition)) is not None:
            current = ledger.get(segment.segment_id)
            if current is None or current.state is not RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
                return AskAgainError(f"segment {segment.segment_id} is being deleted from the tier")
            try:
                async with asyncio.timeout_at(deadline):
                    await self._metadata.wait_newer(partition, ledger.version)
            except TimeoutError:
                break
        return RemoteResourceNotFoundError(
            f"segment {segment.segment_id} is finished in the remote log metadata, but not in the tier: {error}"
        )

    async def _wait_newer(self, partition: TopicIdPartition, version: int, deadline: float, missing: str) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._metadata.wait_newer(partition, version)
        except TimeoutError as error:
            raise LedgerBehindError(
                f"{partition}: after {self._ledger_wait_s} s the remote log metadata (version {version}) still has no"
                f" finished segment for {missing}"
            ) from error


def _holding(ledger: RemoteLogLedger | None, offset: int, epoch: int | None = None) -> list[RemoteLogSegmentMetadata]:
    """The finished segments that state the epoch of an offset, or that it is `epoch`; the one that reaches least beyond
    it first.
    """
    holding = [
        segment
        for segment in takewhile(
            lambda segment: segment.start_offset <= offset, () if ledger is None else ledger.finished_from(offset)
        )
        if any(epoch in (None, stated) and first <= offset <= last for stated, first, last in segment.epoch_ranges())
    ]
    return sorted(holding, key=lambda segment: (segment.end_offset, -segment.start_offset))


async def _end_on_leader(segment: RemoteLogSegmentMetadata, leader: LeaderEndpoint, leader_epoch: int) -> int:
    """Return the offset below which the segment's records are in the leader's log; its start offset if none is."""
    partition = segment.segment_id.topic_id_partition
    latest_common: int | None = None
    for epoch, first, last in reversed([*segment.epoch_ranges()]):
        if latest_common is not None and epoch > latest_common:
            continue
        end = await leader.end_offset_for_leader_epoch(partition, leader_epoch, epoch)
        if end.epoch == epoch and end.end_offset > first:
            return min(end.end_offset, last + 1)
        latest_common = min(end.epoch, epoch - 1)
    return segment.start_offset


async def _with_history(
    found: _ProvenSegment, log_start_offset: int, ledger: RemoteLogLedger, proofs: _Proofs
) -> _ProvenSegment:
    """Return the segment with the epochs down to the log start, as far as proven segments below it know them."""
    entries = found.epochs.entries
    while (first_offset := entries[0].start_offset) > log_start_offset:
        below = await anext(proofs.reaching(first_offset, _holding(ledger, first_offset - 1)), None)
        if below is None:
            break
        entries = (*below.epochs.range(log_start_offset, first_offset), *entries)
    return replace(found, epochs=LeaderEpochCache(entries))


def _verified_epochs(segment: RemoteLogSegmentMetadata, epoch_index: bytes, log_start_offset: int) -> LeaderEpochCache:
    """The epochs of [log start, segment end] by index and metadata, which agree; from where one of the two begins."""
    name = f"epoch index of segment {segment.segment_id}"
    try:
        recorded = LeaderEpochCache(decode_leader_epochs(epoch_index, name=name))
    except CorruptFileError as error:
        raise RemoteStorageCorruptError(str(error)) from error
    end_offset = segment.end_offset + 1
    epochs = LeaderEpochCache(recorded.range(log_start_offset, end_offset))
    earliest = epochs.earliest_entry
    if earliest is None:
        raise RemoteStorageCorruptError(f"{name} has no epoch for offset {log_start_offset} and above: {recorded}")
    for epoch, first, last in reversed([*segment.epoch_ranges()]):
        first = max(first, log_start_offset)
        if first <= last and first < earliest.start_offset:
            above = epochs.entries[1:] if epoch == epochs.entries[0].epoch else epochs.entries
            epochs = LeaderEpochCache((EpochEntry(epoch, first), *above))
    if not is_within_lineage(segment, epochs, end_offset):
        raise RemoteStorageCorruptError(
            f"{name} contradicts the remote log metadata: {recorded}, {segment.segment_leader_epochs}"
        )
    return epochs


async def _verified_producers(segment: RemoteLogSegmentMetadata, snapshot: bytes) -> ProducerStateManager:
    try:
        return await decoded_producers(
            snapshot, segment.end_offset + 1, name=f"producer snapshot of segment {segment.segment_id}"
        )
    except CorruptFileError as error:
        raise RemoteStorageCorruptError(str(error)) from error


def _aux_state(found: _ProvenSegment, producers: bytes, adoption: AdoptFromTier, bytes_from_tier: int) -> AuxState:
    assert found.end_offset >= adoption.start_offset, (found.end_offset, adoption)
    state = AdoptedState(
        topic_id=found.segment.segment_id.topic_id_partition.topic_id,
        log_start_offset=adoption.log_start_offset,
        start_offset=found.end_offset,
        epochs=found.epochs.entries,
        producer_snapshot=producers,
    )
    return AuxState(state, bytes_from_tier)

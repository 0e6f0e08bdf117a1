"""A tier for a program of one's own, without a broker: list its partitions and segments, look up an offset, read.

    open_tier -> looked at -> [ log(topic, partition) -> described -> [ find | batches | read ]* ]* -> closed

* Objects alone are asked, as `survey` describes them; nothing is written. What a broker is copying is not there yet.
* An offset comes from the history that survived: the tier may hold it several times, after an unclean election
  differently. The leader-epoch checkpoint of the youngest segment is that history.
* A hole or a damaged segment is an error, not a way past it, unless the caller allows it.
* A `TierLog` is what the tier had when it was made. A leader may delete its oldest segments while they are read:
  RemoteResourceNotFoundError; make it again.

In memory: the description of every segment, `READ_BYTES` or one batch, and what was aborted from the reader on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Final
from uuid import UUID

from ..light_dataclass import dataclass
from ..log.core import (
    AbortedTransaction,
    CorruptFileError,
    LeaderEpochCache,
    OffsetIndex,
    TransactionIndex,
    decode_leader_epochs,
)
from ..protocol import CorruptRecordError, ErrorCode, KafkaError, OperatorError, TopicIdPartition
from ..protocol.records import (
    CONTROL_BYTES_MAX,
    DECOMPRESSED_BYTES_MAX,
    BatchHeader,
    ControlType,
    Record,
    check_batch,
    control_type,
    iter_batches,
    iter_records,
    parse_header,
)
from .aborts import fetch_transaction_index, first_open_offset
from .batches import check_place
from .core.lineage import Gap, covering, end_on_lineage, youngest
from .core.segment import RemoteLogSegmentMetadata
from .index_proof import WrongIndexError, check_offset_entry
from .look import look_at_tier
from .registry import load_remote_storage
from .storage import (
    IndexType,
    ListsPartitions,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageManager,
)
from .survey import Survey, gather_limited, survey_partition

READ_BYTES: Final = 4 << 20
"""The size of one read of the tier."""
BATCH_BYTES_MAX: Final = DECOMPRESSED_BYTES_MAX
"""A batch that claims to be larger is taken as damage."""
INDEXES_AT_ONCE_MAX: Final = 16
SHOWN_MAX: Final = 5
"""What an error lists of partitions or damage."""


@dataclass(frozen=True, slots=True)
class TierSegment:
    """A remote segment, and the offsets that are read from it: those that no earlier one has."""

    id: UUID
    start_offset: int
    end_offset: int
    size_bytes: int
    """The size of the whole object, also where only a part of its offsets is read."""
    max_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """Offsets [start_offset, end_offset) are read from this segment."""

    segment: RemoteLogSegmentMetadata
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class _Batch:
    """A whole batch, at byte `position` of `data`."""

    data: bytes
    position: int
    header: BatchHeader


class TierLog:
    """What the tier has of one partition; `Tier.log` makes it. Any number of tasks may read it at the same time."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        partition: TopicIdPartition,
        pieces: Sequence[_Piece],
        stable_offset: int,
        damage: Sequence[str],
    ) -> None:
        self._storage = storage
        self._partition = partition
        self._pieces = tuple(pieces)
        self._stable_offset = stable_offset
        self._damage = tuple(damage)

    @property
    def partition(self) -> TopicIdPartition:
        """The partition: its `topic`, `partition` and `topic_id`."""
        return self._partition

    @property
    def start_offset(self) -> int:
        """The first offset that can be read. A leader may have deleted more (DeleteRecords) than the tier shows."""
        return self._pieces[0].start_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last one in the tier."""
        return self._pieces[-1].end_offset

    @property
    def segments(self) -> tuple[TierSegment, ...]:
        """The segments that are read, in the order of their offsets."""
        return tuple(_shown(piece) for piece in self._pieces)

    @property
    def damage(self) -> tuple[str, ...]:
        """What is lacking or cannot be read, a line each; empty unless `allow_damage` was set."""
        return self._damage

    def find(self, offset: int) -> TierSegment | None:
        """Return the segment that `offset` is read from; None if the tier does not have it. Nothing is asked of the
        tier.

            segment = log.find(1000)
        """
        return next((_shown(each) for each in self._pieces if each.start_offset <= offset < each.end_offset), None)

    async def batches(self, offset: int | None = None) -> AsyncIterator[bytes]:
        """Yield whole batches as their producers compressed them, markers of transactions included, from the one that
        holds `offset` on, or from the first, to the end. Their checksums have been checked. Errors as of `read`.

            async for batch in log.batches():
                copy.write(batch)
        """
        async with aclosing(self._read(self._position(offset))) as batches:
            async for batch in batches:
                yield batch.data[batch.position : batch.position + batch.header.size_bytes]

    async def read(self, offset: int | None = None, *, committed: bool = True) -> AsyncIterator[Record]:
        """Yield the records from `offset` on, or from the first, to the end, or with `committed` to the first
        transaction that is open there. With `committed` those of aborted transactions are left out.

        Raise OFFSET_OUT_OF_RANGE (KafkaError) outside `[start_offset, end_offset]`; RemoteResourceNotFoundError if a
        segment was deleted, RemoteStorageCorruptError if its bytes are damaged, another RemoteStorageError if the tier
        fails. What was yielded before is right.

            async for record in log.read(log.start_offset):
                print(record.offset, record.value)
        """
        position = self._position(offset)
        end_offset = self._stable_offset if committed else self.end_offset
        of_committed = _Committed(await self._aborted(position)) if committed else None
        async with aclosing(self._read(position)) as batches:
            async for batch in batches:
                if batch.header.base_offset >= end_offset:
                    return
                is_shown = of_committed is None or of_committed.shows(batch)
                if not is_shown or batch.header.is_control:
                    continue
                for record in _records(batch):
                    if position <= record.offset < end_offset:
                        yield record

    def _position(self, offset: int | None) -> int:
        position = self.start_offset if offset is None else offset
        if not self.start_offset <= position <= self.end_offset:
            raise KafkaError(
                ErrorCode.offset_out_of_range,
                f"{self._partition.topic_partition}: the tier has offsets [{self.start_offset}, {self.end_offset}), "
                f"not {position}",
            )
        return position

    async def _read(self, position: int) -> AsyncGenerator[_Batch, None]:
        """Yield the batches from the one that holds `position` on. RemoteStorageError."""
        for piece in self._pieces:
            if piece.end_offset <= position:
                continue
            offset = max(position, piece.start_offset)
            try:
                async with aclosing(_batches(self._storage, piece, offset)) as batches:
                    async for batch in batches:
                        offset = batch.header.next_offset
                        yield batch
            except CorruptRecordError as error:
                raise RemoteStorageCorruptError(
                    f"{piece.segment.segment_id}, at offset {offset} or above: {error.message}"
                ) from error

    async def _aborted(self, position: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that end at `position` or above. RemoteStorageError."""
        ends = [piece for piece in self._pieces if piece.end_offset > position]
        calls = (partial(_aborted_in, self._storage, piece) for piece in ends)
        found = await gather_limited(calls, INDEXES_AT_ONCE_MAX)
        return [each for some in found for each in some if each.last_offset >= position]


class Tier:
    """An open tier; `open_tier` makes it. Any number of tasks of one event loop may use it at the same time."""

    def __init__(self, storage: RemoteStorageManager) -> None:
        self._storage = storage

    async def partitions(self) -> list[TopicIdPartition]:
        """Return every partition that the tier has objects of, sorted. OperatorError if the plugin cannot list them;
        RemoteStorageError if the tier fails.

            for partition in await tier.partitions():
                print(partition.topic, partition.partition, partition.topic_id)
        """
        if not isinstance(self._storage, ListsPartitions):
            raise OperatorError(f"{type(self._storage).__name__} cannot list partitions: name one with its topic_id")
        return sorted([partition async for partition in self._storage.list_partitions()])

    async def log(
        self, topic: str, partition: int = 0, *, topic_id: UUID | None = None, allow_damage: bool = False
    ) -> TierLog:
        """Look at the segments of one partition: a listing, and three small reads for each.

        Raise OperatorError if the tier has no such partition, or those of several topics of this name (name its
        `topic_id`). Raise RemoteStorageCorruptError if segments are lacking or damaged; with `allow_damage`, `damage`
        says so instead, and reading passes over them. Another RemoteStorageError if the tier fails.

            log = await tier.log("orders", 3)
        """
        if topic_id is None:
            chosen = _the_one(topic, partition, await self.partitions())
        else:
            chosen = TopicIdPartition(topic_id, topic, partition)
        found = await self._survey(chosen)
        latest = youngest(found.ledger)
        damage = [str(finding) for finding in found.findings if finding.kind.is_damage]
        if latest is None:
            raise _unreadable(chosen, damage) if damage else OperatorError(f"the tier has no segment of {chosen}")
        epochs = await self._history(latest)
        pieces, gaps = _pieces(found, epochs, latest.end_offset + 1)
        damage += [f"offsets {gap} are in no segment" for gap in gaps]
        if damage and not allow_damage:
            raise _unreadable(chosen, damage)
        open_since = await first_open_offset(latest, self._storage)
        end_offset = pieces[-1].end_offset
        stable_offset = end_offset if open_since is None else min(open_since, end_offset)
        return TierLog(self._storage, chosen, pieces, stable_offset, damage)

    async def _survey(self, partition: TopicIdPartition) -> Survey:
        """Look twice where something is damaged: it may be what was deleted, or came, meanwhile."""
        found = await survey_partition(self._storage, partition)
        if any(finding.kind.is_damage for finding in found.findings):
            found = await survey_partition(self._storage, partition)
        return found

    async def _history(self, latest: RemoteLogSegmentMetadata) -> LeaderEpochCache:
        """Return the leader epochs of the history that survived, from the checkpoint beside the youngest segment."""
        checkpoint = await self._storage.fetch_index(latest, IndexType.LEADER_EPOCH)
        try:
            entries = decode_leader_epochs(checkpoint, name=f"leader epoch checkpoint of {latest.segment_id}")
        except CorruptFileError as error:
            raise RemoteStorageCorruptError(str(error)) from error
        return LeaderEpochCache(LeaderEpochCache(entries).range(0, latest.end_offset + 1))


@asynccontextmanager
async def open_tier(
    storage: str | RemoteStorageManager, options: Mapping[str, str] | None = None
) -> AsyncIterator[Tier]:
    """Open a tier to read it, and close it at the block's end, also when that is cancelled (Ctrl-C).

    `storage` is the name of a storage plugin (`tierfetch plugins` lists them), with `options` as a broker's
    `rsm.config.<option>`; or a plugin that is built already, which stays the caller's to close.

    Raise OperatorError for an unknown plugin or option; RemoteStorageRefusedError where the tier refuses what was
    configured (no such bucket, no rights), another RemoteStorageError where it does not answer.

        async with tierfetch.remote.open_tier("s3", {"bucket": "kafka"}) as tier:
            print(await tier.partitions())
    """
    if not isinstance(storage, str):
        yield await _looked_at(storage)
        return
    opened = load_remote_storage(storage, options or {}, key_prefix="")
    try:
        yield await _looked_at(opened)
    finally:
        await opened.close()


async def _looked_at(storage: RemoteStorageManager) -> Tier:
    error = await look_at_tier(storage)
    if error is not None:
        raise error
    return Tier(storage)


def _the_one(topic: str, partition: int, known: Sequence[TopicIdPartition]) -> TopicIdPartition:
    """Return the partition of this name. OperatorError if there is none, or more than one."""
    found = [each for each in known if each.topic == topic and each.partition == partition]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(str(each.topic_id) for each in found)
        raise OperatorError(f"the tier has {topic}-{partition} of {len(found)} topics: name the topic_id, one of {ids}")
    names = [str(each.topic_partition) for each in known]
    others = ", ".join(names[:SHOWN_MAX]) + (f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else "")
    raise OperatorError(f"the tier has no {topic}-{partition}; it has {others or 'no partition at all'}")


def _unreadable(partition: TopicIdPartition, damage: Sequence[str]) -> RemoteStorageCorruptError:
    more = f" and {len(damage) - SHOWN_MAX} more" if len(damage) > SHOWN_MAX else ""
    return RemoteStorageCorruptError(f"{partition.topic_partition}: {'; '.join(damage[:SHOWN_MAX])}{more}")


def _pieces(found: Survey, epochs: LeaderEpochCache, end_offset: int) -> tuple[list[_Piece], list[Gap]]:
    """Return which segment gives which offsets of the history, and what no segment has after the first of them."""
    pieces: list[_Piece] = []
    gaps: list[Gap] = []
    earliest = epochs.earliest_entry
    position = earliest.start_offset if earliest is not None else end_offset
    while position < end_offset:
        coverage = covering(found.ledger, epochs, position, end_offset)
        for segment in coverage.segments:
            end = end_on_lineage(segment, epochs, end_offset)
            pieces.append(_Piece(segment, position, end))
            position = end
        if coverage.gap is None:
            break
        if pieces:
            gaps.append(coverage.gap)
        position = coverage.gap.end_offset
    assert pieces, f"{found.ledger.partition}: the youngest segment is of its own history"
    return pieces, gaps


def _shown(piece: _Piece) -> TierSegment:
    segment = piece.segment
    return TierSegment(
        segment.segment_id.id,
        piece.start_offset,
        piece.end_offset,
        segment.segment_size_in_bytes,
        segment.max_timestamp_ms,
    )


async def _batches(storage: RemoteStorageManager, piece: _Piece, offset: int) -> AsyncGenerator[_Batch, None]:
    """Yield the piece's batches from the one that holds `offset` on. RemoteStorageError, CorruptRecordError."""
    segment, size = piece.segment, piece.segment.segment_size_in_bytes
    position = await _begin(storage, segment, offset)
    next_offset = segment.start_offset
    while position < size:
        data = await storage.fetch_log_segment(segment, position, min(size, position + READ_BYTES))
        batch_bytes = parse_header(data).size_bytes
        if batch_bytes > BATCH_BYTES_MAX or position + batch_bytes > size:
            raise CorruptRecordError(f"a batch claims {batch_bytes} bytes; {size - position} are left", position)
        if batch_bytes > len(data):
            data = await storage.fetch_log_segment(segment, position, position + batch_bytes)
        read = 0
        for at, header in iter_batches(data):
            check_place(position + at, header, segment, next_offset)
            read, next_offset = at + header.size_bytes, header.next_offset
            if header.last_offset < offset:
                continue
            if header.last_offset >= piece.end_offset:
                return
            check_batch(data, at, header)
            yield _Batch(data, at, header)
        if not read:
            raise CorruptRecordError(f"the tier gave {len(data)} bytes of a batch of {batch_bytes}", position)
        position += read
    if next_offset < piece.end_offset:
        raise CorruptRecordError(f"the segment ends at offset {next_offset}, before {piece.end_offset}", position)


async def _begin(storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata, offset: int) -> int:
    """Return a byte at or before the batch that holds `offset`, where a batch begins. An index that is damaged, or that
    the log contradicts, costs a longer read.
    """
    if offset <= segment.start_offset:
        return 0
    try:
        data = await storage.fetch_index(segment, IndexType.OFFSET)
        entry = OffsetIndex.decode(data, segment.start_offset).lookup(offset)
        end = min(segment.segment_size_in_bytes, entry.position + READ_BYTES)
        check_offset_entry(await storage.fetch_log_segment(segment, entry.position, end), segment, entry)
    except (CorruptFileError, RemoteResourceNotFoundError, WrongIndexError):
        return 0
    return entry.position


async def _aborted_in(storage: RemoteStorageManager, piece: _Piece) -> list[AbortedTransaction]:
    """Return the transactions whose ABORT marker is among the piece's offsets. RemoteStorageError."""
    data = await fetch_transaction_index(piece.segment, storage)
    try:
        index = TransactionIndex.decode(data, name=f"transaction index of {piece.segment.segment_id}")
    except CorruptFileError as error:
        raise RemoteStorageCorruptError(str(error)) from error
    return [each for each in index if piece.start_offset <= each.last_offset < piece.end_offset]


def _records(batch: _Batch, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Yield the records of a batch. RemoteStorageCorruptError where its header and its body disagree."""
    try:
        yield from iter_records(batch.data, batch.position, batch.header, decompressed_bytes_max=bytes_max)
    except CorruptRecordError as error:
        header = batch.header
        raise RemoteStorageCorruptError(
            f"the batch [{header.base_offset}, {header.last_offset}]: {error.message}"
        ) from error


class _Committed:
    """Leaves out the batches of aborted transactions, and notices an index that was lost: an ABORT marker that ends
    what was shown.
    """

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        for each in sorted(aborted, key=lambda each: each.last_offset, reverse=True):
            self._aborted.setdefault(each.producer_id, []).append(each)
        self._shown: set[int] = set()
        """The producers whose open transaction has been shown."""

    def shows(self, batch: _Batch) -> bool:
        """Return whether the batch's records are committed. Batches come in their order. RemoteStorageCorruptError."""
        header = batch.header
        if not header.is_transactional:
            return True
        if header.is_control:
            self._end(batch)
            return False
        ahead = self._aborted.get(header.producer_id, [])
        while ahead and ahead[-1].last_offset < header.base_offset:
            ahead.pop()
        if ahead and ahead[-1].first_offset <= header.base_offset:
            return False
        self._shown.add(header.producer_id)
        return True

    def _end(self, batch: _Batch) -> None:
        was_shown = batch.header.producer_id in self._shown
        self._shown.discard(batch.header.producer_id)
        records = _records(batch, CONTROL_BYTES_MAX)
        if was_shown and any(control_type(record) is ControlType.ABORT for record in records):
            raise RemoteStorageCorruptError(
                f"the transaction index that has the abort at offset {batch.header.base_offset} of producer "
                f"{batch.header.producer_id} was lost: records of that transaction were shown"
            )

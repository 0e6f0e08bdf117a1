"""A cache of the indexes of remote segments, on local disk, for consumers' reads.

    asked for -> decoded (memory) -> file (local disk) -> tier

| rule                                                            | why                                              |
|-----------------------------------------------------------------|--------------------------------------------------|
| one fetch of an index at a time, however many ask               | a burst of consumers behind the same segment     |
| a caller that is cancelled does not end it                      | the others wait for it, the next ones need it    |
| the same for the snapshot that tells the first open offset      | it may take longer than any one read may wait    |
| files hold at most `bytes_max`, the least recently used go      | `remote.log.index.file.cache.total.size.bytes`   |
| a file that cannot be written is no error: the index is served  | a full disk must not stop reads                  |
| a transaction index is asked for unless the metadata deny it    | most segments have none                          |
| one that is not there is empty if the log has no ABORT marker   | Kafka before 4.0 denies none (`aborts`)          |
| else it was lost: an error; one that is damaged counts as lost  | what was aborted is not known                    |
| an offset or time index that is lost or damaged in the tier is  | the `.log` has all that it says, and local data  |
| built from the log, one segment at a time                       | relies on the `.log` alone                       |
| files are fsynced before they count                             | an empty file after a crash would hide aborts    |
| a file from an earlier run is checked when first used           | it may have been damaged; then it is fetched     |
| what the tier returns must be an index of this very segment     | else RemoteStorageCorruptError, and nothing kept |
| with no more entries than the log can have batches              | a size is checked before any entry is            |
| one that its log contradicts (`distrust`) is fetched once more, | entries have no CRC: it may be another segment's |
| then built from the log                                         |                                                  |

Files are named as in Kafka's `remote-log-index-cache`, `<start offset>_<segment uuid>.{index,timeindex,txnindex}`, so
either finds the other's. A segment's indexes never change, so a file never goes stale; `drop` removes those of a
deleted segment. The indexes returned are shared: read them, do not change them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, cast
from uuid import UUID

from ..limited_log import LimitedLog
from ..log.core import AbortedTransaction, CorruptFileError, OffsetIndex, TimeIndex, TransactionIndex
from ..log.disk import Disk
from ..protocol import uuid_from_text, uuid_to_text
from ..protocol.net import SLICE_ELEMENTS, pace
from ..protocol.records import BATCH_HEADER_SIZE
from .aborts import fetch_transaction_index, first_open_offset, has_abort_marker
from .core.byte_lru import ByteLru
from .core.segment import RemoteLogSegmentId, RemoteLogSegmentMetadata
from .index_bound import check_index_size
from .segment_scan import scanned_indexes
from .storage import (
    IndexType,
    ReadsSegments,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
)

_log = LimitedLog(logging.getLogger(__name__))

DIRECTORY: Final = "remote-log-index-cache"
BYTES_MAX: Final = 1 << 30
"""Kafka's default."""
DECODED_BYTES_MAX: Final = 32 << 20
OPEN_OFFSETS_MAX: Final = 4096
REPAIR_AGAIN_S: Final = 60.0
"""How long a log that could not be read to build an index is left alone, however often consumers ask."""
DISTRUSTED_MAX: Final = 4096
CHECK_SLOTS: Final = 4096
"""The number of entries that are looked at without giving others their turn: some milliseconds."""
FILE_BYTES_MIN: Final = 4096
"""What even an empty file counts: a block of the disk, or the objects that stand for it in memory."""

_SUFFIXES: Final = {IndexType.OFFSET: "index", IndexType.TIMESTAMP: "timeindex", IndexType.TRANSACTION: "txnindex"}
_TYPES: Final = {suffix: index_type for index_type, suffix in _SUFFIXES.items()}
_NAME = re.compile(r"(?P<start>\d+)_(?P<id>[A-Za-z0-9_-]{22})\.(?P<suffix>index|timeindex|txnindex)(?P<rest>\..+)?")


class _Distrust(Enum):
    """What was done about an index that its log contradicted."""

    FETCHED_AGAIN = auto()
    BUILT = auto()


Index = OffsetIndex | TimeIndex | TransactionIndex
_Key = tuple[UUID, IndexType]
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class RemoteIndexCache:
    """Build with `open`, so that it finds the files of an earlier run. `close` it before its storage."""

    def __init__(self, disk: Disk, directory: Path, storage: ReadsSegments, bytes_max: int) -> None:
        self._disk = disk
        self._directory = directory
        self._storage = storage
        self._files: ByteLru[_Key, Path] = ByteLru(bytes_max)
        self._unchecked: set[_Key] = set()
        self._decoded: ByteLru[_Key, Index] = ByteLru(min(DECODED_BYTES_MAX, bytes_max))
        self._flights: dict[_Key, asyncio.Task[Index]] = {}
        self._open_offsets: dict[UUID, int | None] = {}
        self._open_offset_flights: dict[UUID, asyncio.Task[int | None]] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self._rebuilding = asyncio.Lock()
        """Held while an index is built from a whole log: one at a time, as it reads a segment of up to gigabytes."""
        self._distrusted: OrderedDict[_Key, _Distrust] = OrderedDict()
        self.rebuilt = 0
        """The number of indexes that were built from their log."""
        self.on_rebuilt: Callable[[], None] = lambda: None
        self._beyond_repair: dict[tuple[UUID, bool], float] = {}
        """Until when a log is not read again that did not give the transaction index, or the other two, by segment."""

    @classmethod
    async def open(
        cls, disk: Disk, log_directory: Path, storage: ReadsSegments, bytes_max: int = BYTES_MAX
    ) -> RemoteIndexCache:
        """`bytes_max` limits the files. Files left over from writes that a crash cut short are removed, others that
        are not ours stay.
        """
        cache = cls(disk, log_directory / DIRECTORY, storage, bytes_max)
        await cache._load()
        return cache

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def size_bytes(self) -> int:
        """The size of the files, each counted as at least FILE_BYTES_MIN."""
        return self._files.size_bytes

    def has_offset_index(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """Return whether the index is in memory or on the local disk: then the tier is needed only if it is damaged."""
        key = (metadata.segment_id.id, IndexType.OFFSET)
        return self._decoded.peek(key) is not None or self._files.peek(key) is not None

    async def offset_index(self, metadata: RemoteLogSegmentMetadata) -> OffsetIndex:
        """RemoteStorageError where it can be had neither here nor from the tier; so do the others."""
        return cast(OffsetIndex, await self._get(metadata, IndexType.OFFSET))

    async def time_index(self, metadata: RemoteLogSegmentMetadata) -> TimeIndex:
        return cast(TimeIndex, await self._get(metadata, IndexType.TIMESTAMP))

    async def transaction_index(self, metadata: RemoteLogSegmentMetadata) -> TransactionIndex:
        """Empty where the segment has no aborted transactions."""
        if metadata.txn_index_empty:
            return TransactionIndex()
        return cast(TransactionIndex, await self._get(metadata, IndexType.TRANSACTION))

    async def first_open_offset(self, metadata: RemoteLogSegmentMetadata) -> int | None:
        """As in `aborts`; the last ones are remembered."""
        segment_id = metadata.segment_id.id
        if segment_id in self._open_offsets:
            return self._open_offsets[segment_id]
        return await self._flown(self._open_offset_flights, segment_id, partial(self._load_open_offset, metadata))

    async def distrust(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bool:
        """Take up that the log of a segment contradicts its index, and return whether it is worth another try: with the
        index fetched again, the next time with one that is built from the log. Then the index is not to blame.
        """
        key = (metadata.segment_id.id, index_type)
        before = self._distrusted.pop(key, None)
        self._distrusted[key] = _Distrust.BUILT if before is not None else _Distrust.FETCHED_AGAIN
        if len(self._distrusted) > DISTRUSTED_MAX:
            self._distrusted.popitem(last=False)
        if before is _Distrust.BUILT:
            return False
        await self.drop(metadata.segment_id)
        return True

    async def drop(self, segment_id: RemoteLogSegmentId) -> None:
        """Forget a segment that was deleted, or whose indexes turned out wrong. Those who wait get what they wait for,
        but it is not kept.
        """
        self._open_offsets.pop(segment_id.id, None)
        self._open_offset_flights.pop(segment_id.id, None)
        keys = [(segment_id.id, index_type) for index_type in _SUFFIXES]
        for key in keys:
            self._flights.pop(key, None)
            self._decoded.pop(key)
        await self._remove([path for key in keys if (path := self._files.pop(key)) is not None])

    async def _get(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> Index:
        key = (metadata.segment_id.id, index_type)
        if (index := self._decoded.get(key)) is not None:
            return index
        return await self._flown(self._flights, key, partial(self._load_index, metadata, index_type))

    async def _flown(
        self, flights: dict[K, asyncio.Task[T]], key: K, load: Callable[[], Coroutine[object, None, T]]
    ) -> T:
        """Join the flight for this key, or begin it. It continues when its callers are cancelled."""
        if (flight := flights.get(key)) is None:
            flight = flights[key] = asyncio.create_task(load())
            self._tasks.add(flight)
            flight.add_done_callback(partial(self._land, flights, key))
        try:
            return await asyncio.shield(flight)
        except asyncio.CancelledError:
            if flight.cancelled():
                raise RemoteStorageError("the index cache has been closed") from None
            raise

    def _land(self, flights: dict[K, asyncio.Task[T]], key: K, flight: asyncio.Task[T]) -> None:
        self._tasks.discard(flight)
        if flights.get(key) is flight:
            del flights[key]
        if not flight.cancelled():
            flight.exception()  # all who asked may be gone

    async def _load_open_offset(self, metadata: RemoteLogSegmentMetadata) -> int | None:
        segment_id = metadata.segment_id.id
        offset = await first_open_offset(metadata, self._storage)
        if self._open_offset_flights.get(segment_id) is asyncio.current_task():  # else it was dropped meanwhile
            if len(self._open_offsets) >= OPEN_OFFSETS_MAX:
                del self._open_offsets[next(iter(self._open_offsets))]
            self._open_offsets[segment_id] = offset
        return offset

    def _is_wanted(self, key: _Key) -> bool:
        """Whether the segment has not been dropped since this flight began."""
        return self._flights.get(key) is asyncio.current_task()

    async def _load_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> Index:
        key = (metadata.segment_id.id, index_type)
        index = await self._read(metadata, index_type)
        if index is None:
            index, data = await self._fetch(metadata, index_type)
            await self._keep(key, self._path(metadata, index_type), data)
        size = _counted(index.size_bytes)
        if self._is_wanted(key) and self._decoded.fits(size):
            self._decoded.make_room(size)
            self._decoded.add(key, index, size)
        return index

    async def _read(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> Index | None:
        """From the file; None if there is none that can be used."""
        key = (metadata.segment_id.id, index_type)
        path = self._files.get(key)
        if path is None:
            return None
        try:
            data = await self._disk.read_file(path)
            index = await _decode(metadata, index_type, data, is_checked=key not in self._unchecked)
        except (OSError, CorruptFileError, RemoteStorageCorruptError) as error:
            _log.warning("", "cached index %s is unusable, fetching it again: %s", path.name, error)
            if self._files.pop(key) is not None:
                await self._remove([path])
            return None
        self._unchecked.discard(key)
        return index

    async def _fetch(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> tuple[Index, bytes]:
        """Return the index and its bytes, from the tier. RemoteStorageError."""
        if self._distrusted.get((metadata.segment_id.id, index_type)) is _Distrust.BUILT:
            why = RemoteStorageCorruptError(
                f"{index_type.value} of segment {metadata.segment_id}: its log contradicts it"
            )
            return await self._rebuild(metadata, index_type, why)
        if index_type is IndexType.TRANSACTION:
            try:
                data = await fetch_transaction_index(metadata, self._storage)
                return await _decode(metadata, index_type, data, is_checked=False), data
            except RemoteStorageCorruptError as error:
                return await self._without_aborts(metadata, error)
        try:
            data = await self._storage.fetch_index(metadata, index_type)
            return await _decode(metadata, index_type, data, is_checked=False), data
        except (RemoteResourceNotFoundError, RemoteStorageCorruptError) as error:
            return await self._rebuild(metadata, index_type, error)

    async def _without_aborts(
        self, metadata: RemoteLogSegmentMetadata, why: RemoteStorageError
    ) -> tuple[TransactionIndex, bytes]:
        """Return the empty index that a log without ABORT markers has; raise `why` for any other log."""

        async def look() -> TransactionIndex:
            if await has_abort_marker(metadata, self._storage):
                raise why
            return TransactionIndex()

        return await self._from_log(metadata, IndexType.TRANSACTION, why, look), b""

    async def _rebuild(
        self, metadata: RemoteLogSegmentMetadata, index_type: IndexType, why: RemoteStorageError
    ) -> tuple[Index, bytes]:
        indexes = await self._from_log(metadata, index_type, why, lambda: scanned_indexes(metadata, self._storage))
        index = indexes.offset if index_type is IndexType.OFFSET else indexes.time
        return index, index.encode()

    async def _from_log(
        self,
        metadata: RemoteLogSegmentMetadata,
        index_type: IndexType,
        why: RemoteStorageError,
        build: Callable[[], Awaitable[T]],
    ) -> T:
        """Return what is built from the log; raise `why` where that fails, and for `REPAIR_AGAIN_S` after it."""
        key = (metadata.segment_id.id, index_type is IndexType.TRANSACTION)
        async with self._rebuilding:
            now_s = asyncio.get_running_loop().time()
            if now_s < self._beyond_repair.get(key, now_s):
                raise why
            _log.warning(
                str(metadata.segment_id.topic_id_partition),
                "%s: its %s cannot be used, building it from the %d bytes of its log: %s",
                metadata.segment_id,
                index_type.value,
                metadata.segment_size_in_bytes,
                why,
            )
            try:
                built = await build()
            except RemoteStorageError as error:
                self._beyond_repair = {
                    each: until_s for each, until_s in self._beyond_repair.items() if until_s > now_s
                }
                self._beyond_repair[key] = asyncio.get_running_loop().time() + REPAIR_AGAIN_S
                raise why from error
        self.rebuilt += 1
        self.on_rebuilt()
        return built

    async def _keep(self, key: _Key, path: Path, data: bytes) -> None:
        """Counted before it is written, so that the limit holds at any moment."""
        size = _counted(len(data))
        if not self._is_wanted(key) or not self._files.fits(size):
            return
        evicted = self._files.make_room(size)
        self._files.add(key, path, size)
        await self._remove(evicted)
        try:
            await self._disk.write_file(path, data)
        except OSError as error:
            _log.warning("", "cannot write index %s to the index cache: %s", path.name, error)
            self._files.pop(key)
        if self._files.peek(key) is None:
            await self._remove([path])

    async def _remove(self, paths: Sequence[Path]) -> None:
        for path in paths:
            try:
                await self._disk.remove(path)
            except OSError as error:
                _log.warning("", "cannot remove %s from the index cache: %s", path.name, error)

    def _path(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> Path:
        stem = f"{metadata.start_offset}_{uuid_to_text(metadata.segment_id.id)}"
        return self._directory / f"{stem}.{_SUFFIXES[index_type]}"

    async def _load(self) -> None:
        await self._disk.make_directory(self._directory)
        unusable: list[Path] = []
        for entry in await self._disk.list_directory(self._directory):
            name = _NAME.fullmatch(entry.name)
            if name is None or entry.is_directory:
                continue
            path = self._directory / entry.name
            size = _counted(entry.size)
            if name["rest"] or not self._files.fits(size):
                unusable.append(path)
                continue
            key = (uuid_from_text(name["id"]), _TYPES[name["suffix"]])
            unusable += self._files.make_room(size)
            self._files.add(key, path, size)
            self._unchecked.add(key)
        await self._remove(unusable)


def _counted(size: int) -> int:
    return max(size, FILE_BYTES_MIN)


async def check_slots(count: int) -> AsyncIterator[tuple[int, int]]:
    """Yield the slots of an index with `count` entries as ranges [first, end), each within the loop's share."""
    for first in range(0, count, CHECK_SLOTS):
        if first:
            await pace().spend(SLICE_ELEMENTS, first)
        yield first, min(first + CHECK_SLOTS, count)


async def _decode(metadata: RemoteLogSegmentMetadata, index_type: IndexType, data: bytes, *, is_checked: bool) -> Index:
    """RemoteStorageCorruptError unless these bytes can be this segment's index. Large ones are looked through in
    slices.
    """
    name = f"{index_type.value} of segment {metadata.segment_id}"
    try:
        index = _decode_unchecked(metadata, index_type, data, name)
        async for first, end in check_slots(len(index)):
            if not is_checked or isinstance(index, TransactionIndex):
                index.check(name=name, first=first, end=end)
            if isinstance(index, TransactionIndex):
                _check_transactions(index.slots(first, end), metadata, name)
    except CorruptFileError as error:
        raise RemoteStorageCorruptError(str(error)) from error
    return index


def _decode_unchecked(metadata: RemoteLogSegmentMetadata, index_type: IndexType, data: bytes, name: str) -> Index:
    """CorruptFileError where the size or the last entry shows that it is not this segment's."""
    # An entry stands for a batch at least: what has more of them is not worth a look at each.
    entries_max = metadata.segment_size_in_bytes // BATCH_HEADER_SIZE + 1
    check_index_size(metadata, index_type, len(data))
    index: Index
    last_offset = metadata.start_offset
    if index_type is IndexType.TRANSACTION:
        index = TransactionIndex.unchecked(data, name=name)
    elif index_type is IndexType.OFFSET:
        index = OffsetIndex.decode(data, metadata.start_offset, name=name)
        if index.last_entry is not None:
            last_offset = index.last_entry.offset
            if index.last_entry.position >= metadata.segment_size_in_bytes:
                raise CorruptFileError(
                    f"{name}: {index.last_entry}, where the log has {metadata.segment_size_in_bytes} bytes"
                )
    else:
        index = TimeIndex.decode(data, metadata.start_offset, name=name)
        last_offset = index.last_entry.offset
    if len(index) > entries_max:
        raise CorruptFileError(f"{name}: {len(index)} entries, for a log of {metadata.segment_size_in_bytes} bytes")
    if last_offset > metadata.end_offset:
        raise CorruptFileError(
            f"{name}: its last entry has offset {last_offset}, the segment ends at {metadata.end_offset}"
        )
    return index


def _check_transactions(entries: Iterable[AbortedTransaction], metadata: RemoteLogSegmentMetadata, name: str) -> None:
    """CorruptFileError unless each could have been aborted by a marker of this segment: entries have no CRC, and a
    wrong one would show what was aborted.
    """
    for each in entries:
        is_here = metadata.start_offset <= each.last_offset <= metadata.end_offset
        if each.producer_id < 0 or not is_here or not 0 <= each.first_offset <= each.last_offset:
            raise CorruptFileError(
                f"{name}: {each} is not a transaction that ended in [{metadata.start_offset}, {metadata.end_offset}]"
            )
        if each.last_stable_offset > each.last_offset + 1:
            raise CorruptFileError(f"{name}: the last stable offset of {each} is above its end")

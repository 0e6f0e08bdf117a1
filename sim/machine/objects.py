"""The object store that all simulated brokers share: the plugins' own code over objects in memory that fail and lie.

Each broker gets a `StreamingObjectStorage`, as of the `s3` plugin, over its own way to the one store.

| fault                    | what happens                                                                         |
|--------------------------|--------------------------------------------------------------------------------------|
| latency                  | always: a delay, plus the size at `bytes_per_s`; `slow_factor` multiplies            |
| `slow_s`                 | each call takes about that much longer                                               |
| `calls_per_s`            | calls above that rate fail with SlowDown, nothing happened                           |
| `short_answer_share`     | a download ends before its announced size: the driver fails, or, of a `.log` object, |
|                          | half of the time returns what it has                                                 |
| no bucket (`is_gone`)    | every call is refused: the bucket does not exist                                     |
| `error_share`            | the call fails, nothing happened                                                     |
| `lost_reply_share`       | the call fails, and it happened                                                      |
| `half_upload_share`      | the call fails, and leaves an unfinished part, which only `discard_unfinished` takes |
| `hung_upload_s`          | half of the uploads are answered that much later, and have their effect then, also   |
|                          | if the caller has given up, or has died                                              |
| outage (`is_out`)       | every call fails, after a delay                                                      |
| `corrupt_share`           | a download has one wrong bit; that of a transaction index never                      |
| `list_delay_s`           | a listing does not show what was put or deleted within that time                     |
| the caller dies          | its upload leaves an unfinished part                                                 |
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from random import Random
from typing import Final

from ...light_dataclass import dataclass
from ...plugins import ObjectRemoteStorage, ObjectTooLargeError, StorageConfig, StreamingObjectStorage
from ...remote import (
    IndexType,
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RemoteStorageRefusedError,
    SegmentSource,
)
from .chance import exponential
from .network import Network
from .process import Process, current_process
from .store_events import ObjectRemoved, StoreEvent, Uploaded, UploadStarted

LATENCY_S: Final = 0.010
JITTER_S: Final = 0.010
BYTES_PER_S: Final = 100e6
PIECE_BYTES: Final = 1024 * 1024
HUNG_SHARE: Final = 0.5
RESERVE_S: Final = 0.5
LOG_SUFFIX: Final = ".log"
UNCHECKED_SUFFIX: Final = f".{IndexType.TRANSACTION.value}"
"""The suffix of objects that are never corrupted: Kafka's format would not show a wrong producer id."""


@dataclass(slots=True)
class StoreFaults:
    """Shares of calls, each from 0 to 1."""

    error_share: float = 0.0
    lost_reply_share: float = 0.0
    half_upload_share: float = 0.0
    hung_upload_s: float = 0.0
    corrupt_share: float = 0.0
    slow_factor: float = 1.0
    list_delay_s: float = 0.0
    slow_s: float = 0.0
    calls_per_s: float = 0.0
    short_answer_share: float = 0.0
    is_out: bool = False
    is_gone: bool = False

    def heal(self) -> None:
        self.error_share = self.lost_reply_share = self.half_upload_share = self.list_delay_s = 0.0
        self.hung_upload_s = self.corrupt_share = self.slow_s = self.calls_per_s = self.short_answer_share = 0.0
        self.slow_factor, self.is_out, self.is_gone = 1.0, False, False


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of a listing: when it shows the object, or no longer does."""

    at_s: float
    size: int | None


class SimObjectStore:
    """`objects` by key, for checkers; `unfinished` are parts that uploads have left."""

    def __init__(self, network: Network, rng: Random, counters: Counter[str]) -> None:
        self.objects: dict[str, bytes] = {}
        self.unfinished: dict[str, bytes] = {}
        self.put_ever: set[str] = set()
        """Keys of all objects that there ever were."""
        self._deleted: set[str] = set()
        """Keys that were asked to be deleted, whether there was an object or not."""
        self._late: dict[str, Process | None] = {}
        """The process that put an object after its deletion; None if no process waited for that upload any longer."""
        self._awaited: set[str] = set()
        """Keys of uploads that hang while a process waits for them."""
        self.subscribers: list[Callable[[StoreEvent], None]] = []
        self.uploads = 0
        """Uploads that were begun."""
        self.runs = 0
        """Downloads of several pieces that have come whole."""
        self.faults = StoreFaults()
        self.network = network
        self.rng = rng
        self.counters = counters
        self._allowed_at_s = 0.0
        """When the next call is within the rate."""
        self._listed: dict[str, int] = {}
        self._unlisted: dict[str, _Change] = {}
        """Changes that listings do not show yet."""

    def storage(self, host: str, config: StorageConfig | None = None) -> ObjectRemoteStorage:
        """The tier as the broker of that host sees it."""
        return StreamingObjectStorage(_Way(self, host), config or StorageConfig())

    def put(self, key: str, data: bytes, uploader: Process | None = None) -> None:
        """`uploader` will be notified that it is there."""
        self.objects[key] = data
        self.put_ever.add(key)
        if key in self._deleted:
            self._late[key] = uploader
        self._change_listing(key, len(data))

    async def put_late(self, key: str, data: bytes, delay_s: float) -> None:
        """Put the object after `delay_s`, even if no process waits for it any longer."""
        self._awaited.add(key)
        uploader = current_process.get()
        self.network.loop.call_later(delay_s, self._arrive, key, data, uploader, context=self.network.context)
        try:
            await asyncio.sleep(delay_s)
        finally:
            self._awaited.discard(key)

    @property
    def has_late_uploads(self) -> bool:
        """Whether a process waits for an upload that takes long."""
        return bool(self._awaited)

    def _arrive(self, key: str, data: bytes, uploader: Process | None) -> None:
        self.put(key, data, uploader if key in self._awaited else None)

    def is_orphan(self, key: str) -> bool:
        """Whether nobody can know of this object: it was put when it had been deleted already, for somebody who had
        given up on it by then, or has died since. Who lives on deletes it.
        """
        if key not in self._late:
            return False
        uploader = self._late[key]
        return uploader is None or uploader.is_dead

    def is_above_rate(self) -> bool:
        """Whether a call now is one too many, with half a second's calls in reserve; it counts if it is not."""
        if not self.faults.calls_per_s:
            return False
        now_s, gap_s = self.network.loop.time(), 1 / self.faults.calls_per_s
        if self._allowed_at_s > now_s + RESERVE_S:
            return True
        self._allowed_at_s = max(self._allowed_at_s, now_s) + gap_s
        return False

    def remove(self, key: str) -> None:
        self._deleted.add(key)
        if self.objects.pop(key, None) is not None:
            self._change_listing(key, None)
            self.publish(ObjectRemoved(key))

    def publish(self, event: StoreEvent) -> None:
        for subscriber in self.subscribers:
            subscriber(event)

    def listing(self) -> list[tuple[str, int]]:
        """(key, size) as a listing shows them now, sorted."""
        now_s = self.network.loop.time()
        for key, change in [(key, change) for key, change in self._unlisted.items() if change.at_s <= now_s]:
            del self._unlisted[key]
            if change.size is None:
                self._listed.pop(key, None)
            else:
                self._listed[key] = change.size
        return sorted(self._listed.items())

    @property
    def listed_at_s(self) -> float:
        """When a listing shows all that has been put or deleted until now."""
        return max((change.at_s for change in self._unlisted.values()), default=0.0)

    def _change_listing(self, key: str, size: int | None) -> None:
        self._unlisted[key] = _Change(self.network.loop.time() + self.faults.list_delay_s, size)


class _Way:
    """The store through the eyes of one host: `plugins.object_storage.StreamingObjectStore`."""

    def __init__(self, store: SimObjectStore, host: str) -> None:
        self._store = store
        self._host = host

    async def put(self, key: str, source: SegmentSource) -> None:
        store, parts, size = self._store, [], 0
        store.uploads += 1
        upload = store.uploads
        store.publish(UploadStarted(upload, self._host, key))
        await self._begin("put")
        store.unfinished[key] = b""
        while size < source.size:
            part = await source.read(size, min(PIECE_BYTES, source.size - size))
            if not part:
                raise RemoteStorageError(f"{key}: its source ends at byte {size} of {source.size}")
            parts.append(part)
            size += len(part)
            await self._delay(len(part))
        if self._hits("half upload", store.faults.half_upload_share):
            raise RemoteStorageError(f"{key}: the upload broke off (injected)")
        store.unfinished.pop(key, None)
        data = b"".join(parts)
        store.publish(Uploaded(upload, self._host, key, data))
        if store.faults.hung_upload_s and self._hits("hung upload", HUNG_SHARE):
            await store.put_late(key, data, store.faults.hung_upload_s)
        else:
            store.put(key, data, current_process.get())
        self._lose_reply("put", key)

    async def get(self, key: str, start: int, end: int) -> bytes:
        return await self._arrived(key, (await self._found(key))[start:end])

    async def get_pieces(self, key: str, start: int, end: int, piece_bytes: int) -> AsyncGenerator[bytes, None]:
        found = (await self._found(key))[start:end]
        for position in range(0, len(found), piece_bytes):
            yield await self._arrived(key, found[position : position + piece_bytes])
        self._store.runs += len(found) > piece_bytes

    async def _found(self, key: str) -> bytes:
        await self._begin("get")
        data = self._store.objects.get(key)
        if data is None:
            raise RemoteResourceNotFoundError(f"{key}: no such object in the tier")
        return data

    async def _arrived(self, key: str, found: bytes) -> bytes:
        """Return what comes of a download, or of a piece of one."""
        await self._delay(len(found))
        if found and self._hits("half answer", self._store.faults.short_answer_share):
            short = self._store.rng.randrange(len(found))
            if key.endswith(LOG_SUFFIX) and self._store.rng.random() < 0.5:
                return found[:short]
            raise RemoteStorageError(f"{key}: {short} of {len(found)} bytes, then the connection ended (injected)")
        if (
            not found
            or key.endswith(UNCHECKED_SUFFIX)
            or not self._hits("rotten download", self._store.faults.corrupt_share)
        ):
            return found
        return self._corrupted(found)

    async def get_whole(self, key: str, size_max: int) -> bytes:
        size_bytes = len(self._store.objects.get(key, b""))
        if size_bytes > size_max:
            raise ObjectTooLargeError(key, size_bytes, size_max)
        return await self.get(key, 0, size_bytes)

    async def size(self, key: str) -> int | None:
        await self._begin("size")
        data = self._store.objects.get(key)
        return None if data is None else len(data)

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            await self._begin("delete")
            self._store.remove(key)
            self._lose_reply("delete", key)

    async def discard_unfinished(self, keys: Sequence[str]) -> None:
        await self._begin("discard")
        for key in keys:
            self._store.unfinished.pop(key, None)

    async def list(self, key_prefix: str, start_after: str = "") -> AsyncIterator[tuple[str, int]]:
        await self._begin("list")
        for key, size in self._store.listing():
            if key.startswith(key_prefix) and key > start_after:
                yield key, size

    async def directories(self, key_prefix: str = "") -> AsyncIterator[str]:
        await self._begin("list")
        below = [key.removeprefix(key_prefix) for key, _ in self._store.listing() if key.startswith(key_prefix)]
        for directory in sorted({key.partition("/")[0] for key in below}):
            yield directory

    async def close(self) -> None:
        """Nothing is held."""

    async def _begin(self, call: str) -> None:
        """The way there, and the faults that strike before anything happened."""
        store = self._store
        await self._delay(0)
        if store.faults.is_out:
            store.counters["store outage"] += 1
            raise RemoteStorageError(f"{call}: the store is down (injected)")
        if store.faults.is_gone:
            store.counters["no bucket"] += 1
            raise RemoteStorageRefusedError(f"{call}: NoSuchBucket (injected)")
        if store.is_above_rate():
            store.counters["store throttled"] += 1
            raise RemoteStorageError(f"{call}: SlowDown (injected)")
        if self._hits("store error", store.faults.error_share):
            raise RemoteStorageError(f"{call}: the store failed (injected)")

    def _corrupted(self, data: bytes) -> bytes:
        rng, changed = self._store.rng, bytearray(data)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return bytes(changed)

    def _lose_reply(self, call: str, key: str) -> None:
        if self._hits("store reply lost", self._store.faults.lost_reply_share):
            raise RemoteStorageError(f"{call} of {key}: no answer (injected)")

    def _hits(self, fault: str, share: float) -> bool:
        if not share or self._store.rng.random() >= share:
            return False
        self._store.counters[fault] += 1
        return True

    async def _delay(self, size: int) -> None:
        store = self._store
        delay_s = LATENCY_S + exponential(store.rng, JITTER_S) + size / BYTES_PER_S
        if store.faults.slow_s and not size:
            delay_s += store.faults.slow_s * store.rng.uniform(0.5, 1.0)
        await asyncio.sleep(delay_s * store.faults.slow_factor)

"""Reading a segment batch by batch: what is held in memory does not depend on what a header claims."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.remote import RemoteStorageCorruptError, scan, segment_scan
from tierfetch.remote.core import RemoteLogSegmentMetadata
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage

from .builders import segment

PIECE_BYTES = 256


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_scan, "SCAN_BYTES", PIECE_BYTES)


def batch(offset: int, size_bytes: int = 10) -> bytes:
    return build_batch([Record(offset, 0, None, Random(offset).randbytes(size_bytes), ())], base_offset=offset)


class Store(MemoryRemoteStorage):
    """Remembers how much was asked for at once, and in all."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = self.total = 0

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        self.largest = max(self.largest, end - start)
        self.total += end - start
        return await super().fetch_log_segment(metadata, start, end)


def stored(log: bytes, *, end_offset: int, size_bytes: int | None = None) -> tuple[Store, RemoteLogSegmentMetadata]:
    metadata = replace(segment(1, 0, end_offset), segment_size_in_bytes=size_bytes or len(log))
    store = Store()
    store.put(metadata, log, {})
    return store, metadata


async def offsets(store: Store, metadata: RemoteLogSegmentMetadata) -> list[int]:
    return [found.header.base_offset async for found in scan(metadata, store)]


async def test_a_batch_that_is_larger_than_a_read_is_checked_in_pieces() -> None:
    log = batch(0) + batch(1, 10 * PIECE_BYTES) + batch(2) + batch(3, 3 * PIECE_BYTES)
    store, metadata = stored(log, end_offset=3)
    assert await offsets(store, metadata) == [0, 1, 2, 3]
    assert store.largest <= PIECE_BYTES
    assert store.total < len(log) + 4 * PIECE_BYTES, "nothing is read again but the beginning of what did not fit"


@pytest.mark.parametrize("at", [70, 3 * PIECE_BYTES, -1])
async def test_a_wrong_byte_anywhere_in_a_large_batch_is_found(at: int) -> None:
    log = bytearray(batch(0, 10 * PIECE_BYTES))
    log[at] ^= 1
    store, metadata = stored(bytes(log), end_offset=0)
    with pytest.raises(RemoteStorageCorruptError, match="CRC-32C"):
        await offsets(store, metadata)


async def test_a_batch_that_claims_more_than_its_segment_has_is_refused_before_it_is_read() -> None:
    forged = bytearray(batch(1, PIECE_BYTES))
    forged[8:12] = (1 << 30).to_bytes(4, "big")
    store, metadata = stored(batch(0) + bytes(forged) + bytes(100 * PIECE_BYTES), end_offset=9)
    with pytest.raises(RemoteStorageCorruptError, match=r"of 1073741836 .*batch at byte 78"):
        await offsets(store, metadata)
    assert store.total <= 2 * PIECE_BYTES


async def test_a_log_that_is_shorter_than_its_metadata_say_ends_in_the_middle_of_a_batch() -> None:
    whole = batch(0, 10 * PIECE_BYTES)
    for kept in (20, 61, PIECE_BYTES, len(whole) - 1):
        store, metadata = stored(whole[:kept], end_offset=0, size_bytes=len(whole))
        with pytest.raises(RemoteStorageCorruptError, match=r"middle of a batch|lacks its last"):
            await offsets(store, metadata)


async def test_a_control_batch_is_given_whole_and_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    marker = EndTransactionMarker(ControlType.ABORT, 0)
    log = bytes(build_end_transaction_batch(marker, producer_id=7, producer_epoch=0, base_offset=0, timestamp_ms=0))
    monkeypatch.setattr(segment_scan, "SCAN_BYTES", 70)
    store, metadata = stored(log, end_offset=0)
    assert [found.data async for found in scan(metadata, store)] == [log]
    monkeypatch.setattr(segment_scan, "CONTROL_BYTES_MAX", len(log) - 1)
    with pytest.raises(RemoteStorageCorruptError, match="a control batch"):
        await offsets(store, metadata)

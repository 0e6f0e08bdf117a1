"""The log of a segment is checked on its way to the tier, in whatever pieces a plugin asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.log.disk import OsDisk
from tierfetch.log.segment.upload_source import BytesSource, FileSource
from tierfetch.protocol.records import BatchHeader, Record, build_batch, iter_batches
from tierfetch.rlm import checked_source
from tierfetch.rlm.checked_source import CheckedSource


def segment(batches: int = 5) -> bytes:
    return b"".join(
        build_batch([Record(offset, 0, None, bytes(40 + offset))], base_offset=offset) for offset in range(batches)
    )


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_source, "CHECK_BYTES", 37)


@pytest.mark.parametrize("count", [1, 50, 131, 10_000])
async def test_whole_batches_pass_in_pieces(count: int) -> None:
    data = segment()
    source = CheckedSource("s", BytesSource(data))
    pieces = [await source.read(position, count) for position in range(0, source.size, count)]
    await source.finish()
    assert b"".join(pieces) == data


@pytest.mark.parametrize("place", [30, 100, -5])
@pytest.mark.parametrize("order", [1, -1])
async def test_damage_fails_the_read_that_passes_it_or_one_before(place: int, order: int) -> None:
    source = CheckedSource("s", BytesSource(flipped(segment(), place)))

    async def read_all() -> None:
        for position in list(range(0, source.size, 64))[::order]:
            await source.read(position, 64)

    with pytest.raises(OSError, match="damaged, and is not copied"):
        await read_all()


async def test_damage_fails_the_same_read_again() -> None:
    source = CheckedSource("s", BytesSource(flipped(segment(), 200)))
    for _ in range(2):
        with pytest.raises(OSError, match=r"batch at byte 108.*damaged"):
            await source.read(0, 500)


async def test_a_batch_of_many_pieces_is_looked_at_once_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    data = build_batch([Record(0, 0, None, bytes(3_000))], base_offset=0) + segment(1)
    looked_at: list[int] = []

    def look(buffer: bytearray) -> Iterator[tuple[int, BatchHeader]]:
        looked_at.append(len(buffer))
        return iter_batches(buffer)

    monkeypatch.setattr(checked_source, "iter_batches", look)
    source = CheckedSource("s", BytesSource(data))
    assert await source.read(0, source.size) == data
    await source.finish()
    assert len(looked_at) <= 4


async def test_a_piece_asked_for_again_is_passed_again() -> None:
    data = segment()
    source = CheckedSource("s", BytesSource(data))
    assert await source.read(0, 100) == await source.read(0, 100) == data[:100]
    assert await source.read(50, 100) == data[50:150]
    await source.finish()


async def test_a_file_that_is_copied_without_a_read_is_checked_afterwards(tmp_path: Path) -> None:
    disk, path = OsDisk(), tmp_path / "0.log"
    path.write_bytes(flipped(segment(), 200))
    file = await disk.open(path)
    source = CheckedSource("s", FileSource(file, path.stat().st_size))
    assert source.path == path
    with pytest.raises(OSError, match="damaged, and is not copied"):
        await source.finish()
    await file.close()
    await disk.close()


@pytest.mark.parametrize("end", [-1, 20])
async def test_what_was_not_asked_for_is_checked_at_the_end_and_an_incomplete_batch_is_damage(end: int) -> None:
    with pytest.raises(OSError, match="no whole batch"):
        await CheckedSource("s", BytesSource(segment()[:end])).finish()
    with pytest.raises(OSError, match="CRC"):
        await CheckedSource("s", BytesSource(flipped(segment(), 200))).finish()

"""The table of interrupted swaps: by hand, what a crash leaves, and what the next start makes of it."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.log.segment.swap import finish_swaps
from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.tests.fakes.disk import Effect, MemoryDisk
from tierfetch.tests.log.logs import DIRECTORY, data_batch

LOG, INDEX, TIMES, ABORTED = ".log", ".index", ".timeindex", ".txnindex"
OLD = {f"{base}{suffix}": b"old" for base in (0, 10, 20) for suffix in (LOG, INDEX, TIMES)} | {f"0{ABORTED}": b"old"}
NEW = bytes(data_batch(1, base_offset=3) + data_batch(1, base_offset=12))
"""Offsets 3 and 12, of segments 0 and 10."""


def name(short: str) -> str:
    base, _, rest = short.partition(".")
    return f"{int(base):020d}.{rest}"


async def after(files: dict[str, bytes]) -> tuple[bool, dict[str, bytes]]:
    """Whether something was finished, and what is there then."""
    disk = MemoryDisk()
    for short, content in files.items():
        disk.put(DIRECTORY / name(short), content)
    finished = await finish_swaps(disk, DIRECTORY, await disk.list_directory(DIRECTORY))
    left = disk.restart().files(DIRECTORY)
    return finished, {path.name: content for path, content in left.items()}


def named(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name(short): content for short, content in files.items()}


async def test_nothing_interrupted_is_nothing_to_do() -> None:
    assert await after(OLD) == (False, named(OLD))


async def test_what_was_not_committed_is_removed() -> None:
    cleaned = {f"0{suffix}.cleaned": NEW for suffix in (LOG, INDEX, TIMES, ABORTED)}
    assert await after(OLD | cleaned) == (False, named(OLD))


async def test_what_was_renamed_in_part_is_removed() -> None:
    part = {"0.log.swap": NEW, "0.index.cleaned": b"new", "0.timeindex.cleaned": b"new"}
    assert await after(OLD | part) == (False, named(OLD))


async def test_a_later_swap_is_undone_with_an_earlier_one_that_was_not_committed() -> None:
    """A segment that Kafka splits: all of its parts count, or none."""
    part = {"10.log.swap": NEW, "0.log.cleaned": NEW}
    assert await after(OLD | part) == (False, named(OLD))


async def test_what_was_committed_takes_the_place_of_the_old_ones() -> None:
    swaps = {"0.log.swap": NEW, "0.index.swap": b"new", "0.timeindex.swap": b"new"}
    kept = {"0.log": NEW, "0.index": b"new", "0.timeindex": b"new"}
    kept |= {each: content for each, content in OLD.items() if each.startswith("20")}
    assert await after(OLD | swaps) == (True, named(kept))


async def test_old_ones_are_removed_before_the_new_one_takes_their_names() -> None:
    """However slow the disk is with it: the name of a segment that begins as an old one did would go with that one."""

    async def slow_removals(effect: Effect) -> None:
        for _ in range(20 if effect.operation == "remove" else 0):
            await asyncio.sleep(0)

    disk = MemoryDisk(before_effect=slow_removals)
    for short, content in (OLD | {"0.log.swap": NEW}).items():
        disk.put(DIRECTORY / name(short), content)
    assert await finish_swaps(disk, DIRECTORY, await disk.list_directory(DIRECTORY))
    left = {path.name: content for path, content in disk.restart().files(DIRECTORY).items()}
    kept = {"0.log": NEW} | {each: content for each, content in OLD.items() if each.startswith("20")}
    assert left == named(kept)


async def test_an_emptied_segment_takes_the_place_of_its_own() -> None:
    swaps = {"10.log.swap": b"", "10.index.swap": b"", "10.timeindex.swap": b""}
    kept = OLD | {"10.log": b"", "10.index": b"", "10.timeindex": b""}
    assert await after(OLD | swaps) == (True, named(kept))


async def test_indexes_follow_a_log_that_is_live_already() -> None:
    files = {"0.log": NEW, "0.index.swap": b"new", "0.timeindex.swap": b"new", "0.txnindex.swap": b"new"}
    kept = {"0.log": NEW, "0.index": b"new", "0.timeindex": b"new", "0.txnindex": b"new"}
    assert await after(files) == (True, named(kept))


@pytest.mark.parametrize("damage", [NEW[:-1], NEW[:30], NEW[:70] + b"\xff" + NEW[71:]])
async def test_nothing_goes_for_a_new_segment_that_is_not_whole(damage: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        await after(OLD | {"0.log.swap": damage})

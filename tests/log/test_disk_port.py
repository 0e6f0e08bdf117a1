"""The rules of the `Disk` port, on every implementation."""

from __future__ import annotations

import asyncio
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.log.core import CorruptFileError
from tierfetch.log.disk import DirectoryEntry, Disk, OsDisk
from tierfetch.tests.fakes.disk import MemoryDisk


@pytest.fixture(params=["memory", "os"])
async def disk(request, tmp_path):
    if request.param == "memory":
        made = MemoryDisk()
        await made.make_directory(tmp_path)
        yield made
    else:
        made = OsDisk()
        yield made
        await made.close()


async def test_calls_on_one_file_take_effect_in_order_though_nobody_waits(disk: Disk, tmp_path: Path):
    file = await disk.open(tmp_path / "a", create=True)
    calls = [asyncio.ensure_future(file.write(3 * i, b"%03d" % i)) for i in range(50)]
    calls += [asyncio.ensure_future(file.write(3 * i, b"new")) for i in range(10)]
    calls.append(asyncio.ensure_future(file.truncate(120)))
    calls.append(asyncio.ensure_future(file.write(120, b"end")))
    read = asyncio.ensure_future(file.read(0, 1000))
    size = asyncio.ensure_future(file.size())
    await asyncio.gather(*calls)
    assert await read == b"new" * 10 + b"".join(b"%03d" % i for i in range(10, 40)) + b"end"
    assert await size == 123
    await file.close()


async def test_reads_give_what_is_there(disk: Disk, tmp_path: Path):
    file = await disk.open(tmp_path / "a", create=True)
    await file.write(4, memoryview(bytearray(b"tail")))
    assert await file.read(0, 8) == b"\0\0\0\0tail"
    assert await file.read(6, 100) == b"il"
    assert await file.read(8, 1) == b""
    assert await file.read(100, 1) == b""
    assert await file.read(0, 0) == b""
    await file.sync()
    assert file.path == tmp_path / "a"
    await file.close()
    await file.close()


async def test_an_absent_file_is_not_made_unless_asked(disk: Disk, tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="absent"):
        await disk.open(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match="absent"):
        await disk.read_file(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match="absent"):
        await disk.open(tmp_path / "absent" / "a", create=True)
    await disk.remove(tmp_path / "absent")
    await disk.remove_tree(tmp_path / "absent")
    assert not await disk.exists(tmp_path / "absent")


async def test_write_file_replaces_and_leaves_nothing_beside(disk: Disk, tmp_path: Path):
    await disk.write_file(tmp_path / "a", b"one")
    await disk.write_file(tmp_path / "a", bytearray(b"two"), sync=False)
    assert await disk.read_file(tmp_path / "a") == b"two"
    assert await disk.list_directory(tmp_path) == [DirectoryEntry("a", is_directory=False, size=3)]


async def test_a_directory_is_written_with_its_files(disk: Disk, tmp_path: Path):
    files = {"b": b"two", "a": memoryview(b"one"), "empty": b""}
    await disk.write_directory(tmp_path / "new" / "made", files)
    assert await disk.list_directory(tmp_path / "new") == [DirectoryEntry("made", is_directory=True, size=0)]
    assert await disk.list_directory(tmp_path / "new" / "made") == [
        DirectoryEntry("a", is_directory=False, size=3),
        DirectoryEntry("b", is_directory=False, size=3),
        DirectoryEntry("empty", is_directory=False, size=0),
    ]
    assert await disk.read_file(tmp_path / "new" / "made" / "a") == b"one"
    with pytest.raises(FileNotFoundError, match="absent"):
        await disk.write_directory(tmp_path / "new" / "made", {"absent/c": b""})


async def test_the_last_of_several_replacements_at_once_wins(disk: Disk, tmp_path: Path):
    await asyncio.gather(*(disk.write_file(tmp_path / "a", b"%d" % i, sync=False) for i in range(20)))
    assert await disk.read_file(tmp_path / "a") == b"19"


async def test_directories(disk: Disk, tmp_path: Path):
    await disk.make_directory(tmp_path / "x" / "y")
    await disk.make_directory(tmp_path / "x" / "y")
    await disk.write_file(tmp_path / "x" / "b", b"12")
    await disk.write_file(tmp_path / "x" / "a", b"1")
    assert await disk.list_directory(tmp_path / "x") == [
        DirectoryEntry("a", is_directory=False, size=1),
        DirectoryEntry("b", is_directory=False, size=2),
        DirectoryEntry("y", is_directory=True, size=0),
    ]
    await disk.sync_directory(tmp_path / "x")
    await disk.rename(tmp_path / "x", tmp_path / "z")
    assert not await disk.exists(tmp_path / "x")
    assert await disk.read_file(tmp_path / "z" / "b") == b"12"
    await disk.remove_tree(tmp_path / "z")
    assert not await disk.exists(tmp_path / "z")
    for missing in (disk.list_directory, disk.sync_directory):
        with pytest.raises(FileNotFoundError, match="z"):
            await missing(tmp_path / "z")


async def test_rename_replaces_a_file_or_an_empty_directory_only(disk: Disk, tmp_path: Path):
    await disk.write_file(tmp_path / "a", b"a")
    await disk.write_file(tmp_path / "b", b"b")
    await disk.rename(tmp_path / "a", tmp_path / "b")
    assert await disk.read_file(tmp_path / "b") == b"a"
    for name in ("empty", "full", "source"):
        await disk.make_directory(tmp_path / name)
    await disk.write_file(tmp_path / "full" / "f", b"")
    with pytest.raises(OSError, match="full"):
        await disk.rename(tmp_path / "source", tmp_path / "full")
    await disk.rename(tmp_path / "source", tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="source"):
        await disk.rename(tmp_path / "source", tmp_path / "elsewhere")


async def test_open_handles_stay_readable_when_the_name_is_gone(disk: Disk, tmp_path: Path):
    file = await disk.open(tmp_path / "a", create=True)
    await file.write(0, b"data")
    await disk.remove(tmp_path / "a")
    assert await file.read(0, 4) == b"data"
    assert not await disk.exists(tmp_path / "a")
    await file.close()


async def test_D3_what_was_synced_is_there_without_the_page_cache(disk: Disk, tmp_path: Path):
    file = await disk.open(tmp_path / "a", create=True)
    await file.write(0, b"data")
    await file.sync()
    await file.write(4, b" more")
    await file.drop_cache()
    assert await file.read(0, 9) == b"data more"
    await file.close()


async def test_a_closed_file_refuses_by_name(disk: Disk, tmp_path: Path):
    file = await disk.open(tmp_path / "a", create=True)
    write = asyncio.ensure_future(file.write(0, b"x"))
    await asyncio.sleep(0)
    await file.close()
    await write
    for call in (file.write(0, b"y"), file.read(0, 1), file.sync(), file.truncate(0), file.size()):
        with pytest.raises(OSError, match=r"closed.*a'"):
            await call
    assert await disk.read_file(tmp_path / "a") == b"x"


async def test_space(disk: Disk, tmp_path: Path):
    space = await disk.space(tmp_path)
    assert 0 < space.usable_bytes <= space.total_bytes


Calls = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 40), st.integers(0, 20)),
        st.tuples(st.just("read"), st.integers(0, 50), st.integers(0, 30)),
        st.tuples(st.just("truncate"), st.integers(0, 50)),
        st.tuples(st.just("size")),
        st.tuples(st.just("sync")),
    ),
    max_size=25,
)


def expected(calls) -> list[object]:
    """What each call gives if one takes effect after the other."""
    content, outcomes = bytearray(), []
    for number, (name, *arguments) in enumerate(calls):
        outcome: object = None
        if name == "write":
            offset, size = arguments
            content.extend(bytes(max(0, offset - len(content)) if size else 0))
            content[offset : offset + size] = bytes([number]) * size
        elif name == "truncate":
            (size,) = arguments
            content.extend(bytes(max(0, size - len(content))))
            del content[size:]
        elif name == "read":
            offset, size = arguments
            outcome = bytes(content[offset : offset + size])
        elif name == "size":
            outcome = len(content)
        outcomes.append(outcome)
    return outcomes


async def outcomes_at_once(disk: Disk, path: Path, calls) -> list[object]:
    """Make all the calls, and only then wait for any."""
    file = await disk.open(path, create=True)
    made = []
    for number, (name, *arguments) in enumerate(calls):
        if name == "write":
            offset, size = arguments
            made.append(file.write(offset, bytes([number]) * size))
        else:
            made.append(getattr(file, name)(*arguments))
    outcomes = await asyncio.gather(*made)
    await file.close()
    return outcomes


@pytest.mark.parametrize("kind", [MemoryDisk, OsDisk])
def test_calls_that_nobody_waits_for_do_as_if_each_had_been_waited_for(kind):
    numbers = count()
    with tempfile.TemporaryDirectory() as name, asyncio.Runner() as runner:
        disk = kind()
        runner.run(disk.make_directory(Path(name)))

        @settings(max_examples=60)
        @given(Calls)
        def check(calls):
            path = Path(name) / str(next(numbers))
            assert runner.run(outcomes_at_once(disk, path, calls)) == expected(calls)

        check()
        if isinstance(disk, OsDisk):
            assert disk.queue_depth == 0
            runner.run(disk.close())


async def test_a_write_that_was_begun_goes_on_without_anybody_who_waits(disk: Disk, tmp_path: Path):
    file = await disk.open(tmp_path / "a", create=True)
    written = [asyncio.ensure_future(file.begin_write(3 * i, b"%03d" % i)) for i in range(10)]
    await written[-1]
    assert all(each.done() for each in written)
    assert await file.read(0, 100) == b"".join(b"%03d" % i for i in range(10))
    await file.close()
    with pytest.raises(OSError, match="closed"):
        await file.begin_write(0, b"x")


async def test_a_read_at_once_waits_for_nothing(disk: Disk, tmp_path: Path):
    file = await disk.open(tmp_path / "a", create=True)
    await file.write(0, b"before")
    assert file.read_at_once(0, 6) in (b"before", None)
    change = asyncio.ensure_future(file.begin_write(2, b"later"))
    assert file.read_at_once(0, 3) is None
    assert file.read_at_once(0, 2) in (b"be", None)
    await change
    assert file.read_at_once(0, 9) in (b"belater", None)
    await file.close()
    assert file.read_at_once(0, 2) is None


async def test_a_file_that_is_too_large_is_not_read(disk: Disk, tmp_path: Path):
    path = tmp_path / "checkpoint"
    await disk.write_file(path, bytes(100))
    assert await disk.read_file(path, size_max=100) == bytes(100)
    with pytest.raises(CorruptFileError, match=f"{path}: 100 bytes, where a file of this name has at most 99"):
        await disk.read_file(path, size_max=99)

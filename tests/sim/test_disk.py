"""The simulated disk: in order as the port demands, lossy as real disks are, and failing where it is told to."""

from __future__ import annotations

import asyncio
import errno
import inspect
from collections import Counter
from collections.abc import Coroutine
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given

from tierfetch.sim.machine.disk import SimDisk
from tierfetch.sim.machine.filesystem import SimFilesystem
from tierfetch.sim.machine.loop import make_loop
from tierfetch.sim.machine.pipe import Pipe
from tierfetch.tests.log import test_disk_port as port
from tierfetch.tests.sim.disks import sim_disk

DATA = Path("/data")
FILE = DATA / "a"
PORT_RULES = [
    rule for name, rule in vars(port).items() if name.startswith("test_") and inspect.iscoroutinefunction(rule)
]


def run(work: Coroutine[Any, Any, Any]) -> Any:
    loop = make_loop(Random(1))
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


async def made(seed: int = 1, files: SimFilesystem | None = None) -> SimDisk:
    disk = sim_disk(seed, files)
    await disk.make_directory(DATA)
    return disk


@pytest.mark.parametrize("rule", PORT_RULES)
def test_rules_of_the_port(rule):
    async def work():
        disk = await made()
        await rule(disk, DATA)

    run(work())


def test_calls_that_nobody_waits_for_do_as_if_each_had_been_waited_for():
    numbers = count()

    @given(port.Calls)
    @example([("write", 18, 9), ("truncate", 3), ("read", 26, 3), ("truncate", 30)])
    @example([("write", 0, 9), ("read", 8, 4), ("write", 20, 1)])
    def check(calls):
        async def work():
            disk = await made(seed=next(numbers))
            assert await port.outcomes_at_once(disk, FILE, calls) == port.expected(calls)
            assert disk.queue_depth == 0
            assert not disk.queues

        run(work())

    check()


def test_files_overtake_each_other_and_one_file_keeps_its_order():
    async def work():
        disk = await made()
        order = []
        files = [await disk.open(DATA / name, create=True) for name in "abc"]

        async def write(name, number):
            await files[name].write(number, b"x")
            order.append((name, number))

        await asyncio.gather(*(write(name, number) for number in range(20) for name in range(3)))
        return order

    order = run(work())
    for name in range(3):
        assert [number for owner, number in order if owner == name] == list(range(20))
    assert [owner for owner, _ in order] != [0, 1, 2] * 20


async def written(disk: SimDisk) -> None:
    """Three bytes durable with their name, then two writes that are not."""
    file = await disk.open(FILE, create=True)
    await file.write(0, b"abc")
    await file.sync()
    await disk.sync_directory(DATA)
    await disk.sync_directory(DATA.parent)
    await file.write(3, b"defg")
    await file.write(7, b"hij")


def after_power_failure(seed: int) -> bytes:
    files = SimFilesystem()

    async def work():
        disk = await made(files=files)
        await written(disk)
        disk.crash()

    run(work())
    files.lose_power(Random(seed))
    return bytes(files.inode(FILE).content)


def test_a_machine_crash_keeps_what_was_synced_and_by_chance_more():
    found = Counter(after_power_failure(seed) for seed in range(200))
    assert all(content.startswith(b"abc") for content in found)
    assert found[b"abc"] > 20, "all lost"
    assert found[b"abcdefghij"] > 5, "all kept"
    assert found[b"abcde"] > 0, "the first write torn"
    assert found[b"abcdefgh"] > 0, "the last write torn"
    assert found[b"abc\0\0\0\0h"] > 0, "the last write without the one before it"


def test_a_process_crash_keeps_what_took_effect():
    files = SimFilesystem()

    async def work():
        disk = await made(files=files)
        await written(disk)
        file = await disk.open(FILE)
        writes = [asyncio.ensure_future(file.write(10 + number, b"+")) for number in range(10)]
        await asyncio.sleep(0)
        disk.crash()
        await asyncio.sleep(1)
        assert not any(write.done() for write in writes)

    run(work())
    content = bytes(files.inode(FILE).content)
    assert content.startswith(b"abcdefghij")
    assert content.strip(b"+") == b"abcdefghij"
    assert len(content) < 20, "the queue was cut off"


def test_names_that_were_not_synced_survive_in_their_order_or_not():
    def survivors(seed: int) -> tuple[str, ...]:
        files = SimFilesystem()

        async def work():
            disk = await made(files=files)
            await disk.sync_directory(DATA.parent)
            for name in "abc":
                await (await disk.open(DATA / name, create=True)).sync()

        run(work())
        files.lose_power(Random(seed))
        return tuple(entry.name for entry in files.entries(DATA))

    found = {survivors(seed) for seed in range(60)}
    assert found == {(), ("a",), ("a", "b"), ("a", "b", "c")}


def test_a_sync_makes_durable_what_was_there_when_it_began():
    async def work():
        disk = await made()
        file = await disk.open(FILE, create=True)
        await file.write(0, b"before")
        sync = asyncio.ensure_future(file.sync())
        await asyncio.sleep(0)
        await file.write(6, b"after")
        assert not sync.done(), "an append does not wait for a sync"
        await sync
        return bytes(disk.files.inode(FILE).durable)

    assert run(work()) == b"before"


def test_syncs_that_wait_share_one():
    async def work():
        disk = await made()
        file = await disk.open(FILE, create=True)
        await file.write(0, b"x")
        operations = disk.operations
        await asyncio.gather(*(file.sync() for _ in range(50)))
        return disk.operations - operations

    assert run(work()) == 2


def test_a_failed_write_takes_with_it_what_was_queued_behind():
    async def work():
        disk = await made()
        file = await disk.open(FILE, create=True)
        await file.write(0, b"first")
        disk.faults.fail_calls = {1}
        calls = [file.write(5, b"second"), file.write(11, b"third"), file.sync()]
        errors = [error.errno for error in await asyncio.gather(*calls, return_exceptions=True)]
        await file.write(5, b"again")
        await file.sync()
        return errors, bytes(disk.files.inode(FILE).durable)

    errors, durable = run(work())
    assert errors == [errno.EIO, errno.ECANCELED, errno.ECANCELED]
    assert durable == b"firstagain"


def test_a_failed_sync_poisons_the_file():
    async def work():
        disk = await made()
        file = await disk.open(FILE, create=True)
        await file.write(0, b"x")
        disk.faults.fail_calls = {1}
        for call in (file.sync, file.sync, lambda: file.write(1, b"y")):
            with pytest.raises(OSError, match="a'"):
                await call()
        assert await file.read(0, 5) == b"x"

    run(work())


def test_each_handle_is_told_of_a_failed_sync_by_its_own_next_one():
    async def work():
        disk = await made()
        one = await disk.open(FILE, create=True)
        other = await disk.open(FILE)
        await one.write(0, b"x")
        disk.faults.fail_calls = {1}
        with pytest.raises(OSError, match="injected into sync"):
            await one.sync()
        later = await disk.open(FILE)
        await other.write(1, b"y")
        for call, why in ((other.sync, "another handle"), (other.sync, "rejected"), (one.sync, "rejected")):
            with pytest.raises(OSError, match=why) as told:
                await call()
            assert told.value.errno == errno.EIO
        await later.write(2, b"z")
        await later.sync()
        assert bytes(disk.files.inode(FILE).durable)[1:] == b"yz", "what was written since is there"

    run(work())


def test_handles_that_share_a_failed_sync_are_told_alike():
    async def work():
        disk = await made()
        one = await disk.open(FILE, create=True)
        other = await disk.open(FILE)
        await one.write(0, b"x")
        first = asyncio.ensure_future(one.sync())
        await asyncio.sleep(0)
        disk.faults.fail_calls = {1}
        calls = [asyncio.ensure_future(each.sync()) for each in (one, other)]
        results = await asyncio.gather(first, *calls, return_exceptions=True)
        assert [result is None for result in results] == [True, False, False]
        for each in (one, other):
            with pytest.raises(OSError, match="rejected"):
                await each.write(1, b"y")

    run(work())


def test_a_full_disk_refuses_what_grows():
    async def work():
        disk = await made()
        file = await disk.open(FILE, create=True)
        await file.write(0, b"12345678")
        disk.files.capacity_bytes = 10
        with pytest.raises(OSError, match="No space") as full:
            await file.write(8, b"9abc")
        assert full.value.errno == errno.ENOSPC
        await file.write(0, b"rewritten")
        assert (await disk.space(DATA)).usable_bytes <= 1

    run(work())


def test_a_stalled_sync_ends_after_the_stall_and_nothing_else_waits():
    async def work():
        loop = asyncio.get_running_loop()
        disk = await made()
        file = await disk.open(FILE, create=True)
        disk.faults.stalled_until_s = loop.time() + 2
        sync = asyncio.ensure_future(file.sync())
        await asyncio.sleep(0)
        await file.write(0, b"x")
        assert loop.time() < 1
        await sync
        assert 2 <= loop.time() < 2.1

    run(work())


def test_a_hung_disk_answers_from_the_page_cache_alone():
    async def work():
        loop = asyncio.get_running_loop()
        disk = await made()
        file = await disk.open(FILE, create=True)
        await file.write(0, b"x")
        disk.faults.hung_until_s = loop.time() + 2
        calls = [file.write(1, b"y"), file.sync(), disk.write_file(DATA / "b", b""), disk.exists(FILE)]
        done = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(1)
        assert not any(call.done() for call in done)
        await asyncio.gather(*done)
        assert 2 <= loop.time() < 2.1
        assert await file.read(0, 5) == b"xy"

    run(work())


def test_lost_pages_are_read_until_the_file_is_opened_again():
    async def work(seed: int) -> tuple[bytes, list[str]]:
        disk, told = await made(seed), list[str]()
        log, other = DATA / "t-0" / "0.log", DATA / "other"
        await disk.make_directory(log.parent)
        disk.faults.on_pages_given_up = lambda: told.append("given up")
        disk.faults.on_pages_lost = lambda: told.append("lost")
        disk.faults.lost_page_share = 1.0
        file = await disk.open(log, create=True)
        await file.write(0, b"first")
        with pytest.raises(OSError, match="injected into sync"):
            await file.sync()
        assert await file.read(0, 9) == b"first"
        elsewhere = await disk.open(other, create=True)
        await elsewhere.sync()
        return await (await disk.open(log)).read(0, 9), told

    outcomes = [run(work(seed)) for seed in range(8)]
    assert (b"", ["given up", "lost"]) in outcomes
    assert (b"first", []) in outcomes, "the device had taken it"


def test_what_a_failed_sync_gave_up_is_read_and_never_written():
    async def work(seed: int) -> tuple[bytes, bytes]:
        disk = await made(seed)
        file = await disk.open(FILE, create=True)
        await file.write(0, b"first")
        await disk.sync_directory(DATA)
        disk.faults.sync_error_share = 1.0
        with pytest.raises(OSError, match="injected into sync"):
            await file.sync()
        disk.faults.sync_error_share = 0.0
        again = await disk.open(FILE)
        await again.write(5, b"second")
        await again.sync()
        inode = disk.files.inode(FILE)
        assert bytes(inode.content) == b"firstsecond"
        durable = bytes(inode.durable)
        await again.write(0, b"first")
        await again.sync()
        return durable, bytes(inode.durable)

    found = {run(work(seed)) for seed in range(20)}
    assert found == {(b"firstsecond", b"firstsecond"), (b"\0\0\0\0\0second", b"firstsecond")}


def test_pages_that_a_failed_sync_gave_up_leave_the_page_cache_by_chance():
    files = SimFilesystem()

    async def work():
        disk = await made(files=files)
        for number in range(30):
            file = await disk.open(DATA / str(number), create=True)
            await file.write(0, b"x")
            disk.faults.fail_calls = {1}
            with pytest.raises(OSError, match="injected"):
                await file.sync()

    run(work())
    assert {bytes(inode.content) for _, inode in files.walk()} == {b"x"}
    assert files.evict(Random(1))
    assert {bytes(inode.content) for _, inode in files.walk()} == {b"x", b""}
    while files.evict(Random(2)):
        """The others, too."""
    assert {bytes(inode.content) for _, inode in files.walk()} == {b"x", b""}, "half of the pages were written"


def test_bits_that_rot_read_wrong_until_they_are_written_again_or_healed():
    async def work():
        disk = await made()
        await disk.write_file(FILE, b"\0" * 100)
        place = disk.files.corrupt(FILE, Random(3))
        file = await disk.open(FILE)

        async def changed() -> list[int]:
            return [index for index, byte in enumerate(await file.read(0, 100)) if byte]

        assert await changed() == [place]
        assert [index for index, byte in enumerate(await disk.read_file(FILE)) if byte] == [place]
        assert disk.files.is_corrupt
        await file.write(place, b"\0")
        assert await changed() == []
        disk.files.corrupt(FILE, Random(4))
        disk.files.heal()
        assert await changed() == []

    run(work())


def test_written_bytes_of_all_files_pass_the_device_one_after_the_other():
    async def work():
        disk = await made()
        disk.device = Pipe(1e6)
        files = [await disk.open(DATA / name, create=True) for name in ("b", "c")]
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        await asyncio.gather(*(file.write(0, bytes(500_000)) for file in files))
        assert now_s() - began_s == pytest.approx(1.0, rel=0.01)
        began_s = now_s()
        await files[0].read(0, 500_000)
        assert now_s() - began_s < 0.1, "reads do not wait for it"


def test_without_a_descriptor_nothing_opens_and_what_is_open_works() -> None:
    async def work():
        disk = await made()
        file = await disk.open(FILE, create=True)
        disk.faults.open_files_share = 1.0
        await file.write(0, b"x")
        await file.sync()
        assert bytes(await file.read(0, 1)) == b"x"
        for call in (
            disk.open(FILE),
            disk.open(DATA / "new", create=True),
            disk.read_file(FILE),
            disk.write_file(FILE, b"y"),
            disk.list_directory(DATA),
            disk.sync_directory(DATA),
        ):
            with pytest.raises(OSError, match="injected") as caught:
                await call
            assert caught.value.errno == errno.EMFILE
        disk.faults.open_files_share = 0.0
        assert await disk.read_file(FILE) == b"x"

    run(work())

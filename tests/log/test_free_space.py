"""Clients' records are refused before the disk is full, and taken again when there is room."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.log.core.free_space import FreeSpace
from tierfetch.tests.fakes.disk import MemoryDisk
from tierfetch.tests.log.nodes import LOG_DIR, new_manager


def test_it_refuses_below_the_mark_and_takes_again_a_quarter_above_it() -> None:
    space = FreeSpace(100)
    measured = [(usable, space.measured(usable, 0), space.accepts_clients) for usable in (500, 100, 99, 124, 125, 100)]
    assert measured == [
        (500, False, True),
        (100, False, True),
        (99, True, False),
        (124, False, False),
        (125, True, True),
        (100, False, True),
    ]


def test_D5_replicas_leave_half_of_it_and_continue_at_twice_that() -> None:
    space = FreeSpace(100)
    measured = [
        (usable, space.measured(usable, 0), space.accepts_replicas) for usable in (100, 50, 49, 99, 100, 50, 49)
    ]
    assert measured == [
        (100, False, True),
        (50, True, True),  # clients
        (49, True, False),
        (99, False, False),
        (100, True, True),
        (50, False, True),
        (49, True, False),
    ]


def test_D5_what_is_written_between_two_measurements_counts() -> None:
    space = FreeSpace(100)
    assert not space.begin_write(1_000), "nothing is known before the first measurement"
    space.end_write(1_000)
    space.measured(200, space.mark)
    assert (space.begin_write(100), space.accepts_clients) == (False, True)
    assert (space.begin_write(1), space.accepts_clients) == (True, False)
    assert (space.begin_write(1_000), space.accepts_replicas, space.usable_bytes) == (True, False, 0)
    space.end_write(1_101)
    assert space.measured(200, space.mark)
    assert (space.accepts_clients, space.accepts_replicas) == (True, True)


def test_D5_a_measurement_does_not_give_back_what_is_written_meanwhile() -> None:
    space = FreeSpace(100)
    space.measured(1_000, space.mark)
    space.begin_write(300)  # in a queue, while the disk is asked
    mark = space.mark
    space.begin_write(400)
    space.end_write(400)
    space.measured(1_000, mark)
    assert space.usable_bytes == 300
    space.end_write(300)
    space.measured(600, space.mark)
    assert space.usable_bytes == 600


def test_room_for_a_write_is_what_leaves_the_mark_of_clients() -> None:
    space = FreeSpace(100)
    assert space.has_room_for(1 << 60), "nothing is known before the first measurement"
    space.measured(150, 0)
    assert (space.has_room_for(50), space.has_room_for(51)) == (True, False)
    space.measured(99, 0)
    space.measured(124, 0)
    assert not space.has_room_for(1), "produce is still refused"


def test_without_a_mark_nothing_is_refused() -> None:
    space = FreeSpace(0)
    assert not space.measured(0, 0)
    assert space.accepts_clients
    assert space.has_room_for(1)


async def test_D5_a_directory_counts_from_its_opening_on_and_while_its_disk_is_asked() -> None:
    disk = MemoryDisk(capacity_bytes=10_000)
    manager = new_manager(disk, free_bytes_min=4_000)
    await manager.identify()
    await manager.load()
    (directory,) = manager.directories
    usable = directory.free_space.usable_bytes
    assert usable is not None, "the first appends must find the room measured"
    assert 4_000 <= usable <= 10_000
    measuring = asyncio.create_task(directory.measure_space())
    await asyncio.sleep(0)
    with directory.writing(usable - 3_999):
        assert not directory.accepts_clients
        await measuring
        assert not directory.accepts_clients, "the measurement was of the disk before the write"


async def test_a_directory_says_when_it_begins_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk(capacity_bytes=10_000)
    manager = new_manager(disk, free_bytes_min=4_000)
    await manager.identify()
    await manager.load()
    (directory,) = manager.directories
    await manager.upkeep.measure_space()
    assert (directory.accepts_clients, caplog.messages) == (True, [])
    disk.put(LOG_DIR / "large", bytes(7_000))
    await manager.upkeep.measure_space()
    await manager.upkeep.measure_space()
    assert not directory.accepts_clients
    await disk.remove(LOG_DIR / "large")
    await manager.upkeep.measure_space()
    assert directory.accepts_clients
    refused, accepted = caplog.messages
    assert "4000 are needed (log.dir.free.bytes.min)" in refused
    assert "produce is accepted again" in accepted

"""Clients' records are refused before the disk is full, and taken again when there is room."""

from __future__ import annotations

import pytest

from tierfetch.log.core.free_space import FreeSpace
from tierfetch.tests.fakes.disk import MemoryDisk
from tierfetch.tests.log.nodes import LOG_DIR, new_manager


def test_it_refuses_below_the_mark_and_takes_again_a_quarter_above_it() -> None:
    space = FreeSpace(100)
    measured = [(usable, space.measured(usable), space.accepts_clients) for usable in (500, 100, 99, 124, 125, 100)]
    assert measured == [
        (500, False, True),
        (100, False, True),
        (99, True, False),
        (124, False, False),
        (125, True, True),
        (100, False, True),
    ]


def test_D1_replicas_leave_half_of_it_and_continue_at_twice_that() -> None:
    space = FreeSpace(100)
    measured = [(usable, space.measured(usable), space.accepts_replicas) for usable in (100, 50, 49, 99, 100, 50, 49)]
    assert measured == [
        (100, False, True),
        (50, True, True),  # clients
        (49, True, False),
        (99, False, False),
        (100, True, True),
        (50, False, True),
        (49, True, False),
    ]


def test_D1_what_is_written_between_two_measurements_counts() -> None:
    space = FreeSpace(100)
    assert not space.written(1_000), "nothing is known before the first measurement"
    space.measured(200)
    assert (space.written(100), space.accepts_clients) == (False, True)
    assert (space.written(1), space.accepts_clients) == (True, False)
    assert (space.written(1_000), space.accepts_replicas, space.usable_bytes) == (True, False, 0)
    assert space.measured(200)
    assert (space.accepts_clients, space.accepts_replicas) == (True, True)


def test_without_a_mark_nothing_is_refused() -> None:
    space = FreeSpace(0)
    assert not space.measured(0)
    assert space.accepts_clients


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

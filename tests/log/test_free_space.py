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

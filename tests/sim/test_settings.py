"""What faults do to machines."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import Record, build_batch, iter_batches
from tierfetch.sim.faults.settings import CORRUPTIONS_MAX, corrupt
from tierfetch.sim.machine.world import World

from .disks import flushed_up_to

T_0 = Path("/data/t-0")
CLOSED, NEWEST = (T_0 / f"{base:020}.log" for base in (0, 3))


def whole_batches(data: bytes) -> list[bytes]:
    """Up to the first that is damaged."""
    found = []
    with suppress(CorruptRecordError):
        for position, header in iter_batches(data):
            found.append(data[position : position + header.size_bytes])
    return found


def test_nothing_rots_that_the_next_start_may_take_for_torn() -> None:
    with World(1) as world:
        host = world.host("b")
        host.files.make_directory(CLOSED.parent)
        for path in (CLOSED, NEWEST):
            host.files.replace(path, bytes(99), sync=True)
        assert not corrupt(host, Random(1))
        for recovery_point, expected in ((2, 0), (3, CORRUPTIONS_MAX), (9, CORRUPTIONS_MAX)):
            flushed_up_to(host.files, T_0, recovery_point)
            found = corrupt(host, Random(1))
            assert len(found) == expected
            assert all(place.startswith(str(CLOSED)) for place in found)


def test_what_rots_is_never_what_no_checksum_covers() -> None:
    batches = [build_batch([Record(base, 1, None, b"x" * 9)], base_offset=base) for base in range(3)]
    with World(1) as world:
        host = world.host("b")
        host.files.make_directory(CLOSED.parent)
        for path in (CLOSED, NEWEST):
            host.files.replace(path, b"".join(batches), sync=True)
        flushed_up_to(host.files, T_0, 3)
        for seed in range(300):
            assert corrupt(host, Random(seed))
            found = whole_batches(host.files.inode(CLOSED).read())
            assert found == batches[: len(found)]
            assert len(found) < len(batches)
            host.files.heal()

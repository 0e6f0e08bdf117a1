"""What faults do to machines."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import Record, build_batch, iter_batches
from tierfetch.sim.knobs import rot
from tierfetch.sim.world import World

CLOSED, NEWEST = (Path("/data/t-0") / f"{base:020}.log" for base in (0, 3))


def whole_batches(data: bytes) -> list[bytes]:
    """Up to the first that is damaged."""
    found = []
    with suppress(CorruptRecordError):
        for position, header in iter_batches(data):
            found.append(data[position : position + header.size_bytes])
    return found


def test_what_rots_is_never_what_no_checksum_covers() -> None:
    batches = [build_batch([Record(base, 1, None, b"x" * 9)], base_offset=base) for base in range(3)]
    with World(1) as world:
        host = world.host("b")
        host.files.make_directory(CLOSED.parent)
        for path in (CLOSED, NEWEST):
            host.files.replace(path, b"".join(batches), sync=True)
        for seed in range(300):
            assert rot(host, Random(seed))
            found = whole_batches(host.files.inode(CLOSED).read())
            assert found == batches[: len(found)]
            assert len(found) < len(batches)
            host.files.heal()

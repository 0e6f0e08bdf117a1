"""The list of what is to be deleted from the tier: it survives every crash, and damage is said."""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.rlm.pending_deletions import (
    PENDING_DELETIONS_FILE,
    PendingDeletions,
    decode_partitions,
    encode_partitions,
)
from tierfetch.tests.fakes.disk import DiskCrash, FailNth, MemoryDisk, failures

DIRECTORY = Path("/data")
FILE = DIRECTORY / PENDING_DELETIONS_FILE
ONE = TopicIdPartition(uuid.UUID(int=1), "t", 0)
TWO = TopicIdPartition(uuid.UUID(int=2), "a.b_c-d", 7)

partitions = st.lists(
    st.builds(
        TopicIdPartition,
        st.uuids(),
        st.text("abcXYZ0123456789._-", min_size=1, max_size=249).filter(lambda name: name not in {".", ".."}),
        st.integers(0, 2**31 - 1),
    ),
    unique=True,
    max_size=5,
)


@given(partitions)
def test_what_is_written_is_read(listed: list[TopicIdPartition]) -> None:
    assert decode_partitions(encode_partitions(listed)) == listed


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    try:
        assert all(isinstance(each, TopicIdPartition) for each in decode_partitions(data))
    except ValueError:
        return


async def directory() -> MemoryDisk:
    disk = MemoryDisk()
    await disk.make_directory(DIRECTORY)
    await disk.sync_directory(DIRECTORY.parent)
    return disk


async def test_a_change_is_durable_when_it_returns() -> None:
    disk = await directory()
    pending = PendingDeletions(disk, DIRECTORY)
    assert await pending.load() == []
    await pending.add(TWO)
    await pending.add(ONE)
    assert await PendingDeletions(disk.restart(), DIRECTORY).load() == [ONE, TWO]
    await pending.discard(TWO)
    assert await PendingDeletions(disk.restart(), DIRECTORY).load() == [ONE]


async def test_a_crash_at_any_effect_leaves_the_list_before_or_after() -> None:
    for fault in failures(crash=True):
        disk = await directory()
        pending = PendingDeletions(disk, DIRECTORY)
        await pending.load()
        await pending.add(ONE)
        disk.faults = fault
        with suppress(DiskCrash):
            await pending.add(TWO)
        found = await PendingDeletions(disk.restart(), DIRECTORY).load()
        assert found in ([ONE], [ONE, TWO])
        assert fault.fired or found == [ONE, TWO]


async def test_a_write_that_failed_is_made_up_for_by_the_next() -> None:
    disk = await directory()
    pending = PendingDeletions(disk, DIRECTORY)
    await pending.load()
    disk.faults = FailNth(1)
    with pytest.raises(OSError, match="injected"):
        await pending.add(ONE)
    disk.faults = None
    await pending.add(TWO)
    assert await PendingDeletions(disk.restart(), DIRECTORY).load() == [ONE, TWO]


@pytest.mark.parametrize(
    "damage", [b"", b"nonsense", b"0\n2\nx y z\n", b"0\n1\nAAAAAAAAAAAAAAAAAAAAAQ ../up 0\n", bytes(9)]
)
async def test_damage_is_said_and_the_list_begun_anew(damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    disk = await directory()
    disk.put(FILE, damage)
    pending = PendingDeletions(disk, DIRECTORY)
    assert await pending.load() == []
    assert str(FILE) in caplog.text
    await pending.add(ONE)
    assert await PendingDeletions(disk.restart(), DIRECTORY).load() == [ONE]

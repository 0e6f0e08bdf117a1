"""What is written, in which order, before it is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tierfetch.log.disk import OsDisk
from tierfetch.protocol.records.batch_header import Buffer
from tierfetch.quorum.core.effects import PersistState, VoterProven
from tierfetch.quorum.core.events import LogFailed
from tierfetch.quorum.core.state import ElectionState, ReplicaKey
from tierfetch.quorum.storage.vote_keeper import VoteKeeper

from .cluster import voters_of

VOTED = ElectionState(3, voted_key=ReplicaKey(2))


class Diary(OsDisk):
    """What was done to names, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    async def write_file(self, path: Path, data: Buffer, *, sync: bool = True, sync_name: bool = True) -> None:
        await super().write_file(path, data, sync=sync, sync_name=sync_name)
        self.lines.append(f"{path.name} written")

    async def remove(self, path: Path) -> None:
        await super().remove(path)
        self.lines.append(f"{path.name} removed")

    async def sync_directory(self, path: Path) -> None:
        await super().sync_directory(path)
        self.lines.append("names durable")


async def kept(directory: Path, *effects: PersistState | VoterProven, disk: Diary) -> list[Any]:
    """Everything that was told."""
    keeper = VoteKeeper(disk, directory)
    await keeper.unproven_mark.put()
    disk.lines.clear()
    told: asyncio.Queue[Any] = asyncio.Queue()

    def tell(event: Any) -> None:
        disk.lines.append(type(event).__name__)
        told.put_nowait(event)

    task = asyncio.create_task(keeper.run(lambda: voters_of([1, 2, 3], 0), tell))
    for effect in effects:
        keeper.put(effect)
    events = [await told.get()]
    task.cancel()
    return events


async def test_Q1_a_vote_for_an_empty_log_takes_the_mark_along_before_it_is_given(tmp_path: Path) -> None:
    """Else the mark would come back with a power failure, on all voters of a new cluster at once."""
    disk = Diary()
    await kept(tmp_path, PersistState(VOTED, is_proven=True), disk=disk)
    await disk.close()
    assert disk.lines[-4:] == ["quorum-state written", "unproven-voter removed", "names durable", "StatePersisted"]


async def test_Q1_a_mark_that_goes_by_itself_goes_after_what_was_persisted(tmp_path: Path) -> None:
    disk = Diary()
    await kept(tmp_path, VoterProven(), PersistState(VOTED), disk=disk)
    await disk.close()
    assert disk.lines == ["unproven-voter removed", "names durable", "quorum-state written", "StatePersisted"]


async def test_Q7_a_vote_that_cannot_be_written_is_not_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Diary()

    async def full(path: Path, data: bytes, *, sync: bool = True) -> None:
        raise OSError("No space left on device")

    keeper = VoteKeeper(disk, tmp_path)
    monkeypatch.setattr(disk, "write_file", full)
    told: list[Any] = []
    keeper.put(PersistState(VOTED))
    keeper.put(PersistState(VOTED))
    await keeper.run(lambda: voters_of([1], 0), told.append)
    await disk.close()
    assert told == [LogFailed("quorum-state could not be written: No space left on device")]

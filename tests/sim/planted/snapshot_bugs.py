"""Bugs of snapshots that take the place of the quorum's log (`trims` of `sim/scenarios/quorum.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from tierfetch.quorum.storage import snapshots
from tierfetch.quorum.storage.snapshots import SnapshotStore
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted


@planted(
    "a fetched snapshot is named before it is flushed",
    file="quorum/storage/snapshots.py",
    scenario="quorum",
    faults=(FaultKind.WIPE,),
    trims=(True,),
)
def named_before_flushed() -> Iterator[None]:
    async def finish_part(self, snapshot_id):
        _, file, size = self._part
        setup = await snapshots._checked(file, size)
        self._part = None
        await file.close()
        await self._name_it(snapshot_id, self._part_path(snapshot_id), size)
        return setup

    with patch.object(SnapshotStore, "finish_part", finish_part):
        yield

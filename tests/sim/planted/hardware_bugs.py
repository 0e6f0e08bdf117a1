"""Bugs that show only where a disk fails."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from tierfetch.log.replica import recovery
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted


@planted(
    "a second fsync is believed where the first has failed",
    file="log/replica/recovery.py",
    scenario="cluster",
    faults=(FaultKind.FAILED_FSYNC,),
    flush_messages=(1, 5),
)
def second_fsync_believed() -> Iterator[None]:
    async def write_again(segment: object) -> None:
        """It is read as it was written, so it is there."""

    with patch.object(recovery, "_write_again", write_again):
        yield


@planted(
    "the quorum believes a second fsync where the first has failed",
    file="quorum/storage/metadata_log.py",
    scenario="quorum",
    faults=(FaultKind.FAILED_FSYNC,),
)
def second_fsync_believed_by_the_quorum() -> Iterator[None]:
    with second_fsync_believed():
        yield

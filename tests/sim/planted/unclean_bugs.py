"""Bugs of unclean elections that a config allows at times (`unclean.leader.election.enable`)."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from tierfetch.controller.core.partition_change import PartitionChange
from tierfetch.controller.core.reassignment_replicas import ReplicaTarget
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted


@planted(
    "after an unclean election the ISR stays what it was",
    file="controller/core/partition_change.py",
    scenario="cluster",
    faults=(FaultKind.MACHINE_CRASH, FaultKind.PROCESS_CRASH),
    unclean=(True,),
)
def isr_stays() -> Iterator[None]:
    original = PartitionChange._elect

    def elect(self: PartitionChange, target: ReplicaTarget) -> tuple[int, bool]:
        leader, _ = original(self, target)
        return leader, False

    with patch.object(PartitionChange, "_elect", elect):
        yield

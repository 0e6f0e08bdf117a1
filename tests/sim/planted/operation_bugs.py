"""Bugs that show in what the grammar of actions does (`sim/scenarios/operations`), and in groups of KIP-848."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from tierfetch.broker.groups.core.consumer import reconcile
from tierfetch.controller.core import reassignment
from tierfetch.controller.core.reassignment_replicas import ReplicaTarget
from tierfetch.controller.image.registrations import PartitionRegistration
from tierfetch.log.cleaner.core import offset_map
from tierfetch.tests.sim.planted.registry import planted

FIRST_BYTES = 5


@planted("the cleaner tells keys apart by their first bytes", file="log/cleaner/core/offset_map.py", scenario="cluster")
def keys_by_first_bytes() -> Iterator[None]:
    with patch.object(offset_map, "_digest", lambda key: key[:FIRST_BYTES]):
        yield


@planted(
    "a partition is assigned before its owner has given it up",
    file="broker/groups/core/consumer/reconcile.py",
    scenario="workers",
    workers=(2, 3),
    classic_group=(False,),
)
def assigned_too_early() -> Iterator[None]:
    with patch.object(reconcile, "_holds", lambda owned, revoking: False):
        yield


@planted(
    "a cancelled reassignment keeps its new replicas",
    file="controller/core/reassignment.py",
    scenario="cluster",
)
def cancelled_and_kept() -> Iterator[None]:
    def revert(before: PartitionRegistration) -> ReplicaTarget | None:
        return ReplicaTarget(before.replicas, before.isr)

    with patch.object(reassignment, "revert", revert):
        yield

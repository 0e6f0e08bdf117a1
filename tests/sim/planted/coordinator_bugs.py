"""Bugs of the coordinators of groups and transactions: who may commit, and what the next coordinator knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

from tierfetch.broker.groups.core.events import MemberIdentity, Now
from tierfetch.broker.groups.core.group import Group
from tierfetch.broker.groups.core.shard import Shard
from tierfetch.broker.transactions.core.events import Effect
from tierfetch.broker.transactions.core.states import TransactionValue
from tierfetch.broker.transactions.core.transaction import Transaction
from tierfetch.broker.transactions.markers import MarkerSender
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.topics import TopicPartition
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted

GROUPS = "tests/broker/groups/test_group.py"
EFFECT_CRASHES = "tests/sim/test_effect_crashes.py"
PAST_GENERATION = "offsets of a past generation are committed"
NOT_RESUMED = "the next coordinator does not finish a transaction"
CHANGES = (FaultKind.MOVE_LEADER, FaultKind.PROCESS_CRASH, FaultKind.MACHINE_CRASH, FaultKind.PARTITION)
"""What gives a group or a transactional id another coordinator."""


@planted(
    PAST_GENERATION,
    file="broker/groups/core/group.py",
    scenario="workers",
    shown_by=GROUPS,
    faults=(FaultKind.PAUSE, *CHANGES),
    workers=(2, 3),
    classic_group=(True,),
)
def past_generation_commits() -> Iterator[None]:
    def judge_commit(
        self: Group, who: MemberIdentity, generation_id: int, now: Now, *, in_transaction: bool = False
    ) -> ErrorCode:
        return ErrorCode.none

    with patch.object(Group, "judge_commit", judge_commit):
        yield


@planted(
    "offsets are given out that an open transaction may still move",
    file="broker/groups/core/shard.py",
    scenario="workers",
    faults=CHANGES,
    workers=(2, 3),
)
def unstable_offsets() -> Iterator[None]:
    def has_undecided(self: Shard, group_id: str, partition: TopicPartition) -> bool:
        return False

    with patch.object(Shard, "has_undecided", has_undecided):
        yield


@planted(
    "one partition of a transaction gets no marker",
    file="broker/transactions/markers.py",
    scenario="workers",
    faults=CHANGES,
    workers=(1, 2, 3),
)
def marker_missing() -> Iterator[None]:
    send = MarkerSender.send

    async def some(self: MarkerSender, value: TransactionValue, coordinator_epoch: int) -> None:
        first = frozenset(sorted(value.partitions)[:-1]) or value.partitions
        await send(self, replace(value, partitions=first), coordinator_epoch)

    with patch.object(MarkerSender, "send", some):
        yield


@planted(
    NOT_RESUMED,
    file="broker/transactions/core/transaction.py",
    scenario="workers",
    shown_by=EFFECT_CRASHES,
    faults=CHANGES,
    workers=(1, 2, 3),
)
def not_resumed() -> Iterator[None]:
    def resume(self: Transaction, now_ms: int) -> list[Effect]:
        return []

    with patch.object(Transaction, "_resume", resume):
        yield

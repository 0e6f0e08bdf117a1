"""Who owns what in a group of KIP-848: one member at a time, and always one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tierfetch.protocol.topics import GROUP_METADATA_TOPIC, TopicPartition
from tierfetch.sim.judges.core.clients.ownership import SLACK_MS, OwnershipJudge
from tierfetch.sim.judges.core.events import MemberAsked, MemberAssigned, MetadataChanged, MomentPassed
from tierfetch.sim.judges.core.partition import InvariantViolationError

P0, P1 = TopicPartition("in", 0), TopicPartition("in", 1)
SESSION_MS, REBALANCE_MS = 2_000, 3_000


class Group:
    """A group, its clock, and its judge."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.has_lost = False
        self.judge = OwnershipJudge(
            (P0, P1),
            lambda _: self.has_lost,
            lambda: self.now_ms,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
        )

    def asks(self, member: str, *owned: TopicPartition) -> None:
        self.judge.on(MemberAsked("g", member, frozenset(owned)))

    def gets(self, member: str, epoch: int, *partitions: TopicPartition, asked_ms: int | None = None) -> None:
        asked_ms = self.now_ms if asked_ms is None else asked_ms
        self.judge.on(MemberAssigned("g", member, epoch, frozenset(partitions), asked_ms))

    def pass_ms(self, milliseconds: int, *answered: tuple[str, int, TopicPartition]) -> None:
        for _ in range(milliseconds // 250):
            self.now_ms += 250
            for member, epoch, partition in answered:
                self.gets(member, epoch, partition)
            self.judge.on(MomentPassed())


def test_a_partition_is_handed_over_once_it_is_given_up() -> None:
    group = Group()
    group.gets("a", 1, P0, P1)
    group.gets("a", 1, P0)
    group.asks("a", P0)
    group.gets("a", 2, P0)
    group.gets("b", 2, P1)
    group.asks("a")
    group.gets("b", 3, P0, P1)


def test_a_partition_that_another_member_still_has_is_not_given_away() -> None:
    group = Group()
    group.gets("a", 1, P0, P1)
    group.gets("a", 1, P0)
    with pytest.raises(InvariantViolationError, match="given up first: in-1 is assigned to b in epoch 2"):
        group.gets("b", 2, P1)


@pytest.mark.parametrize(("after_ms", "is_over"), [(SESSION_MS - 1, False), (SESSION_MS, True)])
def test_a_silent_member_has_its_session(after_ms: int, is_over: bool) -> None:
    group = Group()
    group.gets("a", 1, P0)
    group.now_ms = after_ms
    if is_over:
        group.gets("b", 2, P0)
    else:
        with pytest.raises(InvariantViolationError, match="given up first"):
            group.gets("b", 2, P0)


def test_a_late_answer_says_what_was_so_and_gives_nothing() -> None:
    group = Group()
    group.now_ms = 1_000
    group.gets("b", 2, P0)
    group.gets("a", 1, P0, asked_ms=500)
    group.gets("b", 3, P0)
    with pytest.raises(InvariantViolationError, match="given up first: in-0 is assigned to a in epoch 1"):
        group.gets("a", 1, P0, asked_ms=1_001)


def test_a_member_that_does_not_give_up_is_fenced_in_the_end() -> None:
    group = Group()
    group.gets("a", 1, P0, P1)
    for _ in range(REBALANCE_MS // 500):
        group.gets("a", 1, P0)
        group.now_ms += 500
    group.gets("b", 2, P1)


def test_nobody_else_has_it_in_the_same_epoch() -> None:
    group = Group()
    group.gets("a", 1, P0)
    group.asks("a")
    with pytest.raises(InvariantViolationError, match="one owner an epoch: in-0 is assigned to a and to b in epoch 1"):
        group.gets("b", 1, P0)


def test_epochs_of_a_member_rise_unless_it_joins_again() -> None:
    group = Group()
    group.gets("a", 3, P0)
    with pytest.raises(InvariantViolationError, match="member epochs rise"):
        group.gets("a", 2, P0)
    group.asks("a")
    group.gets("a", 2, P1)


def test_a_partition_has_no_owner_for_a_while_only() -> None:
    group = Group()
    group.gets("a", 1, P0)
    with pytest.raises(InvariantViolationError, match="owned in time: in-1 has had no owner in g since"):
        group.pass_ms(SESSION_MS + REBALANCE_MS + SLACK_MS + 500, ("a", 1, P0))


def test_nobody_answered_or_another_coordinator_excuses_that() -> None:
    group = Group()
    group.gets("a", 1, P0)
    group.pass_ms(20_000)
    group.pass_ms(SESSION_MS + REBALANCE_MS, ("a", 1, P0))
    group.judge.on(moved())
    group.pass_ms(SESSION_MS + REBALANCE_MS + SLACK_MS - 250, ("a", 1, P0))


def test_a_dead_members_partition_has_no_owner() -> None:
    group = Group()
    group.gets("a", 1, P0)
    group.gets("b", 1, P1)
    with pytest.raises(InvariantViolationError, match="in-1 has had no owner"):
        group.pass_ms(2 * SESSION_MS + REBALANCE_MS + SLACK_MS + 500, ("a", 1, P0))


def test_a_coordinator_that_has_lost_its_log_may_do_anything() -> None:
    group = Group()
    group.gets("a", 1, P0)
    group.has_lost = True
    group.gets("b", 1, P0)


def moved() -> MetadataChanged:
    def image(epoch: int) -> Any:
        return SimpleNamespace(
            topics={GROUP_METADATA_TOPIC: SimpleNamespace(partitions={0: SimpleNamespace(leader_epoch=epoch)})}
        )

    nothing: Any = None
    return MetadataChanged(nothing, nothing, image(1), image(2))

"""When a group has begun, is served, is even."""

from __future__ import annotations

import asyncio

from tierfetch.bench.coordinators.roster import Roster


def owning(roster: Roster, **members: frozenset[int]) -> None:
    for member, numbers in members.items():
        roster.owns(member, numbers)
        roster.has_read(member, numbers)


def joined(*members: str, partitions: int = 4) -> Roster:
    roster = Roster(partitions)
    for member in members:
        roster.joins(member)
    return roster


def test_a_group_has_begun_once_each_member_has_read_something() -> None:
    roster = joined("a", "b")
    owning(roster, a=frozenset({0, 1, 2}))
    assert not roster.has_begun
    owning(roster, b=frozenset({3}))
    assert roster.has_begun
    assert roster.is_served
    assert not roster.is_even, "one has three, the other one"


def test_it_is_served_once_every_partition_is_read_by_exactly_one() -> None:
    roster = joined("a", "b")
    owning(roster, a=frozenset({0, 1}), b=frozenset({1, 2}))
    assert not roster.is_served, "1 has two owners, 3 has none"
    roster.owns("b", frozenset({2, 3}))
    assert not roster.is_served, "3 is not read yet"
    roster.has_read("b", {3})
    assert roster.is_even


def test_what_a_dead_member_had_is_not_served() -> None:
    roster = joined("a", "b")
    owning(roster, a=frozenset({0, 1}), b=frozenset({2, 3}))
    assert roster.dies("b") == {2, 3}
    assert not roster.is_served
    roster.owns("b", frozenset({2, 3}))
    assert not roster.is_served, "an answer that comes after its death means nothing"
    owning(roster, a=frozenset({0, 1, 2, 3}))
    assert roster.is_even


def test_what_a_member_gives_up_it_has_to_read_again() -> None:
    roster = joined("a", partitions=1)
    owning(roster, a=frozenset({0}))
    roster.owns("a", frozenset())
    roster.owns("a", frozenset({0}))
    assert not roster.has_begun


def test_who_waits_is_woken_by_a_change() -> None:
    async def wait() -> None:
        roster = joined("a", partitions=1)
        waiting = asyncio.create_task(roster.until(lambda: roster.is_even))
        await asyncio.sleep(0)
        owning(roster, a=frozenset({0}))
        await asyncio.wait_for(waiting, 5)

    asyncio.run(wait())

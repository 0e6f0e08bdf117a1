"""What the members of the last look at groups say and are given is Kafka's, as the product reads and writes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from tierfetch.broker.groups.core.consumer.subscription import written_assignment
from tierfetch.broker.groups.core.consumer.topics import Topic
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.looks import upgraded_groups
from tierfetch.sim.scenarios.looks.group_members import WrongGroupError, partitions_in

TOPICS = {"t": Topic("t", UUID(int=1), 4), "u": Topic("u", UUID(int=2), 1)}


def test_an_assignment_of_the_coordinators_is_read() -> None:
    assert partitions_in(written_assignment({UUID(int=1): frozenset({1, 3})}, TOPICS, 1), "t") == {1, 3}
    assert partitions_in(b"", "t") == set()


def test_another_topic_is_no_members() -> None:
    with pytest.raises(WrongGroupError, match="u is assigned"):
        partitions_in(written_assignment({UUID(int=2): frozenset({0})}, TOPICS, 1), "t")


def acted(act: Callable[[list[int]], Awaitable[None]], is_so: Callable[[list[int]], bool]) -> list[int]:
    rounds: list[int] = []
    with World(1) as world:
        world.run(upgraded_groups._until(lambda: is_so(rounds), "something", lambda: act(rounds)))
    return rounds


def test_what_must_come_is_waited_for_and_not_for_ever() -> None:
    async def act(rounds: list[int]) -> None:
        rounds.append(len(rounds))

    assert acted(act, lambda rounds: len(rounds) == 3) == [0, 1, 2]
    with pytest.raises(WrongGroupError, match="not within 15 s: something"):
        acted(act, lambda _: False)

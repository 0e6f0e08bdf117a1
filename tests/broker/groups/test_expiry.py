"""How the offsets of many groups expire: within the loop's share, and beside a partition whose log takes nothing."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from tierfetch.broker.groups.coordinator import GroupCoordinator
from tierfetch.broker.groups.decided_groups import in_turns
from tierfetch.protocol import ErrorCode

RETENTION_MS = 1


class Shard:
    """A partition of `__consumer_offsets`, whose log answers each write with `answer`, once `takes` is set."""

    def __init__(self, groups: int, answer: ErrorCode = ErrorCode.none) -> None:
        self.is_loaded = True
        self.shard = SimpleNamespace(groups={f"g{number}": None for number in range(groups)}, consumers={})
        self.answer = answer
        self.takes = asyncio.Event()
        self.takes.set()
        self.expired: list[str] = []

    async def forget_absent(self, _: object) -> None:
        """Nothing is absent."""

    async def expire(self, group_id: str, retention_ms: int) -> ErrorCode:
        assert retention_ms == RETENTION_MS
        await self.takes.wait()
        self.expired.append(group_id)
        return self.answer


def coordinator(*shards: Shard) -> GroupCoordinator:
    made = GroupCoordinator.__new__(GroupCoordinator)
    made.settings = cast(Any, SimpleNamespace(retention_ms=RETENTION_MS))
    made._shards = cast(Any, dict(enumerate(shards)))
    return made


async def expired(*shards: Shard) -> None:
    one = coordinator(*shards)
    await one.for_each_loaded(one.expire)


async def test_D4_a_partition_whose_log_takes_nothing_holds_up_no_other() -> None:
    ill, well = Shard(3), Shard(3)
    ill.takes.clear()
    expiring = asyncio.create_task(expired(ill, well))
    async with asyncio.timeout(10):
        while len(well.expired) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert ill.expired == []
    ill.takes.set()
    await expiring
    assert len(ill.expired) == 3


async def test_D4_the_groups_of_a_log_that_takes_nothing_do_not_wait_for_it_one_after_another() -> None:
    ill = Shard(3, ErrorCode.coordinator_not_available)
    await expired(ill)
    assert len(ill.expired) == 1
    one = Shard(3, ErrorCode.unknown_server_error)
    await expired(one)
    assert len(one.expired) == 3, "what one group cannot have is no reason for the others"


async def test_D10_the_loop_is_free_while_many_groups_are_looked_at() -> None:
    many, turns = Shard(10_000), 0
    expiring = asyncio.create_task(expired(many))
    while not expiring.done():
        turns += 1
        await asyncio.sleep(0)
    assert len(many.expired) == 10_000
    assert turns > 40


async def test_D10_the_loop_is_free_while_many_members_are_resumed() -> None:
    """Each gets a deadline, so a group costs what it has members."""
    groups = [SimpleNamespace(members=range(995)) for _ in range(20)]
    resumed, turns = 0, 0

    async def resume() -> None:
        nonlocal resumed
        async for _ in in_turns(groups):
            resumed += 1

    resuming = asyncio.create_task(resume())
    while not resuming.done():
        turns += 1
        await asyncio.sleep(0)
    assert resumed == 20
    assert turns > 10, "two groups of a thousand in an iteration"

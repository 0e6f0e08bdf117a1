"""A cluster for the console that is as bad as a real one: it fails, hangs, and has names that want to be markup."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tierfetch.console import Look, UnknownNameError
from tierfetch.console.core.replicas import OnDisk
from tierfetch.console.core.state import (
    Broker,
    Group,
    GroupLag,
    Key,
    Lag,
    Move,
    Offsets,
    Overview,
    Partition,
    Plan,
    Prediction,
    Problem,
    Quorum,
    QuorumReplica,
    Wave,
)

MARKUP = "<script>alert('x')</script>\"&\u202e"


def broker(number: int, *, is_alive: bool = True) -> Broker:
    return Broker(
        id=number,
        address=f"h{number}:9092",
        rack=MARKUP,
        is_alive=is_alive,
        replicas=3,
        leads=1,
        out_of_sync=0,
        failed=0 if is_alive else None,
        thin=1 if is_alive else None,
        local_bytes=2048 if is_alive else None,
        warming_bytes_left=1024 if number == 2 else None,
        warming_seconds_left=90 if number == 2 else None,
    )


def part(topic: str, index: int, *, isr: tuple[int, ...] = (1, 2)) -> Partition:
    return Partition(topic=topic, index=index, leader=1, epoch=4, replicas=(1, 2), isr=isr)


def overview(partitions: int = 3) -> Overview:
    return Overview(
        taken_at_s=0.5,
        cluster_id="c1",
        brokers=(broker(1), broker(2), broker(3, is_alive=False)),
        partitions=tuple(part("t", index) for index in range(partitions)),
        groups=(Group("billing", "Stable", "consumer"), Group(MARKUP, "Empty", "")),
        quorum=Quorum(
            leader=101,
            epoch=2,
            high_watermark=50,
            replicas=(QuorumReplica(id=101, role="leader", log_end_offset=51, lag=0),),
        ),
        moves=(Move(topic="t", partition=1, replicas=(1, 2, 3), adding=(3,), removing=(1,)),),
        plans=(
            Plan(name="plan.json", doing="moving", waves=(Wave(0, 4, 1, {"done": 1, "moving": 3}),)),
            Plan(
                name=MARKUP,
                doing=f"moving, and no process carries it out: {MARKUP}",
                waves=(Wave(1, 2, 2, {"done": 2}),),
            ),
        ),
        problems=(Problem("quorum", MARKUP),),
    )


@dataclass
class FakeReader:
    """`failure` is raised by every call; with `hangs` no call ends. `asked` counts calls by name."""

    found: Overview = field(default_factory=overview)
    failure: Exception | None = None
    hangs: bool = False
    asked: list[str] = field(default_factory=list)
    keys: list[tuple[Key, ...]] = field(default_factory=list)

    async def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.hangs:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure

    async def look(self) -> Look:
        await self._ask("look")
        sizes = {("t", index): OnDisk(size_bytes=100, tier_error=f"copy: {MARKUP}") for index in range(3)}
        thin = {("t", index): OnDisk(size_bytes=50, warm_in_ms=5, warming_bytes_left=50) for index in range(3)}
        return Look(self.found, {1: sizes, 2: thin})

    async def offsets(self, keys: Sequence[Key]) -> Mapping[Key, Offsets]:
        await self._ask("offsets")
        self.keys.append(tuple(keys))
        return {key: Offsets(earliest=0, local=50, tiered=79, pending=80, latest=100) for key in keys}

    async def group_totals(self, groups: Sequence[str]) -> Mapping[str, int | None]:
        await self._ask("group_totals")
        return {group: 1234 for group in groups if group == "billing"}

    async def group_lag(self, group: str) -> GroupLag:
        await self._ask("group_lag")
        if group not in ("billing", MARKUP):
            raise UnknownNameError(f"group {group} does not exist")
        row = Lag(topic="t", partition=0, committed=7, end=9, lag=2, member=MARKUP, client=MARKUP, host="/10.0.0.1")
        return GroupLag(group=group, state="Stable", assignor="range", total=2, rows=(row,))

    async def predict(self, broker: int, known: Mapping[str, str]) -> Prediction:
        await self._ask("predict")
        if "cores" not in known:
            return Prediction(broker=broker, missing={"cores": "CPU cores"})
        after = {"tier-first": "12.0 s", "log-start": "20 min", "kafka-last-tiered": "never"}
        outcomes = tuple({"policy": policy, "all in sync after": text} for policy, text in after.items())
        return Prediction(broker=broker, outcomes=outcomes, seconds={"tier-first": 12.0, "log-start": 1200.0})

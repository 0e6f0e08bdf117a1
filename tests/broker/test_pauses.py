"""The garbage collector does not look at what lives for ever, and pauses are counted."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Iterator

import pytest

from tierfetch.broker import pauses
from tierfetch.broker.pauses import GarbageCollection, Pauses


class Node:
    """An object that can be part of a cycle."""

    def __init__(self) -> None:
        self.other: Node | None = None


class Clock:
    """The time that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def _frozen_again() -> Iterator[None]:
    """Later tests rely on what `tests/conftest.py` has frozen."""
    yield
    gc.freeze()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def garbage(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[GarbageCollection]:
    gc.collect()
    gc.freeze()  # what the tests themselves have
    before = len(gc.get_objects(generation=2))
    monkeypatch.setattr(pauses, "COLLECT_MIN", before + 10_000)
    monkeypatch.setattr(pauses, "COLLECT_MAX", before + 100_000)
    garbage = GarbageCollection(clock)
    garbage.begin()
    yield garbage
    garbage.end()


def aged(count: int) -> list[list[int]]:
    """Return so many objects in the collector's oldest generation."""
    made: list[list[int]] = [[] for _ in range(count)]
    gc.collect(1)
    return made


def test_few_objects_are_left_alone(garbage: GarbageCollection) -> None:
    frozen = gc.get_freeze_count()
    kept = aged(900)
    garbage.look()
    assert gc.get_freeze_count() <= frozen  # what was frozen before may have been freed meanwhile
    assert len(kept) == 900


def test_objects_are_counted_only_where_a_collection_may_have_made_them_old(
    garbage: GarbageCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def count() -> int:
        counts.append(0)
        return 0

    monkeypatch.setattr(pauses, "_oldest", count)
    garbage.look()
    gc.collect(0)
    for _ in range(3):
        garbage.look()
    assert len(counts) == 1
    kept = aged(900)
    garbage.look()
    assert (len(counts), len(kept)) == (2, 900)


def test_few_objects_are_collected_now_and_then_and_not_frozen(garbage: GarbageCollection, clock: Clock) -> None:
    """Connections end in cycles: one that was frozen while it lived would never be freed."""
    frozen = gc.get_freeze_count()
    one, other = Node(), Node()
    one.other, other.other = other, one
    gone = weakref.ref(one)
    kept = aged(900)
    clock.now_s = pauses.COLLECT_INTERVAL_S - 1
    garbage.look()
    collections = gc.get_stats()[2]["collections"]
    clock.now_s = pauses.COLLECT_INTERVAL_S
    garbage.look()
    assert gc.get_stats()[2]["collections"] == collections + 1
    assert gc.get_freeze_count() <= frozen
    assert gone() is one
    del one, other
    clock.now_s = 2 * pauses.COLLECT_INTERVAL_S
    garbage.look()
    garbage.look()
    assert gc.get_stats()[2]["collections"] == collections + 2
    assert gc.get_freeze_count() <= frozen  # a frozen object may be freed meanwhile
    assert (gone(), len(kept)) == (None, 900)


def test_D10_more_are_collected_and_what_is_left_is_frozen(garbage: GarbageCollection) -> None:
    frozen = gc.get_freeze_count()
    one, other = Node(), Node()
    one.other, other.other = other, one
    gone = weakref.ref(one)
    kept = aged(20_000)
    del one, other
    assert gone() is not None
    garbage.look()
    assert gone() is None
    assert gc.get_freeze_count() >= frozen + len(kept)


def test_state_that_is_loaded_is_frozen_without_a_look(garbage: GarbageCollection) -> None:
    collections = gc.get_stats()[2]["collections"]
    frozen = gc.get_freeze_count()
    kept = aged(200_000)
    garbage.look()
    assert gc.get_stats()[2]["collections"] == collections
    assert gc.get_freeze_count() >= frozen + len(kept)


def test_everything_is_as_before_at_the_end() -> None:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    garbage = GarbageCollection()
    garbage.begin()
    gc.freeze()
    assert gc.get_threshold()[2] == pauses.NEVER
    garbage.end()
    assert (gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()) == (thresholds, callbacks, 0)


def test_D10_a_collection_is_counted_with_its_time() -> None:
    garbage = GarbageCollection(iter([0.0, 1.0, 1.25]).__next__)
    garbage.begin()
    gc.disable()
    try:
        gc.collect(0)
    finally:
        gc.enable()
        garbage.end()
    (family,) = garbage.histogram.collect()
    values = {sample.name: sample.value for sample in family.samples if sample.labels == {"generation": "0"}}
    assert values["tierfetch_gc_pause_seconds_sum"] == 0.25


async def test_D10_a_loop_that_stood_still_is_seen() -> None:
    """A timer that is due after `TICK_S` runs when the loop turns again, whatever the machine's speed."""
    measured = Pauses()
    async with measured.measured():
        await asyncio.sleep(0)
        time.sleep(3 * pauses.TICK_S)  # noqa: ASYNC251 - the fault that is to be seen
        await asyncio.sleep(pauses.TICK_S)
    (family, own, _, _) = measured.families()
    values = {sample.name: sample.value for each in (family, own) for sample in each.samples if not sample.labels}
    assert values["tierfetch_loop_pause_seconds_sum"] >= 2 * pauses.TICK_S
    assert values["tierfetch_loop_pause_own_seconds_sum"] < pauses.TICK_S
    assert values["tierfetch_loop_pause_seconds_count"] == values["tierfetch_loop_pause_own_seconds_count"] > 0


async def test_D10_what_the_loop_itself_did_in_a_pause_is_seen() -> None:
    measured = Pauses()
    async with measured.measured():
        await asyncio.sleep(0)
        until_s = time.thread_time() + 3 * pauses.TICK_S
        while time.thread_time() < until_s:
            pass
        await asyncio.sleep(pauses.TICK_S)
    (_, own, _, _) = measured.families()
    values = {sample.name: sample.value for sample in own.samples if not sample.labels}
    assert values["tierfetch_loop_pause_own_seconds_sum"] >= 2 * pauses.TICK_S


async def test_tasks_of_the_loop_are_counted() -> None:
    *_, family = Pauses().families()
    (before,) = family.samples
    other = asyncio.create_task(asyncio.sleep(0))
    *_, family = Pauses().families()
    (after,) = family.samples
    await other
    assert (before.name, after.value - before.value) == ("tierfetch_loop_tasks", 1)

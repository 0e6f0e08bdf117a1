"""The simulated object store: a tier as any other, until its faults are turned on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any

import pytest

from tierfetch.remote import RemoteResourceNotFoundError, RemoteStorageError, RemoteStorageRefusedError
from tierfetch.sim.machine.objects import _Way
from tierfetch.sim.machine.process import Process, current_process
from tierfetch.sim.machine.world import World
from tierfetch.testing.remote_storage import (
    PARTITION,
    RemoteStorageConformance,
    listed,
    make_data,
    make_metadata,
    pattern,
)

LOG = pattern(100_000)
METADATA = make_metadata(len(LOG))


class TestSimObjectStore(RemoteStorageConformance):
    @pytest.fixture
    async def storage(self):
        with World(1) as world:
            world.store.faults.slow_factor = 0
            storage = world.store.storage("broker-1")
            yield storage
            await storage.close()


def simulate(scenario: Coroutine[Any, Any, Any], world: World) -> Any:
    with world:
        return world.run(scenario, limit_s=1000)


def test_an_error_means_that_nothing_happened():
    async def scenario():
        storage = world.store.storage("a")
        world.store.faults.error_share = 1
        with pytest.raises(RemoteStorageError, match="injected"):
            await storage.copy_log_segment_data(METADATA, make_data(LOG))
        assert not world.store.objects

    world = World(1)
    simulate(scenario(), world)
    assert world.counters["store error"] == 1


def test_a_lost_reply_means_that_it_did():
    async def scenario():
        storage = world.store.storage("a")
        world.store.faults.lost_reply_share = 1
        with pytest.raises(RemoteStorageError, match="no answer"):
            await storage.copy_log_segment_data(METADATA, make_data(LOG))
        assert len(world.store.objects) == 1, "the first object of the segment"
        with pytest.raises(RemoteStorageError, match="no answer"):
            await storage.delete_log_segment_data(METADATA)

    world = World(1)
    simulate(scenario(), world)


def test_a_half_upload_shows_nothing_and_a_delete_takes_it_away():
    async def scenario():
        storage = world.store.storage("a")
        world.store.faults.half_upload_share = 1
        with pytest.raises(RemoteStorageError, match="broke off"):
            await storage.copy_log_segment_data(METADATA, make_data(LOG))
        assert not world.store.objects
        assert len(world.store.unfinished) == 1
        world.store.faults.heal()
        await storage.delete_log_segment_data(METADATA)
        assert not world.store.unfinished

    world = World(1)
    simulate(scenario(), world)


def test_an_upload_that_hangs_has_its_effect_when_nobody_waits_any_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tierfetch.sim.machine.objects.HUNG_SHARE", 1.0)

    async def scenario():
        storage = world.store.storage("a")
        world.store.faults.hung_upload_s = 5
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await storage.copy_log_segment_data(METADATA, make_data(LOG))
        assert not world.store.objects
        await asyncio.sleep(5)
        (key,) = world.store.objects
        assert not world.store.is_orphan(key)

    simulate(scenario(), world := World(1))


@pytest.mark.parametrize(("deleted_after_s", "is_orphan"), [(2, True), (6, False)])
def test_nobody_knows_of_an_upload_that_hung_only_if_it_was_deleted_before(
    monkeypatch: pytest.MonkeyPatch, deleted_after_s: int, is_orphan: bool
):
    monkeypatch.setattr("tierfetch.sim.machine.objects.HUNG_SHARE", 1.0)

    async def scenario():
        storage = world.store.storage("a")
        world.store.faults.hung_upload_s = 5
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await storage.copy_log_segment_data(METADATA, make_data(LOG))
        await asyncio.sleep(deleted_after_s - 1)
        await storage.delete_log_segment_data(METADATA)
        await asyncio.sleep(5)
        assert bool(world.store.objects) is is_orphan
        assert all(map(world.store.is_orphan, world.store.objects))

    simulate(scenario(), world := World(1))


@pytest.mark.parametrize("hung_upload_s", [0, 5])
def test_what_was_deleted_while_it_was_uploaded_is_the_uploaders_for_as_long_as_it_lives(
    monkeypatch: pytest.MonkeyPatch, hung_upload_s: int
):
    monkeypatch.setattr("tierfetch.sim.machine.objects.HUNG_SHARE", 1.0)

    async def scenario():
        store, uploader, context = world.store, Process("a", 1), copy_context()
        context.run(current_process.set, uploader)
        store.faults.hung_upload_s = hung_upload_s
        task = world.loop.create_task(_Way(store, "a").put("k", make_data(LOG).log), context=context)
        await asyncio.sleep(0.01)
        store.remove("k")
        assert not store.objects
        await task
        assert store.objects
        assert not store.is_orphan("k")
        uploader.kill()
        assert store.is_orphan("k")

    simulate(scenario(), world := World(1))


def test_an_outage_fails_everything_until_it_ends():
    async def scenario():
        storage = world.store.storage("a")
        await storage.copy_log_segment_data(METADATA, make_data(LOG))
        world.store.faults.is_out = True
        with pytest.raises(RemoteStorageError):
            await storage.log_segment_size(METADATA)
        world.store.faults.is_out = False
        assert await storage.log_segment_size(METADATA)

    simulate(scenario(), world := World(1))


def test_a_late_listing_shows_what_was():
    async def scenario():
        storage = world.store.storage("a")
        world.store.faults.list_delay_s = 5
        await storage.copy_log_segment_data(METADATA, make_data(LOG))
        assert await listed(storage, PARTITION) == []
        assert await storage.log_segment_size(METADATA) is not None
        await asyncio.sleep(world.store.listed_at_s - world.now_s)
        shown = await listed(storage, PARTITION)
        assert shown
        await storage.delete_log_segment_data(METADATA)
        assert await listed(storage, PARTITION) == shown
        with pytest.raises(RemoteResourceNotFoundError):
            await storage.fetch_log_segment(METADATA, 0, 10)
        await asyncio.sleep(5)
        assert await listed(storage, PARTITION) == []

    simulate(scenario(), world := World(1))


def test_bytes_take_time():
    async def scenario():
        storage = world.store.storage("a")
        began = world.now_s
        await storage.copy_log_segment_data(METADATA, make_data(LOG))
        quick = world.now_s - began
        world.store.faults.slow_factor = 100
        began = world.now_s
        await storage.copy_log_segment_data(METADATA, make_data(LOG))
        return quick, world.now_s - began

    quick, slow = simulate(scenario(), world := World(1))
    assert slow > 20 * quick


def test_a_slow_store_takes_that_much_longer():
    async def scenario():
        storage = world.store.storage("a")
        await storage.copy_log_segment_data(METADATA, make_data(LOG))
        world.store.faults.slow_s = 2.0
        began_s = world.now_s
        assert await storage.fetch_log_segment(METADATA, 0, 10) == LOG[:10]
        assert 1.0 <= world.now_s - began_s <= 2.5

    world = World(1)
    simulate(scenario(), world)


def test_a_throttled_store_takes_so_many_calls_a_second_and_refuses_the_others():
    async def scenario():
        storage = world.store.storage("a")
        world.store.faults.calls_per_s = 10
        results = await asyncio.gather(*(storage.log_segment_size(METADATA) for _ in range(20)), return_exceptions=True)
        refused = [result for result in results if isinstance(result, RemoteStorageError)]
        assert len(refused) == 14
        assert "SlowDown" in str(refused[0])
        await asyncio.sleep(1)
        assert await storage.log_segment_size(METADATA) is None

    world = World(1)
    simulate(scenario(), world)
    assert world.counters["store throttled"] == 14


def test_a_half_answer_is_never_taken_for_a_whole_one():
    async def scenario():
        storage = world.store.storage("a")
        await storage.copy_log_segment_data(METADATA, make_data(LOG))
        world.store.faults.short_answer_share = 1
        messages = set()
        for _ in range(20):
            with pytest.raises(RemoteStorageError) as error:
                await storage.fetch_log_segment(METADATA, 0, 1000)
            messages.add("came back as" in str(error.value))
        assert messages == {True, False}, "said by the driver, and found by the plugin"

    simulate(scenario(), world := World(1))


def test_a_bucket_that_is_gone_refuses_everything_until_it_is_back():
    async def scenario():
        storage = world.store.storage("a")
        world.store.faults.is_gone = True
        with pytest.raises(RemoteStorageRefusedError, match="NoSuchBucket"):
            await storage.copy_log_segment_data(METADATA, make_data(LOG))
        world.store.faults.heal()
        await storage.copy_log_segment_data(METADATA, make_data(LOG))

    simulate(scenario(), world := World(1))

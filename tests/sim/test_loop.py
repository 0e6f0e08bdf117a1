"""The event loop on virtual time."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar, copy_context
from random import Random

import pytest

from tierfetch.sim.machine import loop as sim_loop
from tierfetch.sim.machine.loop import DeadlockError, LivelockError, NotSimulatedError, TimeLimitError, make_loop
from tierfetch.sim.machine.process import Process, current_process


@pytest.fixture
def loop():
    made = make_loop(Random(1))
    yield made
    made.close()


def test_time_passes_by_jumps_only(loop):
    async def work():
        began = loop.time()
        await asyncio.sleep(3600)
        for _ in range(100):
            await asyncio.sleep(0)
        return loop.time() - began

    assert loop.run_until_complete(work()) == 3600


@pytest.mark.parametrize("deadline_s", [0.1, 0.3, 1 / 3, 123.456789])
def test_a_timer_never_fires_early(loop, deadline_s):
    async def work():
        rounds = 0
        while loop.time() < deadline_s:
            await asyncio.sleep(deadline_s - loop.time())
            rounds += 1
        return rounds

    assert loop.run_until_complete(work()) == 1
    assert loop.time() - deadline_s < 2 * sim_loop.TICK_S


def test_asyncio_itself_works(loop):
    variable = ContextVar("variable", default=0)

    async def child(number):
        variable.set(number)
        await asyncio.sleep(number)
        return variable.get()

    async def group_that_fails():
        async with asyncio.TaskGroup() as group:
            group.create_task(child("no number"))
            group.create_task(asyncio.sleep(100))

    async def work():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(child(number)) for number in range(5)]
        assert [task.result() for task in tasks] == list(range(5))
        assert variable.get() == 0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await asyncio.Event().wait()
        with pytest.raises(ExceptionGroup):
            await group_that_fails()
        lock = asyncio.Lock()
        async with lock:
            assert lock.locked()
        done, pending = await asyncio.wait(
            [asyncio.ensure_future(child(1)), asyncio.ensure_future(child(9))], timeout=3
        )
        assert (len(done), len(pending)) == (1, 1)
        return loop.time()

    assert loop.run_until_complete(work()) == 4 + 2 + 3


def test_cancelled_timers_neither_run_nor_pile_up(loop):
    async def work():
        for _ in range(10_000):
            handle = loop.call_later(1000, pytest.fail)
            handle.cancel()
            handle.cancel()
            assert handle.cancelled()
            await asyncio.sleep(0.001)

    loop.run_until_complete(work())
    assert len(loop._timers) == len(loop._moments) < 200
    assert loop.time() < 20


def test_a_run_without_progress_is_an_error(loop, monkeypatch):
    with pytest.raises(DeadlockError, match="nothing is ready"):
        loop.run_until_complete(asyncio.Event().wait())

    monkeypatch.setattr(sim_loop, "EVENTS_PER_INSTANT_MAX", 1000)

    async def spin():
        while True:  # noqa: ASYNC110 - this is what is to be found
            await asyncio.sleep(0)

    with pytest.raises(LivelockError, match="1000 callbacks"):
        loop.run_until_complete(spin())


def test_timers_that_are_due_at_once_are_no_progress(loop, monkeypatch):
    monkeypatch.setattr(sim_loop, "EVENTS_PER_INSTANT_MAX", 1000)

    def again():
        if loop.events < 3000:
            loop.call_later(0, again)

    again()
    with pytest.raises(LivelockError, match="1000 callbacks"):
        loop.run_until_complete(asyncio.sleep(1))


def test_a_run_ends_with_its_time(loop):
    async def forever():
        while True:  # noqa: ASYNC110 - without an end
            await asyncio.sleep(1)

    loop.time_limit_s = 10
    with pytest.raises(TimeLimitError):
        loop.run_until_complete(forever())
    assert loop.time() <= 10


def test_a_run_with_more_time_goes_on_where_the_last_one_ended(loop):
    sleeping = loop.create_task(asyncio.sleep(11))
    loop.time_limit_s = 10
    with pytest.raises(TimeLimitError):
        loop.run_until_complete(sleeping)
    loop.time_limit_s = 20
    loop.run_until_complete(sleeping)
    assert loop.time() == 11


async def from_a_thread(loop):
    errors = []

    def work():
        try:
            loop.call_soon_threadsafe(print)
        except NotSimulatedError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    raise errors[0]


@pytest.mark.parametrize(
    "reach_out",
    [
        lambda loop: asyncio.to_thread(print),
        from_a_thread,
        lambda loop: loop.getaddrinfo("localhost", 80),
        lambda loop: loop.create_connection(asyncio.Protocol, "localhost", 80),
        lambda loop: loop.create_server(asyncio.Protocol, "localhost", 80),
        lambda loop: asyncio.sleep(loop.add_signal_handler(15, print)),
        lambda loop: asyncio.sleep(loop.add_reader(0, print)),
    ],
)
def test_the_outside_is_refused(loop, reach_out):
    async def work():
        await reach_out(loop)

    with pytest.raises(NotSimulatedError, match=r"not simulated|no network"):
        loop.run_until_complete(work())


def test_an_exception_that_nobody_awaits_is_kept(loop):
    async def work():
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    loop.run_until_complete(work())
    (failure,) = loop.failures
    assert isinstance(failure["exception"], ZeroDivisionError)


def in_process(process):
    context = copy_context()
    context.run(current_process.set, process)
    return context


def order_of(seed: int) -> list[str]:
    loop, order = make_loop(Random(seed)), []

    async def work():
        for host in "ab":
            context = in_process(Process(host, 1))
            for number in range(5):
                loop.call_at(1, order.append, f"{host}{number}", context=context)
        await asyncio.sleep(2)

    loop.run_until_complete(work())
    loop.close()
    return order


def test_processes_that_are_due_together_run_in_an_order_drawn_by_the_seed():
    orders = [order_of(seed) for seed in range(5)]
    assert order_of(0) == orders[0]
    assert len({tuple(order) for order in orders}) > 1
    for order in orders:
        for host in "ab":
            assert [each for each in order if each[0] == host] == [f"{host}{number}" for number in range(5)]


def test_a_paused_process_does_later_what_it_missed_and_a_dead_one_never_does(loop):
    ran = []

    async def work():
        process = Process("a", 1)
        context = in_process(process)
        for number in range(3):
            loop.call_later(number, ran.append, (number, "due"), context=context)
        process.pause()
        await asyncio.sleep(1.5)
        assert ran == []
        loop.release(process)
        await asyncio.sleep(0)
        assert ran == [(0, "due"), (1, "due")]
        process.kill()
        await asyncio.sleep(5)

    loop.run_until_complete(work())
    assert len(ran) == 2


def test_events_are_counted_and_can_be_watched(loop):
    seen = []
    process = Process("a", 1)

    async def work():
        loop.on_event = seen.append
        loop.call_soon(int, context=in_process(process))
        await asyncio.sleep(1)

    loop.run_until_complete(work())
    assert process in seen
    assert None in seen
    assert loop.events >= len(seen)

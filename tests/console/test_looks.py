"""Values that are kept: read once at a time, only when somebody wants them, and never for good if they fail."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.console import Pages
from tierfetch.console.looks import KEPT_MAX, READING_S, Kept, KeptByKey, Seen
from tierfetch.protocol import ErrorCode, KafkaError
from tierfetch.tests.console.readers import FakeReader

pytestmark = pytest.mark.virtual_time


def now() -> float:
    return asyncio.get_running_loop().time()


class Source:
    """Counts up. A reading takes `takes_s`; `failure` is raised by it."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.count = 0
        self.takes_s = takes_s
        self.failure: Exception | None = None
        self.running = 0
        self.running_max = 0

    async def read(self) -> int:
        self.running += 1
        self.running_max = max(self.running_max, self.running)
        try:
            await asyncio.sleep(self.takes_s)
            if self.failure is not None:
                raise self.failure
            self.count += 1
            return self.count
        finally:
            self.running -= 1


async def test_many_readers_cost_one_reading() -> None:
    source = Source(takes_s=1)
    kept = Kept(source.read, interval_s=3, clock=now)
    assert set(await asyncio.gather(*(kept.get() for _ in range(50)))) == {Seen(1)}
    assert source.running_max == 1


async def test_nothing_is_read_while_nobody_looks() -> None:
    source = Source()
    kept = Kept(source.read, interval_s=3, clock=now)
    await kept.get()
    await asyncio.sleep(1000)
    assert source.count == 1
    assert await kept.get() == Seen(2), "after a long absence the reader waits for a new value"


async def test_within_the_pause_the_old_value_is_good_and_after_it_a_new_one_is_read_meanwhile() -> None:
    source = Source(takes_s=0.5)
    kept = Kept(source.read, interval_s=3, clock=now)
    await kept.get()
    await asyncio.sleep(2)
    assert await kept.get() == Seen(1)
    await asyncio.sleep(1.5)
    assert await kept.get() == Seen(1)
    await asyncio.sleep(1)
    assert await kept.get() == Seen(2)


async def test_a_large_cluster_is_left_alone_for_longer() -> None:
    source = Source(takes_s=5)
    kept = Kept(source.read, interval_s=3, clock=now)
    await kept.get()
    await asyncio.sleep(19)
    await kept.get()
    await asyncio.sleep(6)
    assert source.count == 1, "it took 5 s: the pause is 20 s"


async def test_a_value_that_expired_is_read_again_and_waited_for() -> None:
    source = Source(takes_s=1)
    kept = Kept(source.read, interval_s=100, clock=now)
    await kept.get()
    await asyncio.sleep(10)
    kept.expire()
    assert await kept.get() == Seen(2)
    assert now() == pytest.approx(12)
    assert await kept.get() == Seen(2), "once is enough"
    kept.expire()
    assert await kept.get() == Seen(3)
    assert now() == pytest.approx(14), "a pause as long as the last reading, then the reading"


async def test_a_reading_that_was_under_way_when_its_value_expired_is_not_the_last_word() -> None:
    source = Source(takes_s=1)
    kept = Kept(source.read, interval_s=100, clock=now)
    first = asyncio.create_task(kept.get())
    await asyncio.sleep(0.5)
    kept.expire()
    assert await first == Seen(1)
    assert kept.is_expired
    assert await kept.get() == Seen(2)
    assert not kept.is_expired


async def test_news_cuts_the_pause_of_a_stream_short() -> None:
    reader = FakeReader()
    pages = Pages(reader, interval_s=1000)
    await pages.overview()
    waiting = [asyncio.create_task(pages.news(1000)) for _ in range(3)]
    await asyncio.sleep(5)
    pages.expire()
    await asyncio.wait(waiting)
    assert now() == pytest.approx(5)
    await pages.news(1000)
    assert now() == pytest.approx(5), "what expired while a reader looked is not waited for"
    await pages.overview()
    assert reader.asked == ["look", "look"]
    await pages.news(1000)
    assert now() >= 1000
    await pages.close()


async def test_a_failure_keeps_the_old_value_and_says_why() -> None:
    source = Source()
    kept = Kept(source.read, interval_s=3, clock=now)
    await kept.get()
    source.failure = KafkaError(ErrorCode.not_controller, "no controller")
    await asyncio.sleep(100)
    seen = await kept.get()
    assert (seen.value, seen.error) == (1, "NOT_CONTROLLER: no controller")
    source.failure = None
    await asyncio.sleep(100)
    assert await kept.get() == Seen(2)


async def test_a_bug_of_ours_is_logged_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    source = Source()
    source.failure = AttributeError("x")
    kept = Kept(source.read, interval_s=3, clock=now)
    assert (await kept.get()).error == "internal error, see the output of the command"
    assert "AttributeError" in caplog.text
    source.failure = None
    await asyncio.sleep(100)
    assert await kept.get() == Seen(1)


async def test_a_cluster_that_hangs_costs_a_reader_its_patience_and_the_reading_its_deadline() -> None:
    source = Source(takes_s=10_000)
    kept = Kept(source.read, interval_s=3, patience_s=8, clock=now)
    began_s = now()
    assert await kept.get() == Seen(None, "the cluster has not answered within 8 s yet")
    assert now() - began_s == pytest.approx(8)
    await asyncio.sleep(READING_S)
    assert source.running == 0
    assert (await kept.get()).error == "the cluster did not answer within 60 s"


async def test_close_ends_what_is_under_way() -> None:
    source = Source(takes_s=10_000)
    kept = Kept(source.read, patience_s=1, clock=now)
    await kept.get()
    await kept.close()
    assert source.running == 0


async def test_a_walk_through_all_pages_keeps_a_limited_number() -> None:
    closed: list[int] = []

    async def read(key: int) -> int:
        try:
            await asyncio.sleep(10 if key == 0 else 0)
        except asyncio.CancelledError:
            closed.append(key)
            raise
        return key

    kept = KeptByKey(read)
    for key in range(KEPT_MAX + 1):
        seen = await kept.get(key)
        assert seen.value in (key, None)
    assert closed == [0], "the oldest page was dropped while it was read"
    await kept.close()

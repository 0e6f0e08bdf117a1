"""Partitions that rest in a fetch session: what a look at all of them would answer and do is answered and done.

Two brokers hear the same: one looks at what does not rest, the other, whose sessions let nothing rest, at everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import NO_EPOCHS, BrokerRegistration, PartitionRegistration
from tierfetch.broker.handlers.fetch import FetchHandler
from tierfetch.broker.handlers.fetch_reads import FetchReads
from tierfetch.broker.replicas.partition import Partition
from tierfetch.log.disk import OsDisk
from tierfetch.log.segment.slices import LogSlice
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.leader_sessions import FetchContext, FetchSessionCache, LeaderSession
from tierfetch.protocol.fetch.messages import READ_COMMITTED, FetchPartition, FetchPartitionResponse, FetchRequest
from tierfetch.protocol.fetch.session import FetchSession
from tierfetch.protocol.topics import TopicIdPartition, TopicPartition
from tierfetch.tests.broker.hosting import Host, append, batch
from tierfetch.tests.broker.requests import context_of
from tierfetch.tests.fakes.cluster_view import FakeClusterView

CONTEXT = context_of(ApiKey.FETCH, 17)
TOPICS = {"a": (1, 2), "b": (1, 2, 3), "c": (1, 3, 2), "d": (1, 2, 3)}
CONSUMER, COMMITTED_CONSUMER = -1, -2
FETCHERS = (2, 3, CONSUMER, COMMITTED_CONSUMER)
SLEEP_MS = 500

Told = list[tuple[str, FetchPartitionResponse, int]]
"""Topic, answer without its records, and where its records end (-1: there are none)."""


class NeverResting(FetchSessionCache):
    """All is looked at every time."""

    def continued_session(self, context: FetchContext) -> LeaderSession | None:
        return None


@dataclass
class Clock:
    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The loop's time; it stands still."""
    return Clock()


class Granting(FakeClusterView):
    """Every change of an ISR is made, and no image tells of it."""

    async def alter_partition(
        self,
        partition: TopicIdPartition,
        *,
        leader_epoch: int,
        partition_epoch: int,
        isr: Sequence[int],
        stated_epochs: Mapping[int, int] = NO_EPOCHS,
    ) -> PartitionRegistration:
        return PartitionRegistration(1, leader_epoch, partition_epoch + 1, (), tuple(isr))


class Broker:
    """Broker 1, with what its fetchers know of their sessions."""

    def __init__(self, host: Host, sessions: type[FetchSessionCache]) -> None:
        ids = Random(5)
        self.host = host
        self.cache = sessions(draw_id=lambda: ids.randint(1, 1_000_000))
        self.handler = FetchHandler(host.hosted, self.cache, None, max_bytes=1 << 20)
        self.fetchers = {fetcher: FetchSession() for fetcher in FETCHERS}

    def partition(self, topic: str) -> Partition:
        return self.host.hosted.partitions[TopicPartition(topic, 0)]

    async def fetch(self, fetcher: int, wanted: Mapping[str, FetchPartition], wait_ms: int) -> Told:
        topics = self.host.view.image.topics
        client = self.fetchers[fetcher]
        session = client.next_request({topics[topic].id_partition(0): each for topic, each in wanted.items()})
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            topics=tuple(replace(topic, topic="") for topic in session.topics),
            forgotten_topics=tuple(replace(topic, topic="") for topic in session.forgotten_topics),
            session_id=session.session_id,
            session_epoch=session.session_epoch,
            replica_id=max(fetcher, CONSUMER),
            isolation_level=READ_COMMITTED if fetcher == COMMITTED_CONSUMER else 0,
        )
        try:
            response = await self.handler.fetch(CONTEXT, request)
        except asyncio.CancelledError:
            client.request_failed()
            raise
        answers = client.response_received(response)
        return [(key.topic, _without_records(answer), _take(answer)) for key, answer in answers.items()]

    def state(self) -> dict[str, Any]:
        """What the fetches have done."""
        found: dict[str, Any] = {}
        for topic in TOPICS:
            partition = self.partition(topic)
            leadership = partition.leadership
            if leadership is not None:
                leadership.resting.note_positions()
                followers = dict(leadership.replicas.followers)
                found[topic] = (
                    partition.log.state.high_watermark,
                    leadership.isr,
                    leadership.low_watermark(),
                    followers,
                )
        return found


def _without_records(answer: FetchPartitionResponse) -> FetchPartitionResponse:
    return replace(answer, records=None)


def _take(answer: FetchPartitionResponse) -> int:
    if not isinstance(answer.records, LogSlice):
        return -1
    with answer.records:
        return answer.records.end_offset if answer.records.size else -1


@dataclass
class Scene:
    """Both brokers, and what their fetchers have by now. Whatever is done is done to both."""

    sparing: Broker
    looking: Broker
    clock: Clock
    rng: Random
    positions: dict[tuple[int, str], int] = field(default_factory=dict)
    log_starts: dict[tuple[int, str], int] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)

    @property
    def brokers(self) -> tuple[Broker, Broker]:
        return self.sparing, self.looking

    def wanted(self, fetcher: int) -> dict[str, FetchPartition]:
        topics = [topic for topic, replicas in TOPICS.items() if fetcher < 0 or fetcher in replicas]
        return {
            topic: FetchPartition(
                0,
                fetch_offset=self.positions.get((fetcher, topic), 0),
                log_start_offset=self.log_starts.get((fetcher, topic), 0) if fetcher >= 0 else -1,
            )
            for topic in topics
        }

    async def fetch(self, fetcher: int) -> None:
        wanted = self.wanted(fetcher)
        one, other = [await broker.fetch(fetcher, wanted, 0) for broker in self.brokers]
        self._took(fetcher, one, other)

    async def fetch_asleep(self, fetcher: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """Something happens while the request waits; then its time is over."""
        wanted = self.wanted(fetcher)
        tasks = [asyncio.create_task(broker.fetch(fetcher, wanted, SLEEP_MS)) for broker in self.brokers]
        await settled(tasks)
        await meanwhile()
        await settled(tasks)
        assert tasks[0].done() == tasks[1].done(), "only one of them was woken"
        self.clock.now_s += 1
        one, other = [await task for task in tasks]
        self._took(fetcher, one, other)

    async def fetch_cancelled(self, fetcher: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """The connection is lost while the request waits: what it has seen was not told."""
        wanted = self.wanted(fetcher)
        tasks = [asyncio.create_task(broker.fetch(fetcher, wanted, SLEEP_MS)) for broker in self.brokers]
        await settled(tasks)
        await meanwhile()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    def _took(self, fetcher: int, one: Told, other: Told) -> None:
        assert one == other
        for topic, answer, end_offset in one:
            self.log_starts[fetcher, topic] = max(self.log_starts.get((fetcher, topic), 0), answer.log_start_offset)
            if end_offset >= 0:
                self.positions[fetcher, topic] = end_offset
            elif answer.error_code is ErrorCode.offset_out_of_range:
                self.positions[fetcher, topic] = max(0, answer.log_start_offset)
            elif answer.diverging_epoch is not None:
                self.positions[fetcher, topic] = answer.diverging_epoch.end_offset

    async def append(self, topic: str) -> None:
        for broker in self.brokers:
            if broker.partition(topic).leadership is not None:
                await append(broker.partition(topic), batch(b"x"))

    async def raise_log_start(self, topic: str) -> None:
        for broker in self.brokers:
            log = broker.partition(topic).log
            await log.increment_log_start_offset(log.state.high_watermark)

    async def change_isr(self, topic: str) -> None:
        """By somebody else; the follower comes back by its fetches."""
        isr = [1, *self.rng.sample(TOPICS[topic][1:], self.rng.randint(0, len(TOPICS[topic]) - 1))]
        for broker in self.brokers:
            partition = broker.partition(topic)
            if partition.leadership is None or partition.registration is None:
                continue
            partition_epoch = partition.leadership.replicas.partition_epoch + 1
            partition.note_registration(
                replace(partition.registration, isr=tuple(isr), partition_epoch=partition_epoch)
            )

    async def step_down(self, topic: str) -> None:
        for broker in self.brokers:
            await broker.partition(topic).step_down(None)

    async def lead(self, topic: str) -> None:
        epoch = self.epochs[topic] = self.epochs.get(topic, 0) + 1
        for broker in self.brokers:
            registration = broker.partition(topic).registration
            assert registration is not None
            await broker.partition(topic).lead(replace(registration, leader_epoch=epoch, isr=(1,)))

    async def check_lag(self) -> None:
        for broker in self.brokers:
            for topic in TOPICS:
                leadership = broker.partition(topic).leadership
                if leadership is not None:
                    leadership.check_lag()

    async def rename_nothing(self) -> None:
        """A new image."""
        for broker in self.brokers:
            await broker.host.view.alter_broker_configs("", {"x": str(self.rng.random())})


async def settled(tasks: list[asyncio.Task[Told]]) -> None:
    """Each has ended, or sleeps: reads take a moment of a thread."""
    for _ in range(6):
        await asyncio.to_thread(int)
    for _ in range(2000):
        if tasks[0].done() == tasks[1].done():
            return
        await asyncio.to_thread(int)


@asynccontextmanager
async def scene_of(directory: Path, clock: Clock, seed: int) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        brokers = []
        for number, sessions in enumerate((FetchSessionCache, NeverResting)):
            disk = OsDisk(threads=1)
            stack.push_async_callback(disk.close)
            view = Granting()
            for node in (1, 2, 3):
                await view.register(BrokerRegistration(node, "127.0.0.1", 9000 + node, None, (UUID(int=node),)))
            host = Host(view, disk, directory / str(number))
            stack.push_async_callback(host.close)
            for topic, replicas in TOPICS.items():
                await host.topic(topic, *replicas)
            brokers.append(Broker(host, sessions))
        yield Scene(brokers[0], brokers[1], clock, Random(seed))


async def step(scene: Scene) -> None:
    rng = scene.rng
    topic = rng.choice(list(TOPICS))
    changes: list[tuple[int, Callable[[], Awaitable[None]]]] = [
        (6, lambda: scene.append(topic)),
        (2, lambda: scene.raise_log_start(topic)),
        (2, lambda: scene.change_isr(topic)),
        (1, lambda: scene.step_down(topic)),
        (2, lambda: scene.lead(topic)),
        (1, scene.check_lag),
        (1, scene.rename_nothing),
        (4, lambda: scene.fetch(rng.choice([each for each in FETCHERS if each != sleeper]))),
    ]
    sleeper = rng.choice(FETCHERS)
    (change,) = rng.choices([each for _, each in changes], [weight for weight, _ in changes])
    scene.clock.now_s += rng.choice([0.0, 0.1, 1.0, 20.0])
    kind = rng.random()
    if kind < 0.5:
        await scene.fetch(rng.choice(FETCHERS))
        await scene.fetch(sleeper)
    elif kind < 0.65:
        await change()
    elif kind < 0.95:
        await scene.fetch_asleep(sleeper, change)
    else:
        await scene.fetch_cancelled(sleeper, change)


@pytest.mark.parametrize("seed", range(8))
async def test_what_rests_is_answered_as_a_look_would(tmp_path: Path, clock: Clock, seed: int) -> None:
    loop = asyncio.get_running_loop()
    rested = 0
    loop.time = clock  # type: ignore[method-assign]
    async with scene_of(tmp_path, clock, seed) as scene:
        for _ in range(60):
            await step(scene)
            assert scene.sparing.state() == scene.looking.state()
            leaderships = [scene.sparing.partition(topic).leadership for topic in TOPICS]
            rested += sum(len(each.resting) for each in leaderships if each is not None)
    assert rested > 20, "nothing has been compared"


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics that are looked at from now on."""
    looked: list[str] = []
    read = FetchReads._read

    async def reads(self: FetchReads, partition: Partition, *args: Any, **kwargs: Any) -> Any:
        looked.append(partition.partition.topic)
        return await read(self, partition, *args, **kwargs)

    monkeypatch.setattr(FetchReads, "_read", reads)
    return looked


@pytest.fixture
async def broker(host: Host) -> Broker:
    for topic, replicas in TOPICS.items():
        await host.topic(topic, *replicas)
    return Broker(host, FetchSessionCache)


def positions(offset: int = 0, **others: int) -> dict[str, FetchPartition]:
    return {
        topic: FetchPartition(0, fetch_offset=others.get(topic, offset), log_start_offset=0)
        for topic, replicas in TOPICS.items()
        if 2 in replicas
    }


@pytest.mark.parametrize("fetcher", [2, CONSUMER])
async def test_a_request_costs_what_has_moved(broker: Broker, monkeypatch: pytest.MonkeyPatch, fetcher: int) -> None:
    looked = counted(monkeypatch)
    await broker.fetch(fetcher, positions(), 0)
    assert looked == list(TOPICS)
    await broker.fetch(fetcher, positions(), 0)
    assert looked == list(TOPICS)
    partition = broker.partition("c")
    await append(partition, batch(b"x"))
    partition.log.update_high_watermark(1)
    told = await broker.fetch(fetcher, positions(), 0)
    assert looked == [*TOPICS, "c"]
    assert [(topic, end_offset) for topic, _, end_offset in told] == [("c", 1)]


async def test_a_follower_that_has_to_join_its_isr_does_not_rest(broker: Broker) -> None:
    partition = broker.partition("b")
    assert partition.registration is not None
    partition.note_registration(replace(partition.registration, isr=(1, 3), partition_epoch=1))
    await broker.fetch(2, positions(), 0)
    assert [len(broker.partition(topic).leader().resting) for topic in TOPICS] == [1, 0, 1, 1]


async def test_a_closed_session_rests_nowhere(broker: Broker) -> None:
    await broker.fetch(2, positions(), 0)
    assert all(len(broker.partition(topic).leader().resting) == 1 for topic in TOPICS)
    broker.fetchers[2].request_failed()
    await broker.fetch(2, {"a": FetchPartition(0, log_start_offset=0)}, 0)
    assert [len(broker.partition(topic).leader().resting) for topic in TOPICS] == [1, 0, 0, 0]
    assert len(broker.cache) == 1


async def test_a_fetch_that_sleeps_is_woken_by_what_rests(broker: Broker) -> None:
    await broker.fetch(2, positions(), 0)
    sleeping = asyncio.create_task(broker.fetch(2, positions(), 5_000))
    await asyncio.sleep(0)
    partition = broker.partition("d")
    await append(partition, batch(b"x"))
    assert [(topic, end_offset) for topic, _, end_offset in await sleeping] == [("d", 1)]
    assert (len(partition.log_end_news), len(partition.high_watermark_news)) == (0, 0)


async def test_a_fetch_that_sleeps_is_told_of_a_partition_that_goes(host: Host, broker: Broker) -> None:
    """It is not to be found any more by the time that its leadership ends."""
    await broker.fetch(2, positions(), 0)
    sleeping = asyncio.create_task(broker.fetch(2, positions(), 5_000))
    await asyncio.sleep(0)
    gone = host.hosted.remove(TopicPartition("b", 0))
    await gone.close()
    answers = await sleeping
    await gone.log.abandon()
    assert [(topic, answer.error_code) for topic, answer, _ in answers] == [("b", ErrorCode.not_leader_or_follower)]


async def test_C7_a_follower_that_rested_was_caught_up_until_its_last_request(broker: Broker) -> None:
    """Else the first append after a quiet time would find it far behind."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    clock = loop.time = Clock(began_s)  # type: ignore[method-assign]
    await broker.fetch(2, positions(), 0)
    clock.now_s += 3600
    await broker.fetch(2, positions(), 0)
    clock.now_s += 1
    partition = broker.partition("a")
    await append(partition, batch(b"x"))
    partition.leader().check_lag()
    assert partition.leader().replicas.pending_isr is None
    assert partition.leader().replicas.followers[2].last_caught_up_time_ms == int((began_s + 3600) * 1000)

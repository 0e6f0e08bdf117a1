"""A Fetch of partitions some of which are in the tier: the reads begin together, and nothing local waits for them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Collection

import pytest

from tierfetch.broker.handlers import tier_reads
from tierfetch.broker.handlers.fetch import FetchHandler
from tierfetch.log.core import LogConfig
from tierfetch.log.segment.slices import LogSlice
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.fetch.leader_sessions import FetchSessionCache
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tierfetch.protocol.fetch.session import SESSION_ID_MAX
from tierfetch.rlm.reader import RemoteRead, RemoteRecords
from tierfetch.tests.broker.hosting import Host, append, batch
from tierfetch.tests.broker.requests import context_of
from tierfetch.tests.turns import turns

CONTEXT = context_of(ApiKey.FETCH, 12)
LONG_MS = 3_600_000
NO_RECORDS = RemoteRecords(memoryview(b""), 1)


class SlowTier:
    """Answers nothing until the test says what. `cached` topics are answered within the first step of a read."""

    def __init__(self, cached: Collection[str] = ()) -> None:
        self.cached = set(cached)
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self._waiting: dict[str, asyncio.Future[RemoteRecords | None]] = {}

    async def read(self, request: RemoteRead) -> RemoteRecords | None:
        topic = request.partition.topic
        self.begun.append(topic)
        if topic in self.cached:
            return records_of(topic)
        self._waiting[topic] = asyncio.get_running_loop().create_future()
        try:
            return await self._waiting[topic]
        except asyncio.CancelledError:
            self.cancelled.append(topic)
            raise

    def answer(self, topic: str, answer: RemoteRecords | KafkaError | None) -> None:
        if isinstance(answer, KafkaError):
            self._waiting[topic].set_exception(answer)
        else:
            self._waiting[topic].set_result(answer)


def records_of(topic: str, size: int = 0) -> RemoteRecords:
    return RemoteRecords(memoryview(f"from {topic}".encode().ljust(size)), 3)


async def topics(host: Host, tiered: Collection[str], local: Collection[str] = ()) -> None:
    for name in tiered:
        partition = await host.topic(name, 1, config=LogConfig(segment_bytes=100, remote_storage_enable=True))
        await append(partition, *(batch(b"a" * 30) for _ in range(4)))
        await partition.log.delete_local_segments(3)
    for name in local:
        await append(await host.topic(name, 1), batch(b"local"))


def fetch(host: Host, tier: SlowTier, *names: str, min_bytes: int = 1, max_bytes: int = 1 << 20) -> asyncio.Task[Found]:
    ids = random.Random(1)
    cache = FetchSessionCache(draw_id=lambda: ids.randint(1, SESSION_ID_MAX), slots=10)
    handler = FetchHandler(host.hosted, cache, tier, max_bytes=1 << 20)
    wanted = tuple(FetchTopic((FetchPartition(0, fetch_offset=0),), name) for name in names)
    request = FetchRequest(topics=wanted, max_wait_ms=LONG_MS, min_bytes=min_bytes, max_bytes=max_bytes)
    return asyncio.create_task(found(handler.fetch(CONTEXT, request)))


Found = dict[str, tuple[ErrorCode, str]]


async def found(response: Awaitable[FetchResponse]) -> Found:
    """Return, by topic, the error and what the records say: "local" for those of the local log."""
    answers: Found = {}
    for topic in (await response).topics:
        (answer,) = topic.partitions
        if isinstance(answer.records, LogSlice):
            answer.records.release()
            answers[str(topic.topic)] = answer.error_code, "local"
        else:
            answers[str(topic.topic)] = answer.error_code, bytes(answer.records or b"").decode().strip()
    return answers


def ok(text: str) -> tuple[ErrorCode, str]:
    return ErrorCode.none, text


async def test_R4_D7_local_partitions_do_not_wait_for_the_tier(host: Host) -> None:
    names = [f"t{number}" for number in range(20)]
    await topics(host, names, ["local"])
    tier = SlowTier()
    answers = await fetch(host, tier, *names, "local")
    assert answers == {**dict.fromkeys(names, ok("")), "local": ok("local")}
    assert tier.begun == tier.cancelled == names


async def test_R4_D7_reads_of_the_tier_begin_together_and_what_is_ready_is_sent(host: Host) -> None:
    names = [f"t{number}" for number in range(20)]
    await topics(host, names)
    tier = SlowTier()
    fetching = fetch(host, tier, *names)
    await turns(100)
    assert (tier.begun, fetching.done()) == (names, False)
    tier.answer("t7", records_of("t7"))
    tier.answer("t3", records_of("t3"))
    answers = await fetching
    assert {name: answer for name, answer in answers.items() if answer != ok("")} == {
        "t3": ok("from t3"),
        "t7": ok("from t7"),
    }
    assert tier.cancelled == [name for name in names if name not in {"t3", "t7"}]


async def test_R4_D7_what_is_cached_is_sent_beside_local_records(host: Host) -> None:
    await topics(host, ["slow", "cached"], ["local"])
    tier = SlowTier(cached=["cached"])
    answers = await fetch(host, tier, "slow", "cached", "local")
    assert answers == {"slow": ok(""), "cached": ok("from cached"), "local": ok("local")}


async def test_R4_D7_fewer_local_bytes_than_asked_for_wait_for_the_tier(host: Host) -> None:
    await topics(host, ["t"], ["local"])
    tier = SlowTier()
    fetching = fetch(host, tier, "t", "local", min_bytes=100_000)
    await turns(100)
    assert not fetching.done()
    tier.answer("t", NO_RECORDS)  # as it does when its time is over
    assert await fetching == {"t": ok(""), "local": ok("local")}


async def test_R4_D7_a_request_ends_with_the_last_of_its_reads(host: Host) -> None:
    await topics(host, ["a", "b"])
    tier = SlowTier()
    fetching = fetch(host, tier, "a", "b", min_bytes=100_000)
    await turns(20)
    tier.answer("a", NO_RECORDS)
    tier.answer("b", NO_RECORDS)
    assert await fetching == {"a": ok(""), "b": ok("")}


async def test_R4_D7_a_partition_whose_read_fails_is_answered_alone(host: Host) -> None:
    await topics(host, ["bad", "good"])
    tier = SlowTier(cached=["good"])
    fetching = fetch(host, tier, "bad", "good", min_bytes=100_000)
    await turns(20)
    assert await fetching == {"bad": ok(""), "good": ok("from good")}
    fetching = fetch(host, tier, "bad", min_bytes=100_000)
    await turns(20)
    tier.answer("bad", KafkaError(ErrorCode.kafka_storage_error, "the tier is down"))
    assert await fetching == {"bad": (ErrorCode.kafka_storage_error, "")}


async def test_R4_D7_the_tier_is_waited_for_once(host: Host) -> None:
    await topics(host, ["t"])
    tier = SlowTier()
    fetching = fetch(host, tier, "t")
    await turns(20)
    tier.answer("t", None)  # local by now, and no longer when it is decided again
    assert await fetching == {"t": ok("")}
    assert (tier.begun, tier.cancelled) == (["t", "t"], ["t"])


async def test_R4_D7_what_does_not_fit_beside_other_records_comes_next_time(host: Host) -> None:
    await topics(host, ["first", "large"])
    tier = SlowTier()
    fetching = fetch(host, tier, "first", "large", max_bytes=50)
    await turns(20)
    tier.answer("first", records_of("first", 30))
    tier.answer("large", records_of("large", 30))
    assert await fetching == {"first": ok("from first"), "large": ok("")}


async def test_R4_D7_a_request_that_is_cancelled_leaves_no_read(host: Host) -> None:
    await topics(host, ["a", "b"])
    tier = SlowTier()
    fetching = fetch(host, tier, "a", "b")
    await turns(20)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert tier.cancelled == ["a", "b"]


async def test_R4_D7_one_request_has_so_many_reads_under_way(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier_reads, "TIER_READS_MAX", 2)
    await topics(host, ["a", "b", "c"])
    tier = SlowTier()
    fetching = fetch(host, tier, "a", "b", "c")
    await turns(20)
    assert tier.begun == ["a", "b"]
    tier.answer("a", records_of("a"))
    assert await fetching == {"a": ok("from a"), "b": ok(""), "c": ok("")}

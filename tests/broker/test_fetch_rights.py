"""Fetch sessions of consumers whose rights are limited: what may not be read is told, and rights that change count at
the next request.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from uuid import UUID

from tierfetch.broker.handlers.fetch import FetchHandler
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.leader_sessions import FetchSessionCache
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchResponse, FetchTopic, release_records
from tierfetch.protocol.wire.primitives import part_size
from tierfetch.tests.broker.hosting import Host, append, batch
from tierfetch.tests.broker.requests import context_of
from tierfetch.tests.turns import turns

NONE, DENIED = ErrorCode.none, ErrorCode.topic_authorization_failed


class Rights:
    """The topics that may be read, by name."""

    def __init__(self, *topics: str) -> None:
        self.topics = frozenset(topics)
        self.asked = 0

    @property
    def version(self) -> object:
        return self.topics

    def may_read(self, topic: str | UUID) -> bool:
        self.asked += 1
        return topic in self.topics


class Consumer:
    """One session's requests, with the rights that it has at each."""

    def __init__(self, host: Host) -> None:
        ids = random.Random(1)
        sessions = FetchSessionCache(draw_id=lambda: ids.randint(1, 100), slots=10)
        self._handler = FetchHandler(host.hosted, sessions, None, max_bytes=1 << 20)
        self._session_id = 0
        self._epoch = 0

    async def fetch(
        self, rights: Rights, *topics: str, offset: int = 0, max_wait_ms: int = 0
    ) -> dict[str, tuple[ErrorCode, int]]:
        """Return error and size of what is told, by topic."""
        asked = tuple(FetchTopic((FetchPartition(0, fetch_offset=offset),), name) for name in topics)
        request = FetchRequest(max_wait_ms, 1, asked, session_id=self._session_id, session_epoch=self._epoch)
        context = replace(context_of(ApiKey.FETCH, 12), rights=rights)
        response: FetchResponse = await self._handler.fetch(context, request)
        assert response.error_code is NONE
        assert response.session_id
        self._session_id, self._epoch = response.session_id, self._epoch + 1
        told = {
            topic.topic: (item.error_code, part_size(item.records or b""))
            for topic in response.topics
            for item in topic.partitions
        }
        release_records(response)
        return told


async def test_a_session_tells_each_time_what_may_not_be_read(host: Host) -> None:
    for name in ("open", "secret"):
        await append(await host.topic(name, 1), batch(b"a"))
    consumer, rights = Consumer(host), Rights("open")
    first = await consumer.fetch(rights, "open", "secret")
    size = first["open"][1]
    assert size > 0
    assert first == {"open": (NONE, size), "secret": (DENIED, 0)}
    assert await consumer.fetch(rights) == first
    assert await consumer.fetch(rights, "open", offset=1) == {"secret": (DENIED, 0)}


async def test_rights_that_come_and_go_count_at_the_next_request(host: Host) -> None:
    for name in ("one", "two"):
        await append(await host.topic(name, 1), batch(b"a"))
    consumer = Consumer(host)
    await consumer.fetch(Rights("one", "two"), "one", "two", offset=1)
    assert await consumer.fetch(Rights("one", "two")) == {}, "both rest"
    assert await consumer.fetch(Rights("one")) == {"two": (DENIED, 0)}
    assert await consumer.fetch(Rights("one")) == {"two": (DENIED, 0)}
    told = await consumer.fetch(Rights("one", "two"))
    assert told == {"two": (NONE, 0)}, "its offsets are told again after an error"


async def test_a_consumer_that_may_read_nothing_is_told_at_once(host: Host) -> None:
    await host.topic("secret", 1)
    async with asyncio.timeout(30):
        told = await Consumer(host).fetch(Rights(), "secret", max_wait_ms=600_000)
    assert told == {"secret": (DENIED, 0)}


async def test_what_may_not_be_read_does_not_hurry_the_rest_nor_wake_it(host: Host) -> None:
    opened, secret = await host.topic("open", 1), await host.topic("secret", 1)
    rights = Rights("open")
    fetching = asyncio.create_task(Consumer(host).fetch(rights, "open", "secret", max_wait_ms=600_000))
    await turns()
    looked = rights.asked
    await append(secret, batch(b"hidden"))
    await turns()
    assert not fetching.done()
    assert rights.asked == looked, "nothing woke it"
    await append(opened, batch(b"a"))
    async with asyncio.timeout(30):
        told = await fetching
    assert {name: code for name, (code, _) in told.items()} == {"open": NONE, "secret": DENIED}

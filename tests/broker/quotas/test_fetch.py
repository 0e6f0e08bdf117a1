"""Fetches of consumers that have a quota: how much they get; a throttled one gets nothing (KIP-13, KIP-219)."""

from __future__ import annotations

import random
from typing import Any

from tierfetch.broker.handlers.fetch import FetchHandler
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.leader_sessions import FetchSessionCache
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchResponse, FetchTopic, release_records
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.wire.primitives import part_size
from tierfetch.tests.broker.hosting import Host, append, batch
from tierfetch.tests.broker.requests import context_of

CONTEXT = context_of(ApiKey.FETCH, 12)


class Quota:
    """Says what the test says, and remembers what was to be sent."""

    def __init__(self, *waits_ms: int, bytes_max: int | None = None) -> None:
        self.asked: list[int] = []
        self._waits_ms = list(waits_ms)
        self._bytes_max = bytes_max

    def fetch_bytes_max(self, _: RequestContext) -> int | None:
        return self._bytes_max

    def throttle_fetch(self, _: RequestContext, size: int) -> int:
        self.asked.append(size)
        return self._waits_ms.pop(0) if self._waits_ms else 0


def handler(host: Host, quota: Quota) -> FetchHandler:
    ids = random.Random(1)
    sessions = FetchSessionCache(draw_id=lambda: ids.randint(1, 100), slots=10)
    return FetchHandler(host.hosted, sessions, None, max_bytes=1 << 20, quota=quota)


def request(**fields: Any) -> FetchRequest:
    values: dict[str, Any] = {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "topics": (FetchTopic((FetchPartition(0, fetch_offset=0),), "t"),),
        **fields,
    }
    return FetchRequest(**values)


def size_of(response: FetchResponse) -> int:
    size = sum(part_size(item.records or b"") for topic in response.topics for item in topic.partitions)
    release_records(response)
    return size


async def test_a_throttled_fetch_is_empty_and_keeps_its_session(host: Host) -> None:
    partition = await host.topic("t", 1)
    await append(partition, batch(b"a"))
    quota = Quota(0, 700)
    fetches = handler(host, quota)
    first = await fetches.fetch(CONTEXT, request(session_epoch=0))
    assert first.session_id
    size = size_of(first)
    throttled = await fetches.fetch(CONTEXT, request(topics=(), session_id=first.session_id, session_epoch=1))
    assert throttled == FetchResponse((), ErrorCode.none, first.session_id, 700)
    again = await fetches.fetch(CONTEXT, request(topics=(), session_id=first.session_id, session_epoch=2))
    assert (again.throttle_time_ms, size_of(again)) == (0, size)
    assert quota.asked == [size, size, size]


async def test_a_throttled_first_fetch_begins_no_session(host: Host) -> None:
    partition = await host.topic("t", 1)
    await append(partition, batch(b"a"))
    throttled = await handler(host, Quota(700)).fetch(CONTEXT, request(session_epoch=0))
    assert throttled == FetchResponse((), throttle_time_ms=700)


async def test_a_consumer_gets_no_more_at_once_than_its_quota_lets_it_have(host: Host) -> None:
    partition = await host.topic("t", 1)
    await append(partition, *(batch(b"x" * 1000) for _ in range(5)))
    whole = size_of(await handler(host, Quota()).fetch(CONTEXT, request()))
    some = size_of(await handler(host, Quota(bytes_max=2 * whole // 5)).fetch(CONTEXT, request(min_bytes=whole)))
    first = size_of(await handler(host, Quota(bytes_max=1)).fetch(CONTEXT, request()))
    assert (some, first) == (2 * whole // 5, whole // 5)


async def test_replicas_are_not_asked_about(host: Host) -> None:
    partition = await host.topic("t", 1, 2)
    await append(partition, batch(b"a"))
    quota = Quota(700, bytes_max=0)
    of_replica = FetchPartition(0, fetch_offset=0, log_start_offset=0)
    asked = request(topics=(FetchTopic((of_replica,), "t"),), replica_id=2)
    response = await handler(host, quota).fetch(CONTEXT, asked)
    assert response.throttle_time_ms == 0
    assert size_of(response) > 0
    assert quota.asked == []

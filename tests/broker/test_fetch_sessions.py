"""Fetch sessions (KIP-227) as the broker keeps them."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.fetch_sessions import FetchContext, FetchKey, FetchSessionCache
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.fetch_wire import (
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)


def request(
    session_id: int, epoch: int, *numbers: int, offset: int = 0, forgotten: tuple[int, ...] = (), **fields: Any
) -> FetchRequest:
    topics = (FetchTopic(tuple(FetchPartition(n, fetch_offset=offset) for n in numbers), topic="t"),) if numbers else ()
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=topics,
        session_id=session_id,
        session_epoch=epoch,
        forgotten_topics=(ForgottenTopic(forgotten, topic="t"),) if forgotten else (),
        **fields,
    )


def answers(
    context: FetchContext, high_watermark: int = 5, records: tuple[int, ...] = (), **fields: Any
) -> list[tuple[FetchKey, FetchPartitionResponse, bool]]:
    return [
        (key, FetchPartitionResponse(key[1], high_watermark=high_watermark, **fields), key[1] in records)
        for key, _ in context.partitions
    ]


def numbers(context: FetchContext) -> list[int]:
    return [key[1] for key, _ in context.partitions]


@pytest.fixture
def cache() -> FetchSessionCache:
    return FetchSessionCache(slots=2, rng=random.Random(1))


def told(context: FetchContext, **what: Any) -> list[int]:
    """Numbers of the partitions in the response."""
    given = answers(context, **what)
    return [given[index][1].partition for index in context.select(given)]


def test_no_session_is_answered_in_full(cache: FetchSessionCache) -> None:
    context = cache.open(request(0, -1, 0, 1), now_ms=0)
    assert (context.session_id, told(context), told(context)) == (0, [0, 1], [0, 1])
    assert len(cache) == 0


def test_only_news_is_told(cache: FetchSessionCache) -> None:
    first = cache.open(request(0, 0, 0, 1, 2), now_ms=0)
    session = first.session_id
    assert session > 0
    assert told(first) == [0, 1, 2]
    nothing_new = cache.open(request(session, 1), now_ms=1)
    assert told(nothing_new) == []
    assert told(cache.open(request(session, 2), now_ms=2), records=(1,)) == [1]
    assert told(cache.open(request(session, 3), now_ms=3), high_watermark=6) == [0, 2, 1]
    assert told(cache.open(request(session, 4), now_ms=4), high_watermark=6, log_start_offset=3) == [0, 2, 1]


@pytest.mark.parametrize(
    "trouble", [{"error_code": ErrorCode.not_leader_or_follower}, {"diverging_epoch": EpochEndOffset(1, 3)}]
)
def test_trouble_is_told_each_time_and_the_recovery_once(cache: FetchSessionCache, trouble: dict[str, Any]) -> None:
    first = cache.open(request(0, 0, 0), now_ms=0)
    told(first)
    session = first.session_id
    assert told(cache.open(request(session, 1), now_ms=0), **trouble) == [0]
    assert told(cache.open(request(session, 2), now_ms=0), **trouble) == [0]
    assert told(cache.open(request(session, 3), now_ms=0)) == [0]
    assert told(cache.open(request(session, 4), now_ms=0)) == []


def test_partitions_are_added_changed_and_forgotten(cache: FetchSessionCache) -> None:
    session = cache.open(request(0, 0, 0, 1), now_ms=0).session_id
    changed = cache.open(request(session, 1, 1, 2, offset=7, forgotten=(0,)), now_ms=0)
    assert [(key[1], wanted.fetch_offset) for key, wanted in changed.partitions] == [(1, 7), (2, 7)]


def test_partitions_with_records_go_to_the_end(cache: FetchSessionCache) -> None:
    first = cache.open(request(0, 0, 0, 1, 2), now_ms=0)
    told(first, records=(0,))
    assert numbers(cache.open(request(first.session_id, 1), now_ms=0)) == [1, 2, 0]


def test_unknown_session_and_wrong_epoch(cache: FetchSessionCache) -> None:
    session = cache.open(request(0, 0, 0), now_ms=0).session_id
    for asked, code in (
        (request(session + 1, 1), ErrorCode.fetch_session_id_not_found),
        (request(session, 2), ErrorCode.invalid_fetch_session_epoch),
    ):
        with pytest.raises(KafkaError) as caught:
            cache.open(asked, now_ms=0)
        assert caught.value.code is code


def test_session_used_by_two_requests_at_once(cache: FetchSessionCache) -> None:
    session = cache.open(request(0, 0, 0), now_ms=0).session_id
    slow = cache.open(request(session, 1), now_ms=0)
    cache.open(request(session, 2), now_ms=0)
    with pytest.raises(KafkaError) as caught:
        told(slow)
    assert caught.value.code is ErrorCode.invalid_fetch_session_epoch


def test_names_and_ids_do_not_mix(cache: FetchSessionCache) -> None:
    session = cache.open(request(0, 0, 0), now_ms=0).session_id
    by_id = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=(FetchTopic((FetchPartition(0),), topic_id=UUID(int=1)),),
        session_id=session,
        session_epoch=1,
    )
    with pytest.raises(KafkaError) as caught:
        cache.open(by_id, now_ms=0)
    assert caught.value.code is ErrorCode.fetch_session_topic_id_error


def test_a_new_session_ends_the_old_one(cache: FetchSessionCache) -> None:
    old = cache.open(request(0, 0, 0), now_ms=0).session_id
    new = cache.open(request(old, 0, 0), now_ms=0).session_id
    assert (new != old, len(cache)) == (True, 1)
    assert cache.open(request(new, -1, 0), now_ms=0).session_id == 0
    assert len(cache) == 0


def test_epochs_wrap_to_one(cache: FetchSessionCache) -> None:
    session = cache.open(request(0, 0, 0), now_ms=0).session_id
    cache._sessions[session].epoch = 2**31 - 1
    cache.open(request(session, 2**31 - 1), now_ms=0)
    assert cache._sessions[session].epoch == 1


def test_slots_are_given_to_followers_before_consumers(cache: FetchSessionCache) -> None:
    consumers = [cache.open(request(0, 0, 0), now_ms=n).session_id for n in range(2)]
    assert cache.open(request(0, 0, 0), now_ms=2).session_id == 0
    follower = cache.open(request(0, 0, 0, replica_id=2), now_ms=3).session_id
    assert follower > 0
    with pytest.raises(KafkaError):
        cache.open(request(consumers[0], 1), now_ms=4)
    assert cache.open(request(0, 0, 0, replica_id=3), now_ms=5).session_id > 0
    assert cache.open(request(0, 0, 0, replica_id=4), now_ms=6).session_id == 0
    assert cache.open(request(0, 0, 0), now_ms=120_003).session_id > 0


def test_no_session_without_slots_or_partitions() -> None:
    assert FetchSessionCache(0, random.Random(1)).open(request(0, 0, 0), now_ms=0).session_id == 0
    assert FetchSessionCache(5, random.Random(1)).open(request(0, 0), now_ms=0).session_id == 0

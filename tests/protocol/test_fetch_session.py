"""Fetch sessions: each row of the module's table, and a fetcher and a leader that never lose sight of each other."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.fetch.leader_sessions import (
    UNCONFIRMED_MS,
    AskedPartition,
    FetchContext,
    FetchSessionCache,
    LeaderSession,
    PartitionKey,
)
from tierfetch.protocol.fetch.messages import (
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from tierfetch.protocol.fetch.session import EPOCH_MAX, SESSION_ID_MAX, FetchSession, SessionRequest, next_epoch
from tierfetch.protocol.topics import TopicIdPartition

TOPIC_ID = UUID(int=9)
EVICTION_MS = 1000


def key(partition: int) -> TopicIdPartition:
    return TopicIdPartition(TOPIC_ID, "t", partition)


def wanted(*partitions: int, offset: int = 0) -> dict[TopicIdPartition, FetchPartition]:
    return {key(number): FetchPartition(number, fetch_offset=offset) for number in partitions}


def request(session: SessionRequest, replica_id: int = 1, *, by_topic_id: bool = False) -> FetchRequest:
    """As the leader reads it: topics by name or by id."""
    name_only: dict[str, Any] = {"topic_id": None}
    kept = {"topic": ""} if by_topic_id else name_only
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=tuple(replace(topic, **kept) for topic in session.topics),
        replica_id=replica_id,
        session_id=session.session_id,
        session_epoch=session.session_epoch,
        forgotten_topics=tuple(replace(topic, **kept) for topic in session.forgotten_topics),
    )


def answers(context: FetchContext, **fields: Any) -> dict[AskedPartition, FetchPartitionResponse]:
    return {asked: FetchPartitionResponse(asked.key.partition, **fields) for asked in context.partitions}


def numbers(context: FetchContext) -> list[int]:
    return [asked.key.partition for asked in context.partitions]


def answered(response: FetchResponse) -> list[int]:
    return [partition.partition for topic in response.topics for partition in topic.partitions]


class Slice:
    """Records that nobody sends."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_released = False

    def at_once(self) -> bytes | None:
        return None

    async def send(self, transport: Any) -> None:
        raise AssertionError("dropped answers are not sent")

    def release(self) -> None:
        self.is_released = True


class Leader:
    """A session cache with a clock, that gives every partition the same answer."""

    def __init__(self, **options: Any) -> None:
        ids = Random(1)

        def draw_id() -> int:
            return ids.randint(1, SESSION_ID_MAX)

        self.cache = FetchSessionCache(draw_id=draw_id, **({"eviction_ms": EVICTION_MS} | options))
        self.now_ms = 0

    def begin(self, fetch: FetchRequest, *, by_topic_id: bool = False) -> FetchContext:
        return self.cache.begin(fetch, api_version=13 if by_topic_id else 12, now_ms=self.now_ms)

    def exchange(self, fetch: FetchRequest, **fields: Any) -> FetchResponse:
        context = self.begin(fetch)
        return self.cache.respond(context, answers(context, **fields), now_ms=self.now_ms)

    def open(self, *partitions: int, replica_id: int = 1) -> int:
        """The id of a new session."""
        return self.exchange(request(FetchSession().next_request(wanted(*partitions)), replica_id)).session_id


# The leader's side.


def test_without_a_session_everything_is_answered_every_time() -> None:
    leader = Leader()
    fetch = request(SessionRequest(0, -1, FetchSession().next_request(wanted(1, 2)).topics, ()))
    for _ in range(2):
        response = leader.exchange(fetch)
        assert (response.session_id, answered(response)) == (0, [1, 2])
    assert len(leader.cache) == 0


def test_a_session_is_told_only_news() -> None:
    leader, fetcher = Leader(), FetchSession()
    first = leader.exchange(request(fetcher.next_request(wanted(1, 2))), high_watermark=5)
    assert first.session_id > 0
    assert answered(first) == [1, 2]
    assert len(fetcher.response_received(first)) == 2
    second = leader.exchange(request(fetcher.next_request(wanted(1, 2))), high_watermark=5)
    assert (second.session_id, answered(second)) == (first.session_id, [])


@pytest.mark.parametrize(
    "news",
    [
        {"records": b"x"},
        {"high_watermark": 6},
        {"log_start_offset": 1},
        {"error_code": ErrorCode.not_leader_or_follower},
        {"diverging_epoch": EpochEndOffset(1, 2)},
        {"preferred_read_replica": 3},
    ],
    ids=lambda news: next(iter(news)),
)
def test_what_is_news(news: dict[str, Any]) -> None:
    leader, fetcher = Leader(), FetchSession()
    same = {"high_watermark": 5, "log_start_offset": 0}
    fetcher.response_received(leader.exchange(request(fetcher.next_request(wanted(1))), **same))
    response = leader.exchange(request(fetcher.next_request(wanted(1))), **(same | news))
    assert answered(response) == [1]


def test_a_high_watermark_is_news_until_the_follower_has_taken_it() -> None:
    leader, fetcher = Leader(), FetchSession()
    for follower_has in (60, 60, 100, 100):
        asked = {key(0): FetchPartition(0, fetch_offset=100, high_watermark=follower_has)}
        response = leader.exchange(request(fetcher.next_request(asked)), high_watermark=110)
        fetcher.response_received(response)
        assert answered(response) == ([0] if follower_has == 60 else [])


@pytest.mark.parametrize(
    "untaken", [{"error_code": ErrorCode.kafka_storage_error}, {"diverging_epoch": EpochEndOffset(1, 2)}]
)
def test_what_nobody_takes_a_high_watermark_from_is_told_once_more(untaken: dict[str, Any]) -> None:
    leader, fetcher = Leader(), FetchSession()

    def exchange(**fields: Any) -> list[int]:
        response = leader.exchange(request(fetcher.next_request(wanted(1))), high_watermark=5, **fields)
        return [item.partition for item in fetcher.response_received(response)]

    assert exchange() == [1]
    assert exchange(**untaken) == [1]
    assert exchange() == [1]
    assert exchange() == []


def test_changes_are_taken_in_and_forgotten_partitions_leave() -> None:
    leader, fetcher = Leader(), FetchSession()
    fetcher.response_received(leader.exchange(request(fetcher.next_request(wanted(1, 2, 3)))))
    change = fetcher.next_request(wanted(1, 3) | wanted(2, 4, offset=7))
    assert [[partition.partition for partition in topic.partitions] for topic in change.topics] == [[2, 4]]
    fetcher.response_received(leader.exchange(request(change)))
    removal = fetcher.next_request(wanted(1) | wanted(4, offset=7))
    assert removal.topics == ()
    assert [sorted(topic.partitions) for topic in removal.forgotten_topics] == [[2, 3]]
    context = leader.begin(request(removal))
    assert {asked.key: asked.wanted for asked in context.partitions} == {
        PartitionKey("t", 1): FetchPartition(1),
        PartitionKey("t", 4): FetchPartition(4, fetch_offset=7),
    }


def test_partitions_that_got_records_go_to_the_end() -> None:
    leader, fetcher = Leader(), FetchSession()
    fetcher.response_received(leader.exchange(request(fetcher.next_request(wanted(1, 2, 3)))))
    context = leader.begin(request(fetcher.next_request(wanted(1, 2, 3))))
    some = {
        asked: FetchPartitionResponse(asked.key.partition, records=b"x" * (asked.key.partition < 3))
        for asked in context.partitions
    }
    fetcher.response_received(leader.cache.respond(context, some, now_ms=0))
    context = leader.begin(request(fetcher.next_request(wanted(1, 2, 3))))
    assert numbers(context) == [3, 1, 2]


@pytest.mark.parametrize(
    ("change", "by_topic_id", "error"),
    [
        ({"session_id": 12345, "session_epoch": 1}, False, ErrorCode.fetch_session_id_not_found),
        ({"session_epoch": 2}, False, ErrorCode.invalid_fetch_session_epoch),
        ({"session_epoch": -7}, False, ErrorCode.invalid_fetch_session_epoch),
        ({}, True, ErrorCode.fetch_session_topic_id_error),
    ],
)
def test_a_request_that_does_not_fit_its_session(change: dict[str, int], by_topic_id: bool, error: ErrorCode) -> None:
    leader = Leader()
    session: dict[str, Any] = {"session_id": leader.open(1), "session_epoch": 1} | change
    context = leader.begin(FetchRequest(max_wait_ms=0, min_bytes=0, topics=(), **session), by_topic_id=by_topic_id)
    assert (context.error_code, numbers(context)) == (error, [])
    response = leader.cache.respond(context, {}, now_ms=0)
    assert (response.error_code, response.session_id, response.topics) == (error, 0, ())


def test_two_requests_at_once_in_one_session_get_one_answer() -> None:
    leader, fetcher = Leader(), FetchSession()
    fetcher.response_received(leader.exchange(request(fetcher.next_request(wanted(1)))))
    slow = request(fetcher.next_request(wanted(1)))
    context = leader.begin(slow)
    fast = leader.begin(
        FetchRequest(max_wait_ms=0, min_bytes=0, topics=(), session_id=slow.session_id, session_epoch=2)
    )
    assert leader.cache.respond(fast, answers(fast), now_ms=0).error_code is ErrorCode.none
    dropped = Slice(10)
    response = leader.cache.respond(context, answers(context, records=dropped), now_ms=0)
    assert response.error_code is ErrorCode.invalid_fetch_session_epoch
    assert dropped.is_released


def test_slices_that_are_no_news_are_released() -> None:
    leader, fetcher = Leader(), FetchSession()
    fetcher.response_received(leader.exchange(request(fetcher.next_request(wanted(1)))))
    dropped = Slice(0)
    assert answered(leader.exchange(request(fetcher.next_request(wanted(1))), records=dropped)) == []
    assert dropped.is_released


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_request_closes_the_session_that_it_names(epoch: int) -> None:
    leader = Leader()
    old = leader.open(1)
    leader.exchange(FetchRequest(max_wait_ms=0, min_bytes=0, topics=(), session_id=old, session_epoch=epoch))
    context = leader.begin(FetchRequest(max_wait_ms=0, min_bytes=0, topics=(), session_id=old, session_epoch=1))
    assert context.error_code is ErrorCode.fetch_session_id_not_found


def test_a_full_request_leaves_nothing_out() -> None:
    """What it asks for is all that it wants: there is nothing before it to forget."""
    leader, fetcher = Leader(), FetchSession()
    fetcher.response_received(leader.exchange(request(fetcher.next_request(wanted(1)))))
    forgotten = request(fetcher.next_request({})).forgotten_topics
    full = replace(request(FetchSession().next_request(wanted(1, 2))), forgotten_topics=forgotten)
    assert answered(leader.exchange(full)) == [1, 2]


def test_a_session_that_wants_nothing_is_closed() -> None:
    leader, fetcher = Leader(), FetchSession()
    fetcher.response_received(leader.exchange(request(fetcher.next_request(wanted(1)))))
    forget = SessionRequest(fetcher._id, 1, (), fetcher.next_request(wanted(2)).forgotten_topics)
    response = leader.exchange(request(forget))
    assert (response.session_id, len(leader.cache)) == (0, 0)


def test_epochs_wrap_to_one() -> None:
    assert next_epoch(0) == 1
    assert next_epoch(EPOCH_MAX) == 1


# Rest.


def asked_of(session: LeaderSession, number: int) -> AskedPartition:
    return session.partitions["t", number]


def resting(leader: Leader, fetcher: FetchSession, *to_rest: int) -> tuple[LeaderSession, list[int]]:
    """A session of partitions 1 to 4 of which some rest, and the list of those whose watch it has ended."""
    fetcher.response_received(leader.exchange(request(fetcher.next_request(wanted(1, 2, 3, 4)))))
    (session,) = leader.cache._sessions.values()
    ended: list[int] = []
    for number in to_rest:
        assert session.rest(asked_of(session, number), partial(ended.append, number))
    return session, ended


def numbers_to_look_at(leader: Leader, fetch: FetchRequest) -> list[int]:
    return numbers(leader.begin(fetch))


def test_what_rests_is_left_out_until_it_is_roused() -> None:
    leader, fetcher = Leader(), FetchSession()
    session, ended = resting(leader, fetcher, 2, 4)
    context = leader.begin(request(fetcher.next_request(wanted(1, 2, 3, 4))))
    assert numbers(context) == [1, 3]
    session.on_woken.append(lambda asked: heard.append(asked.key.partition))
    heard: list[int] = []
    session.wake(asked_of(session, 2))
    assert numbers(context) == [1, 2, 3]
    assert (heard, ended) == ([2], [])


def test_what_is_said_of_a_partition_ends_its_rest() -> None:
    leader, fetcher = Leader(), FetchSession()
    _, ended = resting(leader, fetcher, 1, 2, 3, 4)
    change = fetcher.next_request(wanted(1, 4) | wanted(2, offset=7))
    assert numbers_to_look_at(leader, request(change)) == [2]
    assert sorted(ended) == [2, 3]


@pytest.mark.parametrize(
    "terms", [{"replica_id": 2}, {"replica_epoch": 5}, {"isolation_level": 1}, {"rack_id": "r"}], ids=str
)
def test_on_other_terms_nothing_rests(terms: dict[str, Any]) -> None:
    leader, fetcher = Leader(), FetchSession()
    _, ended = resting(leader, fetcher, 2, 3)
    fetch = request(fetcher.next_request(wanted(1, 2, 3, 4)))
    assert numbers_to_look_at(leader, replace(fetch, **terms)) == [1, 2, 3, 4]
    assert ended == [2, 3]


def test_on_another_foundation_nothing_rests() -> None:
    leader, fetcher = Leader(), FetchSession()
    _, ended = resting(leader, fetcher, 2, 3)
    fetch = request(fetcher.next_request(wanted(1, 2, 3, 4)))
    context = leader.cache.begin(fetch, api_version=12, now_ms=0, foundation="another")
    assert numbers(context) == [1, 2, 3, 4]
    assert ended == [2, 3]


def test_the_order_outlasts_a_rest() -> None:
    leader, fetcher = Leader(), FetchSession()
    session, _ = resting(leader, fetcher, 4)
    context = leader.begin(request(fetcher.next_request(wanted(1, 2, 3, 4))))
    some = {
        asked: FetchPartitionResponse(asked.key.partition, records=b"x" * (asked.key.partition == 1))
        for asked in context.partitions
    }
    fetcher.response_received(leader.cache.respond(context, some, now_ms=0))
    session.wake(asked_of(session, 4))
    session.rest(asked_of(session, 2), lambda: None)
    assert numbers_to_look_at(leader, request(fetcher.next_request(wanted(1, 2, 3, 4)))) == [3, 4, 1]


def test_a_session_that_is_closed_ends_every_rest() -> None:
    leader, fetcher = Leader(), FetchSession()
    session, ended = resting(leader, fetcher, 1, 3)
    fetcher.request_failed()
    leader.exchange(request(fetcher.next_request(wanted(1))))
    assert ended == [1, 3]
    assert not session.rest(asked_of(session, 2), lambda: None)


def test_a_session_that_makes_room_ends_every_rest() -> None:
    leader, fetcher = Leader(slots=1), FetchSession()
    _, ended = resting(leader, fetcher, 1, 3)
    leader.now_ms += EVICTION_MS + 1
    assert leader.open(1) > 0
    assert ended == [1, 3]


# Room.


def test_without_room_a_fetcher_goes_on_without_a_session() -> None:
    leader = Leader(slots=1)
    assert leader.open(1) > 0
    fetcher = FetchSession()
    response = leader.exchange(request(fetcher.next_request(wanted(1))))
    assert response.session_id == 0
    assert list(fetcher.response_received(response)) == [key(1)]
    again = fetcher.next_request(wanted(1))
    assert (again.session_id, again.session_epoch, len(again.topics)) == (0, 0, 1)


def test_no_slots_means_no_sessions() -> None:
    assert Leader(slots=0).open(1) == 0


@pytest.mark.parametrize(
    ("old", "new", "wait_ms", "evicted"),
    [
        ((1, -1), (1, 2), 0, False),
        ((1, -1), (1, -1), EVICTION_MS + 1, True),
        ((1, -1), (2, -1), EVICTION_MS, False),
        ((5, 1), (1, -1), EVICTION_MS + 1, True),
    ],
    ids=["too new", "not used", "not long enough", "an unused follower"],
)
def test_an_unused_session_makes_room(old: tuple[int, int], new: tuple[int, int], wait_ms: int, evicted: bool) -> None:
    leader = Leader(slots=1)
    leader.open(*range(old[0]), replica_id=old[1])
    leader.now_ms += wait_ms
    assert (leader.open(*range(new[0]), replica_id=new[1]) > 0) == evicted


@pytest.mark.parametrize(
    ("old", "new", "evicted"),
    [
        ((5, -1), (1, 1), True),
        ((1, 1), (5, -1), False),
        ((1, -1), (2, -1), True),
        ((2, -1), (2, -1), False),
        ((1, 1), (2, 1), True),
    ],
)
def test_a_session_in_use_makes_room_for_a_more_valuable_one(
    old: tuple[int, int], new: tuple[int, int], evicted: bool
) -> None:
    leader, fetcher = Leader(slots=1), FetchSession()
    fetcher.response_received(leader.exchange(request(fetcher.next_request(wanted(*range(old[0]))), old[1])))
    leader.now_ms += EVICTION_MS + 1
    leader.exchange(request(fetcher.next_request(wanted(*range(old[0]))), old[1]))
    assert (leader.open(*range(new[0]), replica_id=new[1]) > 0) == evicted


# The fetcher's side.


def full_response(*partitions: int, session_id: int = 7, error: ErrorCode = ErrorCode.none) -> FetchResponse:
    topics = (FetchTopicResponse(tuple(map(FetchPartitionResponse, partitions)), "t"),) if partitions else ()
    return FetchResponse(topics=topics, session_id=session_id, error_code=error)


@pytest.mark.parametrize(
    ("response", "fault", "session_id"),
    [
        (
            full_response(error=ErrorCode.fetch_session_id_not_found),
            "FETCH_SESSION_ID_NOT_FOUND: the leader refuses",
            0,
        ),
        (full_response(error=ErrorCode.invalid_fetch_session_epoch), "INVALID_FETCH_SESSION_EPOCH: the leader", 7),
        (full_response(1, 5), "the leader answers t-5 unasked", 7),
    ],
)
def test_after_a_fault_the_session_starts_anew(response: FetchResponse, fault: str, session_id: int) -> None:
    fetcher = FetchSession()
    fetcher.next_request(wanted(1, 2))
    assert list(fetcher.response_received(full_response(1, 2))) == [key(1), key(2)]
    assert fetcher.next_request(wanted(1, 2)) == SessionRequest(7, 1, (), ())
    with pytest.raises(KafkaError, match=fault):
        fetcher.response_received(response)
    anew = fetcher.next_request(wanted(1, 2))
    assert (anew.session_id, anew.session_epoch) == (session_id, 0)
    assert [len(topic.partitions) for topic in anew.topics] == [2]


@pytest.mark.parametrize("seed", range(20))
def test_what_was_touched_makes_the_same_requests_as_a_look_at_all(seed: int) -> None:
    random = Random(seed)
    all_seen, some_seen = FetchSession(), FetchSession()
    asked: dict[TopicIdPartition, FetchPartition] = {}
    untold: set[TopicIdPartition] = set()
    for _ in range(40):
        for number in random.sample(range(6), 2):
            untold.add(key(number))
            asked.pop(key(number), None)
            if random.random() < 0.7:
                asked |= wanted(number, offset=random.randrange(3))
        requests = [all_seen.next_request(asked), some_seen.next_request(asked, sorted(untold))]
        untold.clear()
        assert len({(each.session_id, each.session_epoch) for each in requests}) == 1
        forgotten = [{each for topic in request.forgotten_topics for each in topic.partitions} for request in requests]
        assert forgotten[0] == forgotten[1]
        sent = [{each.partition: each for topic in request.topics for each in topic.partitions} for request in requests]
        assert sent[0] == sent[1]
        assert all_seen.asked() == some_seen.asked()
        if random.random() < 0.1:
            all_seen.request_failed()
            some_seen.request_failed()
            continue
        response = full_response(*(each.partition for each in asked))
        for session in (all_seen, some_seen):
            assert session.response_received(response).keys() == asked.keys()


def test_a_session_that_the_leader_gave_up_is_opened_anew() -> None:
    fetcher = FetchSession()
    fetcher.next_request(wanted(1))
    fetcher.response_received(full_response(1))
    fetcher.next_request(wanted(1))
    assert fetcher.response_received(full_response(session_id=0)) == {}
    anew = fetcher.next_request(wanted(1))
    assert (anew.session_id, anew.session_epoch, len(anew.topics)) == (0, 0, 1)


def test_a_full_response_that_leaves_something_out_is_not_used() -> None:
    fetcher = FetchSession()
    fetcher.next_request(wanted(1, 2))
    with pytest.raises(KafkaError, match="the leader leaves out t-2-"):
        fetcher.response_received(full_response(1))


def test_after_a_lost_response_the_session_starts_anew() -> None:
    fetcher = FetchSession()
    fetcher.next_request(wanted(1))
    fetcher.response_received(full_response(1))
    fetcher.next_request(wanted(1))
    fetcher.request_failed()
    anew = fetcher.next_request(wanted(1))
    assert (anew.session_id, anew.session_epoch, len(anew.topics)) == (7, 0, 1)


def test_answers_are_matched_by_id_and_by_name() -> None:
    fetcher = FetchSession()
    answer = FetchPartitionResponse(1, high_watermark=3)
    for topic in (FetchTopicResponse((answer,), "t"), FetchTopicResponse((answer,), "", TOPIC_ID)):
        fetcher.next_request(wanted(1))
        assert fetcher.response_received(FetchResponse(topics=(topic,), session_id=7)) == {key(1): answer}


def test_a_recreated_topic_is_another_partition() -> None:
    fetcher = FetchSession()
    old, new = key(1), TopicIdPartition(UUID(int=10), "t", 1)
    fetcher.next_request({old: FetchPartition(1)})
    topic = FetchTopicResponse((FetchPartitionResponse(1),), "", TOPIC_ID)
    fetcher.response_received(FetchResponse(topics=(topic,), session_id=7))
    change = fetcher.next_request({new: FetchPartition(1)})
    assert [topic.topic_id for topic in change.topics] == [UUID(int=10)]
    assert [topic.topic_id for topic in change.forgotten_topics] == [TOPIC_ID]


# Both together.

STEP = st.fixed_dictionaries(
    {
        "wanted": st.dictionaries(st.integers(0, 5), st.integers(0, 3), min_size=1),
        "news": st.dictionaries(st.integers(0, 5), st.integers(0, 3)),
        "fate": st.sampled_from(["ok", "ok", "ok", "request lost", "response lost", "evicted"]),
    }
)


@pytest.mark.slow
@settings(max_examples=200)
@given(steps=st.lists(STEP, max_size=15), by_topic_id=st.booleans())
def test_the_leader_knows_what_the_fetcher_wants_and_the_fetcher_what_the_leader_has(
    steps: list[dict[str, Any]], by_topic_id: bool
) -> None:
    """Whatever is lost: a response that is used was made from exactly the wanted partitions, and after it the fetcher
    knows each one's high watermark as the leader has it.
    """
    leader, fetcher = Leader(), FetchSession()
    high_watermarks = dict.fromkeys(range(6), 0)
    known: dict[int, int] = {}
    for step in steps:
        high_watermarks |= step["news"]
        asked = {key(number): FetchPartition(number, fetch_offset=offset) for number, offset in step["wanted"].items()}
        fetch = request(fetcher.next_request(asked), by_topic_id=by_topic_id)
        if step["fate"] == "evicted":
            leader.cache._sessions.clear()
        if step["fate"] == "request lost":
            fetcher.request_failed()
            continue
        context = leader.begin(fetch, by_topic_id=by_topic_id)
        told = {
            each: FetchPartitionResponse(each.key.partition, high_watermark=high_watermarks[each.key.partition])
            for each in context.partitions
        }
        response = leader.cache.respond(context, told, now_ms=0)
        if step["fate"] == "response lost":
            fetcher.request_failed()
            continue
        if response.error_code is not ErrorCode.none:
            assert response.error_code is ErrorCode.fetch_session_id_not_found
            with pytest.raises(KafkaError):
                fetcher.response_received(response)
            continue
        used = fetcher.response_received(response)
        assert {each.key.partition: each.wanted for each in context.partitions} == {
            item.partition: each for item, each in asked.items()
        }
        known |= {item.partition: answer.high_watermark for item, answer in used.items()}
        assert {number: known[number] for number in step["wanted"]} == {
            number: high_watermarks[number] for number in step["wanted"]
        }


def test_sessions_remember_so_many_partitions_and_the_least_recently_used_give_way() -> None:
    leader = Leader(partitions_max=10)
    large, small = leader.open(*range(6), replica_id=-1), leader.open(1, 2, 3, replica_id=-1)
    assert leader.open(*range(7), replica_id=-1) == 0, "no session of its size would give way"
    assert leader.open(*range(10), replica_id=5) > 0, "followers have room of their own"
    assert leader.open(*range(4), replica_id=-1) > 0
    assert large not in leader.cache._sessions
    assert small in leader.cache._sessions


def test_sessions_of_a_growing_fetcher_that_never_learnt_their_ids_give_way_to_its_next_one() -> None:
    """A follower whose partitions are being created gives up fetch after fetch; none of its sessions is as large as the
    next one.
    """
    leader = Leader(partitions_max=30, eviction_ms=120_000)
    for size in range(1, 8):
        assert leader.open(*range(size)) > 0
    assert leader.open(*range(8)) == 0, "they may have learnt them"
    leader.now_ms += UNCONFIRMED_MS
    assert leader.open(*range(8)) == 0
    leader.now_ms += 1
    assert leader.open(*range(8)) > 0
    assert [len(session.partitions) for session in leader.cache._sessions.values()] == [4, 5, 6, 7, 8]


def test_a_session_that_is_continued_keeps_its_room_until_it_has_been_unused_for_long() -> None:
    leader, fetcher = Leader(partitions_max=10), FetchSession()
    for _ in range(2):
        fetcher.response_received(leader.exchange(request(fetcher.next_request(wanted(1, 2, 3)))))
    leader.now_ms += EVICTION_MS
    assert leader.open(*range(8)) == 0
    leader.now_ms += 1
    assert leader.open(*range(8)) > 0


def test_a_session_that_grows_too_large_is_closed() -> None:
    leader, fetcher = Leader(partitions_max=3), FetchSession()
    fetcher.response_received(leader.exchange(request(fetcher.next_request(wanted(1, 2)))))
    response = leader.exchange(request(fetcher.next_request(wanted(1, 2, 3, 4))))
    assert response.error_code is ErrorCode.fetch_session_id_not_found
    assert len(leader.cache) == 0

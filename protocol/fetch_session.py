"""Incremental fetch sessions (KIP-227): both sides, without I/O.

A session is the leader's memory of what one fetcher wants. The fetcher then sends changes only, and the leader answers
only partitions that have something to tell.

| request: id, epoch | means | answered |
|---|---|---|
| any, -1 | no session; closes session `id` | every partition; session id 0 |
| any, 0 | new session; closes session `id` | every partition; the new id, or 0 where there is no room |
| id, n > 0 | `topics` are added or changed, `forgotten_topics` removed | partitions with news; the id |
| unknown id | | error FETCH_SESSION_ID_NOT_FOUND |
| wrong n | another request with this session came between | error INVALID_FETCH_SESSION_EPOCH |
| topics by id where the session has names, or the reverse | | error FETCH_SESSION_TOPIC_ID_ERROR |

News: records, an error, another high watermark or log start than last told, a high watermark that a follower has not
taken though it was told (its log was opened anew), a diverging epoch, a preferred replica.
After an error, and after a diverging epoch, upon which a follower cuts its log and takes nothing else, the partition is
told once more, even if nothing changed. A partition that was given records goes to the
end of the order in which the leader reads, so that a size limit starves nobody.

Rest: a partition of which another look would tell nothing new may rest (`LeaderSession.rest`): it is not among those
to look at until it is roused. It is, when the request says anything of it, when its watcher says that it has moved, and
with all the others when a request comes on other terms (another replica, isolation level, rack, version) or on another
`foundation`. Requests thus cost what has changed, not what is asked for.

Room: a new session takes a slot from one that was not used for `eviction_ms`, else from the least valuable of those
older than `eviction_ms`, if it is less valuable itself: followers before consumers, larger before smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count, groupby
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from .errors import ErrorCode, KafkaError
from .fetch_messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
    release_records_of,
)
from .fetch_wire import TOPIC_ID_SINCE
from .leader_hints import NodeEndpoint
from .primitives import part_size
from .topics import TopicIdPartition

NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
SESSION_ID_MAX: Final = 2**31 - 1


class PartitionKey(NamedTuple):
    """A partition as its request names it: the topic's name, or its id from version 13 on."""

    topic: str | UUID
    partition: int


T = TypeVar("T")
_Answers = Mapping[PartitionKey, FetchPartitionResponse]


def next_epoch(epoch: int) -> int:
    """The epoch of the request after one with `epoch`; wraps to 1, because 0 opens a new session."""
    return 1 if epoch == EPOCH_MAX else epoch + 1


def wanted_partitions(request: FetchRequest) -> dict[PartitionKey, FetchPartition]:
    """In the order of the request."""
    return {
        PartitionKey(topic.topic_id or topic.topic, partition.partition): partition
        for topic in request.topics
        for partition in topic.partitions
    }


# The leader's side.


@dataclass(slots=True)
class _CachedPartition:
    """What was asked last, and what was told last; `turn` orders the reading."""

    wanted: FetchPartition
    turn: int
    high_watermark: int = -1
    log_start_offset: int = -1

    def tell(self, answer: FetchPartitionResponse) -> bool:
        """Take the answer as told; whether it was news."""
        is_error = answer.error_code is not ErrorCode.none
        is_news = (
            is_error
            or _has_records(answer)
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
            or self.wanted.can_raise_to(answer.high_watermark)
            or answer.diverging_epoch is not None
            or answer.preferred_read_replica >= 0
        )
        is_taken = not is_error and answer.diverging_epoch is None
        self.high_watermark = answer.high_watermark if is_taken else -1
        self.log_start_offset = answer.log_start_offset
        return is_news


Roused = Callable[[PartitionKey, FetchPartition], None]


@dataclass(eq=False, slots=True)
class LeaderSession:
    """`epoch` is what the next request must have. `id` is NO_SESSION_ID until the session has a slot, `used_ms` when
    its last request came.
    """

    by_topic_id: bool
    is_follower: bool
    terms: tuple[object, ...]
    foundation: object
    used_ms: int
    partitions: dict[PartitionKey, _CachedPartition] = field(default_factory=dict)
    id: int = NO_SESSION_ID
    epoch: int = next_epoch(INITIAL_EPOCH)
    created_ms: int = 0
    is_open: bool = True
    on_roused: list[Roused] = field(default_factory=list)
    """Told of each partition that is roused: requests that are being answered meanwhile."""
    _resting: dict[PartitionKey, Callable[[], None]] = field(default_factory=dict)
    """With what ends the watch over each."""
    _due: set[PartitionKey] = field(default_factory=set)
    """The others."""
    _due_now: dict[PartitionKey, FetchPartition] | None = None
    """What `due` has told last, until that changes."""
    _turns: count[int] = field(default_factory=count)

    def value(self) -> tuple[bool, int]:
        return self.is_follower, len(self.partitions)

    def due(self) -> dict[PartitionKey, FetchPartition]:
        """The partitions to look at now, in the order in which to read them."""
        if self._due_now is None:
            partitions = self.partitions
            order = sorted(self._due, key=lambda key: partitions[key].turn) if self._resting else partitions
            self._due_now = {key: partitions[key].wanted for key in order}
        return self._due_now

    def rest(self, key: PartitionKey, end_watch: Callable[[], None]) -> bool:
        """Leave this partition out until `rouse`; False if it cannot be. `end_watch` is called if it ends otherwise."""
        if not self.is_open or key not in self._due:
            return False
        self._due.discard(key)
        self._due_now = None
        self._resting[key] = end_watch
        return True

    def rouse(self, key: PartitionKey) -> None:
        """Its watcher says that it has moved."""
        del self._resting[key]
        self._due.add(key)
        self._due_now = None
        for listener in self.on_roused:
            listener(key, self.partitions[key].wanted)

    def renew(self, terms: tuple[object, ...], foundation: object) -> None:
        """What requests come with: on other terms, or another foundation, nothing rests."""
        if terms != self.terms or foundation is not self.foundation:
            self.terms, self.foundation = terms, foundation
            self._disturb(list(self._resting))

    def update(self, wanted: Mapping[PartitionKey, FetchPartition], forgotten: Iterable[PartitionKey]) -> None:
        self._disturb(wanted)
        self._due_now = None
        for key, partition in wanted.items():
            cached = self.partitions.get(key)
            if cached is not None:
                cached.wanted = partition
            else:
                self.partitions[key] = _CachedPartition(partition, next(self._turns))
                self._due.add(key)
        for key in forgotten:
            self._disturb((key,))
            self.partitions.pop(key, None)
            self._due.discard(key)

    def close(self) -> None:
        self.is_open = False
        self._disturb(list(self._resting))

    def _disturb(self, keys: Iterable[PartitionKey]) -> None:
        for key in keys if self._resting else ():
            end_watch = self._resting.pop(key, None)
            if end_watch is not None:
                self._due.add(key)
                self._due_now = None
                end_watch()

    def tell(self, answers: _Answers) -> _Answers:
        """The answers that are news. Those partitions that get records move to the end of the order."""
        news: dict[PartitionKey, FetchPartitionResponse] = {}
        for key, answer in answers.items():
            cached = self.partitions.get(key)
            if cached is None or not cached.tell(answer):
                continue
            news[key] = answer
            if _has_records(answer) and cached is not next(reversed(self.partitions.values())):
                self.partitions[key] = self.partitions.pop(key)
                self._due_now = None
                cached.turn = next(self._turns)
        return news


@dataclass(frozen=True, slots=True)
class FetchContext:
    """One request. With an `error_code` it has no partitions, and is answered at once. `wanted` is what a request
    without a session asks for.
    """

    wanted: Mapping[PartitionKey, FetchPartition]
    error_code: ErrorCode = ErrorCode.none
    session: LeaderSession | None = None
    epoch: int = INITIAL_EPOCH

    @property
    def partitions(self) -> Mapping[PartitionKey, FetchPartition]:
        """To look at now, in the order in which to read them: all that do not rest."""
        return self.wanted if self.session is None else self.session.due()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for, and nothing rests."""
        return not (self.wanted if self.session is None else self.session.partitions)


class FetchSessionCache:
    """The sessions of one leader, at most `slots`. `draw_id` gives a random id from 1 to `SESSION_ID_MAX`: what one
    client must not guess of another.
    """

    def __init__(self, *, draw_id: Callable[[], int], slots: int = 1000, eviction_ms: int = 120_000) -> None:
        self._draw_id = draw_id
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, LeaderSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, *, api_version: int, now_ms: int, foundation: object = None) -> FetchContext:
        """Take in one request, as the table says. `foundation` is what answers depend on beside their partitions."""
        wanted = wanted_partitions(request)
        by_topic_id = api_version >= TOPIC_ID_SINCE
        terms = (request.replica_id, request.replica_epoch, request.isolation_level, request.rack_id, api_version)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._close(request.session_id)
            if request.session_epoch == FINAL_EPOCH:
                return FetchContext(wanted)
            opened = LeaderSession(by_topic_id, request.replica_id >= 0, terms, foundation, now_ms)
            opened.update(wanted, ())
            return FetchContext({}, session=opened)
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchContext({}, ErrorCode.fetch_session_id_not_found)
        if session.epoch != request.session_epoch:
            return FetchContext({}, ErrorCode.invalid_fetch_session_epoch)
        if session.by_topic_id != by_topic_id:
            return FetchContext({}, ErrorCode.fetch_session_topic_id_error)
        session.renew(terms, foundation)
        session.update(wanted, _forgotten_partitions(request))
        if not session.partitions:
            self._close(session.id)
            return FetchContext({})
        session.epoch = next_epoch(session.epoch)
        session.used_ms = now_ms
        return FetchContext({}, session=session, epoch=session.epoch)

    def respond(
        self,
        context: FetchContext,
        answers: Mapping[PartitionKey, FetchPartitionResponse],
        *,
        now_ms: int,
        node_endpoints: tuple[NodeEndpoint, ...] = (),
    ) -> FetchResponse:
        """The response, from an answer for each partition that was to be looked at. What is left out is released."""
        session = context.session
        if context.error_code is not ErrorCode.none:
            return _response({}, NO_SESSION_ID, (), context.error_code)
        if session is None:
            return _response(answers, NO_SESSION_ID, node_endpoints)
        if session.id == NO_SESSION_ID:
            session.tell(answers)
            return _response(answers, self._admit(session, now_ms), node_endpoints)
        if session.epoch != context.epoch:
            for answer in answers.values():
                release_records_of(answer)
            return _response({}, NO_SESSION_ID, (), ErrorCode.invalid_fetch_session_epoch)
        news = session.tell(answers)
        if len(news) < len(answers):
            for key, answer in answers.items():
                if key not in news:
                    release_records_of(answer)
        return _response(news, session.id, node_endpoints)

    def is_told(self, context: FetchContext) -> LeaderSession | None:
        """After `respond`: the session that goes on from its response, if one does."""
        session = context.session
        if session is None or self._sessions.get(session.id) is not session:
            return None
        return session if context.epoch in (INITIAL_EPOCH, session.epoch) else None

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def _admit(self, session: LeaderSession, now_ms: int) -> int:
        """Give the session a slot and an id; NO_SESSION_ID if there is nothing to remember or no room."""
        if not session.partitions or not self._make_room(session, now_ms):
            return NO_SESSION_ID
        while session.id == NO_SESSION_ID or session.id in self._sessions:
            session.id = self._draw_id()
        session.created_ms = now_ms
        self._sessions[session.id] = session
        return session.id

    def _make_room(self, session: LeaderSession, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        limit_ms = now_ms - self._eviction_ms
        stalest = min(self._sessions.values(), key=lambda other: other.used_ms, default=None)
        if stalest is not None and stalest.used_ms < limit_ms:
            self._close(stalest.id)
            return True
        settled = [other for other in self._sessions.values() if other.created_ms < limit_ms]
        cheapest = min(settled, key=LeaderSession.value, default=None)
        if cheapest is None or cheapest.value() >= session.value():
            return False
        self._close(cheapest.id)
        return True


def _forgotten_partitions(request: FetchRequest) -> list[PartitionKey]:
    return [
        PartitionKey(topic.topic_id or topic.topic, partition)
        for topic in request.forgotten_topics
        for partition in topic.partitions
    ]


def _has_records(answer: FetchPartitionResponse) -> bool:
    return answer.records is not None and part_size(answer.records) > 0


def _response(
    answers: _Answers, session_id: int, node_endpoints: tuple[NodeEndpoint, ...], error_code: ErrorCode = ErrorCode.none
) -> FetchResponse:
    topics = []
    for topic, group in groupby(answers.items(), key=lambda item: item[0].topic):
        partitions = tuple([answer for _, answer in group])
        name, topic_id = (topic, None) if isinstance(topic, str) else ("", topic)
        topics.append(FetchTopicResponse(partitions, name, topic_id))
    return FetchResponse(
        topics=tuple(topics), error_code=error_code, session_id=session_id, node_endpoints=node_endpoints
    )


# The fetcher's side.


@dataclass(slots=True)
class SessionRequest:
    """What a request says of its session; to be put into a `FetchRequest`."""

    session_id: int
    session_epoch: int
    topics: tuple[FetchTopic, ...]
    forgotten_topics: tuple[ForgottenTopic, ...]


class FetchSession:
    """One fetcher's session with one leader. Each request is followed by `response_received` or `request_failed`
    before the next is made. Topics carry name and id, so that a request can be sent in any version.
    """

    def __init__(self) -> None:
        self._id = NO_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._told: dict[TopicIdPartition, FetchPartition] = {}
        """What the leader knows, if it got the last request."""
        self._asked: dict[tuple[str | UUID, int], TopicIdPartition] = {}

    def next_request(
        self, wanted: Mapping[TopicIdPartition, FetchPartition], touched: Iterable[TopicIdPartition] | None = None
    ) -> SessionRequest:
        """The request that makes the leader answer all of `wanted`: all of it, or the difference to the last one, which
        is among `touched` where that is given.
        """
        if self._epoch == INITIAL_EPOCH:
            self._told, self._asked = {}, {}
            touched = None
        told = self._told
        if touched is None:
            touched = [*(key for key in told if key not in wanted), *wanted]
        changed: list[tuple[TopicIdPartition, FetchPartition]] = []
        forgotten: list[tuple[TopicIdPartition, int]] = []
        for key in touched:
            partition, before = wanted.get(key), told.get(key)
            if partition == before:
                continue
            if partition is None:
                forgotten.append((key, key.partition))
                continue
            changed.append((key, partition))
            told[key] = partition
            if before is None:
                self._asked[key.topic_id, key.partition] = self._asked[key.topic, key.partition] = key
        for key, number in forgotten:
            del told[key]
            for name in (key.topic_id, key.topic):
                if self._asked.get((name, number)) == key:
                    del self._asked[name, number]
        return SessionRequest(
            self._id,
            self._epoch,
            tuple([FetchTopic(tuple(group), key.topic, key.topic_id) for key, group in _by_topic(changed)]),
            tuple([ForgottenTopic(tuple(group), key.topic, key.topic_id) for key, group in _by_topic(forgotten)])
            if forgotten
            else (),
        )

    def response_received(self, response: FetchResponse) -> dict[TopicIdPartition, FetchPartitionResponse]:
        """The answers of a response; of an incremental one only those with news. KafkaError if it cannot be used: the
        next request then asks for everything anew.
        """
        code = response.error_code
        if code is not ErrorCode.none:
            self._start_anew(is_known=code is not ErrorCode.fetch_session_id_not_found)
            raise KafkaError(code, "the leader refuses the fetch")
        answers = self._matched(response)
        if self._epoch == INITIAL_EPOCH and answers.keys() != self._told.keys():
            self._start_anew()
            missing = sorted(map(str, self._told.keys() - answers.keys()))
            raise KafkaError(ErrorCode.unknown_server_error, f"the leader leaves out {', '.join(missing)}")
        if response.session_id == NO_SESSION_ID:
            self._start_anew(is_known=False)
        else:
            self._id, self._epoch = response.session_id, next_epoch(self._epoch)
        return answers

    def request_failed(self) -> None:
        """There was no response: whether the leader took in the request is not known."""
        self._start_anew()

    def asked(self) -> Mapping[tuple[str | UUID, int], TopicIdPartition]:
        """What the last request asks for, by the topic's id and by its name: the leader may use either."""
        return self._asked

    def _matched(self, response: FetchResponse) -> dict[TopicIdPartition, FetchPartitionResponse]:
        asked = self._asked
        answers: dict[TopicIdPartition, FetchPartitionResponse] = {}
        for topic in response.topics:
            name = topic.topic_id or topic.topic
            for answer in topic.partitions:
                key = asked.get((name, answer.partition))
                if key is None:
                    self._start_anew()
                    raise KafkaError(
                        ErrorCode.unknown_server_error, f"the leader answers {name}-{answer.partition} unasked"
                    )
                answers[key] = answer
        return answers

    def _start_anew(self, *, is_known: bool = True) -> None:
        """Let the next request open a new session, and close the old one if the leader may know it."""
        if not is_known:
            self._id = NO_SESSION_ID
        self._epoch = INITIAL_EPOCH


def _by_topic(items: Iterable[tuple[TopicIdPartition, T]]) -> list[tuple[TopicIdPartition, list[T]]]:
    """Neighbours of one topic together, named by the first; the order stays, for it says who is served first."""
    groups: list[tuple[TopicIdPartition, list[T]]] = []
    for key, item in items:
        if groups and (groups[-1][0].topic, groups[-1][0].topic_id) == (key.topic, key.topic_id):
            groups[-1][1].append(item)
        else:
            groups.append((key, [item]))
    return groups

"""Fetch sessions at their leader (KIP-227): what it remembers of each fetcher, and what it sends it. No I/O.

News: records, an error, another high watermark or log start than last sent, a high watermark that a follower has not
taken though it was sent (its log was reopened), a diverging epoch, a preferred replica.
After an error, and after a diverging epoch, upon which a follower cuts its log and takes nothing else, the partition is
sent once more, even if nothing changed. A partition that was given records goes to the
end of the order in which the leader reads, so that a size limit starves no partition.

Rest: a partition of which another look would bring nothing new may rest (`LeaderSession.rest`): it is not among those
to look at until it is woken: when the request mentions it, when its watcher reports that it has moved, and with all
others when a request comes on other terms (another replica, isolation level, rack, version, rights) or on
another `foundation`. Requests thus cost what has changed, not what is asked for.

Full: once a response holds all records that it may, partitions are left out of which nothing was said since they were
answered last (`is_answered`): neither did a request mention them nor have they been woken. They keep their turn, so
each is looked at again after as many responses as it takes to serve those before it, and all every `LOOK_AT_ALL_MS`:
a follower at the end of a log, which must count as caught up there, and what its ISR and high watermark wait for.

Room: a new session takes a slot from one that was not used for `eviction_ms`, else from the least valuable of those
older than `eviction_ms`, if it is less valuable itself: followers before consumers, larger before smaller. The sessions
of followers, and those of consumers, remember `PARTITIONS_MAX` partitions each, some 500 bytes a partition. Beyond it a
new session takes the room of others of its kind, the least recently used first, or gets none:

| the other session | gives its room |
|---|---|
| was not used for `eviction_ms` | to any |
| was not used for `UNCONFIRMED_MS` after its first answer: its fetcher may never have learnt its id | to any |
| else | to one that is not larger |

A session that grows beyond the limit is closed. A fetcher without a session names all its partitions in each request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import count
from operator import attrgetter
from typing import Final, NamedTuple
from uuid import UUID

from ...light_dataclass import dataclass
from ..errors import ErrorCode
from ..values import value
from ..wire.leader_hints import NodeEndpoint
from ..wire.primitives import STEP_ELEMENTS, part_size
from ..wire.stepping import Steps, run_to_end
from .messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
    release_records_of,
)
from .session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION_ID, next_epoch
from .wire import TOPIC_ID_SINCE

PARTITIONS_MAX: Final = 200_000
"""Partitions that the sessions of one kind remember: of followers, or of consumers."""
UNCONFIRMED_MS: Final = 10_000
"""A fetcher that gave up its first fetch while the answer was on its way opens another session, without closing this
one. A follower sends its next request within some 100 ms of an answer.
"""

LOOK_AT_ALL_MS: Final = 5_000
"""A sixth of `replica.lag.time.max.ms` by default. A look at a partition takes some 20 us."""


class PartitionKey(NamedTuple):
    """A partition as its request names it: the topic's name, or its id from version 13 on."""

    topic: str | UUID
    partition: int


@dataclass(eq=False, slots=True)
class AskedPartition:
    """A partition of a session, or of one request without: what was asked last, and what was sent last; `turn` orders
    the reading. Equal to itself only, so that it is found without its name. `is_answered`: it was since it was asked
    for, or woken, last.
    """

    key: PartitionKey
    wanted: FetchPartition
    turn: int = 0
    high_watermark: int = -1
    log_start_offset: int = -1
    is_answered: bool = False

    def record_sent(self, answer: FetchPartitionResponse, *, is_follower: bool) -> bool:
        """Record the answer as sent. Return whether it was news."""
        is_error = answer.error_code is not ErrorCode.none
        is_news = (
            is_error
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
            or _has_records(answer)
            or (is_follower and self.wanted.can_raise_to(answer.high_watermark, answer.log_start_offset))
            or answer.diverging_epoch is not None
            or answer.preferred_read_replica >= 0
        )
        self.is_answered = True
        is_taken = not is_error and answer.diverging_epoch is None
        self.high_watermark = answer.high_watermark if is_taken else -1
        self.log_start_offset = answer.log_start_offset
        return is_news


_turn_of = attrgetter("turn")
_Answers = Mapping[AskedPartition, FetchPartitionResponse]
Woken = Callable[[AskedPartition], None]


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
    partitions: dict[tuple[str | UUID, int], AskedPartition] = field(default_factory=dict)
    id: int = NO_SESSION_ID
    epoch: int = next_epoch(INITIAL_EPOCH)
    created_ms: int = 0
    is_open: bool = True
    looked_at_all_ms: int = 0
    """When its last request came that had all of its partitions looked at."""
    on_woken: list[Woken] = field(default_factory=list)
    """Called with each partition that is woken, by requests that are still being answered."""
    _resting: dict[AskedPartition, Callable[[], None]] = field(default_factory=dict)
    """The resting partitions, each with the call that ends its watch."""
    _due: dict[AskedPartition, None] = field(default_factory=dict)
    """The partitions that are not resting."""
    _due_now: Sequence[AskedPartition] | None = None
    """What `due` returned last, until that changes."""
    _turns: count[int] = field(default_factory=count)

    @property
    def is_confirmed(self) -> bool:
        """Whether its fetcher has ever sent another request with it."""
        return self.epoch != next_epoch(INITIAL_EPOCH)

    def value(self) -> tuple[bool, int]:
        return self.is_follower, len(self.partitions)

    def due(self) -> Sequence[AskedPartition]:
        """The partitions to look at now, in the order in which to read them."""
        if self._due_now is None:
            self._due_now = sorted(self._due, key=_turn_of) if self._resting else [*self.partitions.values()]
        return self._due_now

    def rest(self, asked: AskedPartition, end_watch: Callable[[], None]) -> bool:
        """Leave this partition out until `wake`; False if it cannot be. `end_watch` is called if it ends otherwise."""
        if not self.is_open or asked not in self._due:
            return False
        del self._due[asked]
        self._due_now = None
        self._resting[asked] = end_watch
        return True

    def wake(self, asked: AskedPartition) -> None:
        """Its watcher says that it has moved."""
        del self._resting[asked]
        self._due[asked] = None
        self._due_now = None
        asked.is_answered = False
        for listener in self.on_woken:
            listener(asked)

    def renew(self, terms: tuple[object, ...], foundation: object) -> None:
        """What requests come with: on other terms, or another foundation, nothing rests."""
        if terms != self.terms or foundation is not self.foundation:
            self.terms, self.foundation = terms, foundation
            self._disturb_all()

    def update(self, topics: Sequence[FetchTopic]) -> Steps[None]:
        """Take in what a request adds and changes."""
        count = 0
        for topic in topics:
            name = topic.topic_id or topic.topic
            for wanted in topic.partitions:
                count += 1
                if not count % STEP_ELEMENTS:
                    yield
                asked = self.partitions.get((name, wanted.partition))
                if asked is None:
                    self._add(PartitionKey(name, wanted.partition), wanted)
                else:
                    asked.wanted = wanted
                    asked.is_answered = False
                    self._disturb(asked)

    def look_at_all(self, now_ms: int) -> None:
        """Have all partitions looked at, if it is time."""
        if now_ms - self.looked_at_all_ms < LOOK_AT_ALL_MS:
            return
        self.looked_at_all_ms = now_ms
        for asked in self._due:
            asked.is_answered = False

    def forget(self, topics: Sequence[ForgottenTopic]) -> None:
        """Take in what a request leaves out."""
        for topic in topics:
            for number in topic.partitions:
                self._remove(PartitionKey(topic.topic_id or topic.topic, number))

    def close(self) -> None:
        self.is_open = False
        self._disturb_all()

    def _add(self, key: PartitionKey, wanted: FetchPartition) -> None:
        asked = self.partitions[key] = AskedPartition(key, wanted, next(self._turns))
        self._due[asked] = None
        self._due_now = None

    def _remove(self, key: PartitionKey) -> None:
        asked = self.partitions.pop(key, None)
        if asked is not None:
            self._disturb(asked)
            del self._due[asked]
            self._due_now = None

    def _disturb_all(self) -> None:
        for asked in self.partitions.values():
            asked.is_answered = False
        for asked in list(self._resting):
            self._disturb(asked)

    def _disturb(self, asked: AskedPartition) -> None:
        end_watch = self._resting.pop(asked, None)
        if end_watch is not None:
            self._due[asked] = None
            self._due_now = None
            end_watch()

    def news_of(self, answers: _Answers) -> Steps[_Answers]:
        """Return the answers that are news. Those partitions that get records move to the end of the order."""
        news: dict[AskedPartition, FetchPartitionResponse] = {}
        for number, (asked, answer) in enumerate(answers.items(), 1):
            if not number % STEP_ELEMENTS:
                yield
            if not asked.record_sent(answer, is_follower=self.is_follower):
                continue
            news[asked] = answer
            if asked is not next(reversed(self.partitions.values())) and _has_records(answer):
                self.partitions[asked.key] = self.partitions.pop(asked.key)
                self._due_now = None
                asked.turn = next(self._turns)
        return news


@value
class FetchContext:
    """One request. With an `error_code` it has no partitions, and is answered at once. `wanted` is what a request
    without a session asks for.
    """

    wanted: Sequence[AskedPartition]
    error_code: ErrorCode = ErrorCode.none
    session: LeaderSession | None = None
    epoch: int = INITIAL_EPOCH

    @property
    def partitions(self) -> Sequence[AskedPartition]:
        """To look at now, in the order in which to read them: all that do not rest."""
        return self.wanted if self.session is None else self.session.due()

    @property
    def size(self) -> int:
        """The number of partitions that are asked for, with those that rest."""
        return len(self.wanted if self.session is None else self.session.partitions)


class FetchSessionCache:
    """The sessions of one leader, at most `slots`. `draw_id` gives a random id from 1 to `SESSION_ID_MAX`: what one
    client must not guess of another.
    """

    def __init__(
        self,
        *,
        draw_id: Callable[[], int],
        slots: int = 1000,
        eviction_ms: int = 120_000,
        partitions_max: int = PARTITIONS_MAX,
    ) -> None:
        self._draw_id = draw_id
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._partitions_max = partitions_max
        self._sessions: dict[int, LeaderSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, *, api_version: int, now_ms: int, foundation: object = None) -> FetchContext:
        """Take in one request. `foundation` is what answers depend on beside their partitions."""
        return run_to_end(self.begin_steps(request, api_version=api_version, now_ms=now_ms, foundation=foundation))

    def begin_steps(
        self,
        request: FetchRequest,
        *,
        api_version: int,
        now_ms: int,
        foundation: object = None,
        rights: object = None,
    ) -> Steps[FetchContext]:
        """Take in one request, in steps. `rights`: what its sender may read, compared by equality."""
        by_topic_id = api_version >= TOPIC_ID_SINCE
        asked_by = (request.replica_id, request.replica_epoch, request.isolation_level, request.rack_id)
        terms = (*asked_by, api_version, rights)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._close(request.session_id)
            if request.session_epoch == FINAL_EPOCH:
                return FetchContext((yield from _sessionless(request)))
            opened = LeaderSession(
                by_topic_id, request.replica_id >= 0, terms, foundation, now_ms, looked_at_all_ms=now_ms
            )
            yield from opened.update(request.topics)
            return FetchContext((), session=opened)
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchContext((), ErrorCode.fetch_session_id_not_found)
        if session.epoch != request.session_epoch:
            return FetchContext((), ErrorCode.invalid_fetch_session_epoch)
        if session.by_topic_id != by_topic_id:
            return FetchContext((), ErrorCode.fetch_session_topic_id_error)
        session.renew(terms, foundation)
        yield from session.update(request.topics)
        session.forget(request.forgotten_topics)
        if len(session.partitions) > self._partitions_max:
            self._close(session.id)
            return FetchContext((), ErrorCode.fetch_session_id_not_found)
        if not session.partitions:
            self._close(session.id)
            return FetchContext(())
        session.epoch = next_epoch(session.epoch)
        session.used_ms = now_ms
        session.look_at_all(now_ms)
        return FetchContext((), ErrorCode.none, session, session.epoch)

    def respond(
        self,
        context: FetchContext,
        answers: Mapping[AskedPartition, FetchPartitionResponse],
        *,
        now_ms: int,
        node_endpoints: tuple[NodeEndpoint, ...] = (),
    ) -> FetchResponse:
        """Return the response, from an answer for each partition that was due; unsent records are released."""
        return run_to_end(self.respond_steps(context, answers, now_ms=now_ms, node_endpoints=node_endpoints))

    def respond_steps(
        self,
        context: FetchContext,
        answers: Mapping[AskedPartition, FetchPartitionResponse],
        *,
        now_ms: int,
        node_endpoints: tuple[NodeEndpoint, ...] = (),
    ) -> Steps[FetchResponse]:
        """Make the response that `respond` returns, in steps."""
        session = context.session
        if context.error_code is not ErrorCode.none:
            return _response({}, NO_SESSION_ID, (), context.error_code)
        if session is None:
            return _response(answers, NO_SESSION_ID, node_endpoints)
        if session.id == NO_SESSION_ID:
            yield from session.news_of(answers)
            return _response(answers, self._admit(session, now_ms), node_endpoints)
        if session.epoch != context.epoch:
            for answer in answers.values():
                release_records_of(answer)
            return _response({}, NO_SESSION_ID, (), ErrorCode.invalid_fetch_session_epoch)
        news = yield from session.news_of(answers)
        if len(news) < len(answers):
            for asked, answer in answers.items():
                if asked not in news:
                    release_records_of(answer)
        return _response(news, session.id, node_endpoints)

    def throttled(self, context: FetchContext, throttle_ms: int) -> FetchResponse:
        """Return the response to a request that has to wait: it reports nothing, and begins no session."""
        session = context.session
        if session is None or session.id == NO_SESSION_ID:
            return FetchResponse((), throttle_time_ms=throttle_ms)
        if session.epoch != context.epoch:
            return FetchResponse((), ErrorCode.invalid_fetch_session_epoch, throttle_time_ms=throttle_ms)
        return FetchResponse((), session_id=session.id, throttle_time_ms=throttle_ms)

    def continued_session(self, context: FetchContext) -> LeaderSession | None:
        """Return, after `respond`, the session that continues from its response, if one does."""
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
        return self._has_memory_for(session, now_ms) and self._has_slot_for(session, now_ms)

    def _has_memory_for(self, session: LeaderSession, now_ms: int) -> bool:
        """Return whether the partitions of a new session fit, once the least recently used sessions are closed."""
        size = len(session.partitions)
        same_kind = [other for other in self._sessions.values() if other.is_follower == session.is_follower]
        excess = sum(len(other.partitions) for other in same_kind) + size - self._partitions_max
        victims = []
        for other in sorted(same_kind, key=attrgetter("used_ms")) if excess > 0 else ():
            if excess > 0 and (len(other.partitions) >= size or self._is_abandoned(other, now_ms)):
                victims.append(other)
                excess -= len(other.partitions)
        if excess > 0:
            return False
        for victim in victims:
            self._close(victim.id)
        return True

    def _is_abandoned(self, session: LeaderSession, now_ms: int) -> bool:
        patience_ms = self._eviction_ms if session.is_confirmed else min(self._eviction_ms, UNCONFIRMED_MS)
        return session.used_ms < now_ms - patience_ms

    def _has_slot_for(self, session: LeaderSession, now_ms: int) -> bool:
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


def _sessionless(request: FetchRequest) -> Steps[list[AskedPartition]]:
    """Return the partitions in the order of the request, each once."""
    asked: dict[PartitionKey, AskedPartition] = {}
    count = 0
    for topic in request.topics:
        for wanted in topic.partitions:
            count += 1
            if not count % STEP_ELEMENTS:
                yield
            key = PartitionKey(topic.topic_id or topic.topic, wanted.partition)
            asked[key] = AskedPartition(key, wanted)
    return [*asked.values()]


def _has_records(answer: FetchPartitionResponse) -> bool:
    return answer.records is not None and part_size(answer.records) > 0


def _response(
    answers: _Answers, session_id: int, node_endpoints: tuple[NodeEndpoint, ...], error_code: ErrorCode = ErrorCode.none
) -> FetchResponse:
    """Neighbours of one topic together."""
    by_topic: list[tuple[str | UUID, list[FetchPartitionResponse]]] = []
    for asked, answer in answers.items():
        topic = asked.key.topic
        if by_topic and by_topic[-1][0] == topic:
            by_topic[-1][1].append(answer)
        else:
            by_topic.append((topic, [answer]))
    topics = []
    for topic, partitions in by_topic:
        name, topic_id = (topic, None) if isinstance(topic, str) else ("", topic)
        topics.append(FetchTopicResponse(tuple(partitions), name, topic_id))
    return FetchResponse(tuple(topics), error_code, session_id, 0, node_endpoints)

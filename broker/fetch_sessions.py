"""Fetch sessions (KIP-227): the broker remembers what a fetcher wants, both sides say only what changed.

    request             session id 0              session id known            id unknown
    ------------------  ------------------------  --------------------------  --------------------------------
    epoch -1 (final)    full fetch, no session    the session ends, full      full fetch, no session
    epoch 0 (initial)   full fetch, new session   the session ends, new one   full fetch, new session
    other epoch         -                         incremental, if it is the   FETCH_SESSION_ID_NOT_FOUND
                                                  one expected; else
                                                  INVALID_FETCH_SESSION_EPOCH

A full fetch is answered in full. An incremental one only for partitions with something to say: records, an error, a
diverging epoch, or a high watermark or log start other than the one told last. Partitions that were answered with
records move to the end, so that none starves behind the others.

If all slots are taken, a follower's new session replaces the consumer's that was unused for longest, and any new
session one that was idle for `IDLE_MS_MIN`; otherwise there is no session, and the fetcher sends full requests.

Pure: knows no partition and no clock.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.fetch_wire import FetchPartition, FetchPartitionResponse, FetchRequest

INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
INT32_MAX: Final = 2**31 - 1
IDLE_MS_MIN: Final = 120_000

FetchKey = tuple[str | UUID, int]
"""A partition as the fetcher names it: topic name or id, and number."""


def wanted(request: FetchRequest) -> Iterator[tuple[FetchKey, FetchPartition]]:
    """The partitions that a request itself names."""
    for topic in request.topics:
        name = topic.topic if topic.topic_id is None else topic.topic_id
        for partition in topic.partitions:
            yield (name, partition.partition), partition


class _CachedPartition:
    """What is wanted of one partition, and what was told about it last."""

    __slots__ = ("high_watermark", "log_start_offset", "request")

    def __init__(self, request: FetchPartition) -> None:
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1

    def note(self, answer: FetchPartitionResponse, *, has_records: bool) -> bool:
        """Whether the answer must be told; if so it is noted as told."""
        is_news = (
            has_records
            or answer.error_code is not ErrorCode.none
            or answer.diverging_epoch is not None
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
        )
        # After an error the next good answer is news, whatever it says.
        is_good = answer.error_code is ErrorCode.none and answer.diverging_epoch is None
        self.high_watermark = answer.high_watermark if is_good else -1
        self.log_start_offset = answer.log_start_offset
        return is_news


class FetchSession:
    """One fetcher's partitions in the order in which they are served."""

    def __init__(self, session_id: int, *, is_follower: bool, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.epoch = 1
        self.is_follower = is_follower
        self.uses_topic_ids = uses_topic_ids
        self.last_used_ms = now_ms
        self._partitions: OrderedDict[FetchKey, _CachedPartition] = OrderedDict()

    def __len__(self) -> int:
        return len(self._partitions)

    def partitions(self) -> list[tuple[FetchKey, FetchPartition]]:
        return [(key, cached.request) for key, cached in self._partitions.items()]

    def update(self, request: FetchRequest) -> None:
        """Take up what the request adds, changes and forgets."""
        for key, partition in wanted(request):
            cached = self._partitions.get(key)
            if cached is None:
                self._partitions[key] = _CachedPartition(partition)
            else:
                cached.request = partition
        for topic in request.forgotten_topics:
            name = topic.topic if topic.topic_id is None else topic.topic_id
            for number in topic.partitions:
                self._partitions.pop((name, number), None)

    def select(self, answers: Iterable[tuple[FetchKey, FetchPartitionResponse, bool]]) -> list[int]:
        """Indexes of the answers (key, answer, whether it has records) that must be told; those are noted as told."""
        chosen = []
        for index, (key, answer, has_records) in enumerate(answers):
            cached = self._partitions.get(key)
            if cached is not None and cached.note(answer, has_records=has_records):
                chosen.append(index)
                if has_records:
                    self._partitions.move_to_end(key)
        return chosen


class FetchContext:
    """One request in the light of its session. `session` is None for a full fetch without one."""

    def __init__(
        self, partitions: list[tuple[FetchKey, FetchPartition]], session: FetchSession | None, *, is_full: bool
    ) -> None:
        self.partitions = partitions
        self._session = session
        self._is_full = is_full
        self._epoch = session.epoch if session is not None else FINAL_EPOCH

    @property
    def session_id(self) -> int:
        return INVALID_SESSION_ID if self._session is None else self._session.id

    @property
    def is_incremental(self) -> bool:
        return not self._is_full

    def select(self, answers: list[tuple[FetchKey, FetchPartitionResponse, bool]]) -> list[int]:
        """Indexes of the answers to send. INVALID_FETCH_SESSION_EPOCH if the session was used meanwhile."""
        if self._session is None:
            return list(range(len(answers)))
        if self._session.epoch != self._epoch:
            raise KafkaError(
                ErrorCode.invalid_fetch_session_epoch, f"session {self._session.id} was used by another request"
            )
        chosen = self._session.select(answers)
        return list(range(len(answers))) if self._is_full else chosen


class FetchSessionCache:
    """The sessions of one broker, at most `slots`."""

    def __init__(self, slots: int, rng: random.Random) -> None:
        self._slots = slots
        self._rng = rng
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """The one used longest ago first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, now_ms: int) -> FetchContext:
        """What this request fetches. KafkaError with a session error as in the table."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            session = None
            if request.session_epoch == INITIAL_EPOCH:
                session = self._create(request, now_ms)
            return FetchContext(list(wanted(request)), session, is_full=True)
        return self._continue(request, now_ms)

    def _continue(self, request: FetchRequest, now_ms: int) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.fetch_session_id_not_found, f"there is no session {request.session_id}")
        if session.epoch != request.session_epoch:
            raise KafkaError(
                ErrorCode.invalid_fetch_session_epoch,
                f"session {session.id} is at epoch {session.epoch}, the request at {request.session_epoch}",
            )
        if request.topics and _uses_topic_ids(request) != session.uses_topic_ids:
            raise KafkaError(
                ErrorCode.fetch_session_topic_id_error, f"session {session.id} mixes names and ids of topics"
            )
        session.update(request)
        session.epoch = 1 if session.epoch == INT32_MAX else session.epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.id)
        return FetchContext(session.partitions(), session, is_full=False)

    def _create(self, request: FetchRequest, now_ms: int) -> FetchSession | None:
        is_follower = request.replica_id >= 0
        if not any(True for _ in wanted(request)) or not self._make_room(now_ms, is_follower=is_follower):
            return None
        session_id = INVALID_SESSION_ID
        while session_id == INVALID_SESSION_ID or session_id in self._sessions:
            session_id = self._rng.randint(1, INT32_MAX)
        session = FetchSession(
            session_id, is_follower=is_follower, uses_topic_ids=_uses_topic_ids(request), now_ms=now_ms
        )
        session.update(request)
        self._sessions[session_id] = session
        return session

    def _make_room(self, now_ms: int, *, is_follower: bool) -> bool:
        if len(self._sessions) < self._slots:
            return True
        for session in self._sessions.values():
            if (is_follower and not session.is_follower) or now_ms - session.last_used_ms >= IDLE_MS_MIN:
                del self._sessions[session.id]
                return True
        return False


def _uses_topic_ids(request: FetchRequest) -> bool:
    return any(topic.topic_id is not None for topic in request.topics)

"""Share sessions: epochs, what they fetch, how many there may be, and connections that end."""

from __future__ import annotations

from uuid import UUID

import pytest

from tierfetch.broker.share.core import sessions as module
from tierfetch.broker.share.core.sessions import (
    EPOCH_MAX,
    ERROR_AGAIN_S,
    FINAL_EPOCH,
    MEMBER_ID_SIZE_MAX,
    ConnectionKey,
    SessionChanges,
    SessionKey,
    SharedPartition,
    ShareSessions,
)
from tierfetch.protocol.errors import ErrorCode, KafkaError

KEY, OTHER = SessionKey("g", "m"), SessionKey("g", "n")
HERE, THERE = ConnectionKey("L", 1), ConnectionKey("L", 2)
A, B, C = (SharedPartition(UUID(int=1), number) for number in range(3))


def opened(*partitions: SharedPartition, sessions_max: int = 2) -> ShareSessions:
    sessions = ShareSessions(sessions_max)
    sessions.begin_fetch(KEY, 0, HERE, SessionChanges(partitions))
    return sessions


def refused(sessions: ShareSessions, key: SessionKey, epoch: int, changes: SessionChanges | None = None) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        sessions.begin_fetch(key, epoch, HERE, changes or SessionChanges())
    return raised.value.code


def test_a_session_is_opened_continued_and_closed() -> None:
    sessions = opened(A, B)
    session = sessions.begin_fetch(KEY, 1, HERE, SessionChanges([C], [A]))
    assert list(session.partitions) == [B, C]
    assert sessions.partitions == 2
    assert sessions.begin_acknowledge(KEY, 2, HERE) is session
    assert sessions.begin_fetch(KEY, FINAL_EPOCH, HERE, SessionChanges()) is session
    assert sessions.close(KEY) is session
    assert (len(sessions), sessions.partitions) == (0, 0)
    assert sessions.close(KEY) is None


def test_each_request_looks_at_another_partition_first() -> None:
    sessions = opened(A, B, C)
    turns = [sessions.begin_fetch(KEY, epoch, HERE, SessionChanges()).turn()[0] for epoch in (1, 2, 3)]
    assert sorted(turns) == [A, B, C]
    assert opened().begin_fetch(KEY, 0, HERE, SessionChanges()).turn() == []


def test_an_error_is_reported_again_when_it_has_changed_after_a_while_and_when_asked_for() -> None:
    session = opened(A).find(KEY)
    assert session is not None
    gone, denied = ErrorCode.not_leader_or_follower, ErrorCode.topic_authorization_failed
    assert session.reported_until_s(A, gone, 10.0) is None
    session.note_reported(A, gone, 10.0)
    assert session.reported_until_s(A, gone, 10.9) == 10.0 + ERROR_AGAIN_S
    assert session.reported_until_s(A, gone, 10.0 + ERROR_AGAIN_S) is None
    assert session.reported_until_s(A, denied, 10.9) is None
    for end in (lambda: session.note_reported(A, ErrorCode.none, 0), lambda: session.change([A], [])):
        session.note_reported(A, gone, 10.0)
        end()
        assert session.reported_until_s(A, gone, 10.1) is None
    session.change([], [A])
    session.note_reported(A, gone, 10.0)
    session.change([A], [])
    assert session.reported_until_s(A, gone, 10.1) is None


def test_a_request_that_does_not_fit_its_session_is_refused() -> None:
    sessions = opened(A)
    assert refused(sessions, OTHER, 1) is ErrorCode.share_session_not_found
    assert refused(sessions, OTHER, FINAL_EPOCH) is ErrorCode.share_session_not_found
    assert refused(sessions, KEY, 2) is ErrorCode.invalid_share_session_epoch
    assert refused(sessions, KEY, 0, SessionChanges([A], (), acknowledges=True)) is ErrorCode.invalid_request
    assert refused(sessions, SessionKey("g", "m" * (MEMBER_ID_SIZE_MAX + 1)), 0) is ErrorCode.invalid_request
    with pytest.raises(KafkaError) as raised:
        sessions.begin_acknowledge(KEY, 0, HERE)
    assert raised.value.code is ErrorCode.invalid_share_session_epoch
    with pytest.raises(KafkaError) as raised:
        sessions.begin_acknowledge(KEY, 7, HERE)
    assert raised.value.code is ErrorCode.invalid_share_session_epoch
    with pytest.raises(KafkaError) as raised:
        sessions.begin_acknowledge(OTHER, FINAL_EPOCH, HERE)
    assert raised.value.code is ErrorCode.share_session_not_found


def test_the_epoch_after_the_last_one_is_1() -> None:
    sessions = opened(A)
    session = sessions.find(KEY)
    assert session is not None
    session.epoch = EPOCH_MAX
    sessions.begin_fetch(KEY, EPOCH_MAX, HERE, SessionChanges())
    assert session.epoch == 1


def test_there_are_as_many_sessions_as_allowed_and_a_member_may_open_its_own_again() -> None:
    sessions = opened(A, sessions_max=1)
    assert refused(sessions, OTHER, 0) is ErrorCode.share_session_limit_reached
    assert list(sessions.begin_fetch(KEY, 0, THERE, SessionChanges([B])).partitions) == [B]


def test_sessions_have_as_many_partitions_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PARTITIONS_MAX", 2)
    sessions = opened(A)
    assert refused(sessions, OTHER, 0, SessionChanges([A, B])) is ErrorCode.share_session_limit_reached
    assert refused(sessions, KEY, 1, SessionChanges([B, C])) is ErrorCode.share_session_limit_reached
    assert list(sessions.begin_fetch(KEY, 1, HERE, SessionChanges([A, B])).partitions) == [A, B]


def test_a_connection_knows_its_sessions_which_may_move() -> None:
    sessions = opened(A)
    sessions.begin_fetch(OTHER, 0, HERE, SessionChanges())
    assert sessions.of_connection(HERE) == [KEY, OTHER]
    sessions.begin_fetch(KEY, 1, THERE, SessionChanges())
    assert (sessions.of_connection(HERE), sessions.of_connection(THERE)) == ([OTHER], [KEY])
    sessions.close(KEY)
    assert sessions.of_connection(THERE) == []


def test_the_partitions_of_one_session_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SESSION_PARTITIONS_MAX", 2)
    sessions = opened(A, B)
    assert refused(sessions, KEY, 1, SessionChanges([C])) is ErrorCode.share_session_limit_reached
    assert refused(sessions, OTHER, 0, SessionChanges([A, B, C])) is ErrorCode.share_session_limit_reached
    assert sessions.partitions == 2

"""What the members of a share group are given: one holder, deliveries that are counted, one end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.protocol.topics import TopicIdPartition, TopicPartition
from tierfetch.sim.judges.core.acknowledged_writes import FinalLog
from tierfetch.sim.judges.core.clients.deliveries import ERROR_AGAIN_MS, SLACK_MS, DeliveriesJudge
from tierfetch.sim.judges.core.clients.share_events import (
    AcknowledgementAnswered,
    AcknowledgementAsked,
    Given,
    Kind,
    RecordsAsked,
    RecordsGiven,
    ShareSession,
    ShareSessionOver,
    ShareStartFound,
)
from tierfetch.sim.judges.core.events import LeaderElected
from tierfetch.sim.judges.core.partition import InvariantViolationError

P = TopicPartition("in", 0)
NAME = TopicIdPartition(UUID(int=1), "in", 0)
LOCK_MS, LIMIT = 1_000, 3
A, B = ShareSession("a", "broker-1", 1), ShareSession("b", "broker-1", 2)
OTHER = ShareSession("b", "broker-2", 3)


class Group:
    """A share group, its clock, and its judge. broker-1 leads."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.has_lost = False
        self.judge = DeliveriesJudge(
            (P,), {1: "broker-1"}, lambda _: self.has_lost, lambda: self.now_ms, lock_ms=LOCK_MS, limit=LIMIT
        )
        self.leads("broker-1")

    def leads(self, host: str) -> None:
        self.judge.on(LeaderElected(host, NAME))

    def changes(self) -> None:
        """The metadata has another leader epoch; nobody is seen to lead yet."""
        images: list[Any] = [
            SimpleNamespace(partition=lambda _, epoch=epoch: SimpleNamespace(leader_epoch=epoch), topics={})
            for epoch in (1, 2)
        ]
        self.judge._metadata_changed(SimpleNamespace(before=images[0], after=images[1]))  # type: ignore[arg-type]

    def gets(
        self, session: ShareSession, offset: int, count: int = 1, *, value: int | None = 7, asked_ms: int | None = None
    ) -> None:
        given = Given(P, offset, offset, count, (value,))
        self.judge.on(RecordsGiven(session, (given,), (), self.now_ms if asked_ms is None else asked_ms))

    def gets_nothing(self, session: ShareSession) -> None:
        self.judge.on(RecordsGiven(session, (), (P,), self.now_ms))

    def gets_an_error(self, session: ShareSession) -> None:
        self.judge.on(RecordsGiven(session, (), (), self.now_ms, failed=(P,)))

    def asks_to_say(self, session: ShareSession, offset: int, kind: Kind) -> int:
        self.judge.on(AcknowledgementAsked(session, P, ((offset, kind),)))
        return self.now_ms

    def says(
        self, session: ShareSession, offset: int, kind: Kind, *, is_kept: bool = True, is_unclear: bool = False
    ) -> None:
        self.is_told(session, offset, kind, self.asks_to_say(session, offset, kind), is_kept, is_unclear)

    def is_told(
        self,
        session: ShareSession,
        offset: int,
        kind: Kind,
        asked_ms: int,
        is_kept: bool = True,
        is_unclear: bool = False,
    ) -> None:
        self.judge.on(AcknowledgementAnswered(session, P, ((offset, kind),), asked_ms, is_kept, is_unclear))

    def starts(self, offset: int) -> None:
        self.judge.on(ShareStartFound(P, offset, self.now_ms))
        self.now_ms += 1


def violates(name: str) -> Any:
    return pytest.raises(InvariantViolationError, match=name)


def test_records_go_from_one_member_to_the_next() -> None:
    group = Group()
    group.gets(A, 0)
    group.says(A, 0, Kind.RELEASE)
    group.now_ms = 10
    group.gets(B, 0, 2)
    group.now_ms += LOCK_MS + 1
    group.gets(A, 0, 3)
    group.says(A, 0, Kind.ACCEPT)
    group.starts(1)
    assert group.judge.left(P, 1) == []


def test_a_lock_that_is_renewed_begins_anew() -> None:
    group = Group()
    group.gets(A, 0)
    group.now_ms = LOCK_MS - 100
    group.says(A, 0, Kind.RENEW)
    group.now_ms = LOCK_MS + 100
    group.gets(B, 0, 2)
    with violates("one holder"):
        group.gets_nothing(A)


def test_a_renewal_that_is_refused_changes_nothing() -> None:
    group = Group()
    group.gets(A, 0)
    group.now_ms = LOCK_MS - 100
    group.says(A, 0, Kind.RENEW, is_kept=False)
    group.now_ms = LOCK_MS + 100
    group.gets(B, 0, 2)
    group.gets_nothing(A)


def test_nobody_renews_what_another_one_holds() -> None:
    group = Group()
    group.gets(A, 0)
    group.now_ms = LOCK_MS + 100
    group.gets(B, 0, 2)
    group.now_ms += 1
    with violates("holders decide"):
        group.says(A, 0, Kind.RENEW)


def test_a_delivery_above_the_limit() -> None:
    with violates("delivery limit"):
        Group().gets(A, 0, LIMIT + 1)


@pytest.mark.parametrize("kind", [Kind.ACCEPT, Kind.REJECT])
def test_what_is_finished_comes_again(kind: Kind) -> None:
    group = Group()
    group.gets(A, 0)
    group.says(A, 0, kind)
    group.now_ms = 10
    with violates("finished once"):
        group.gets(B, 0)


def test_what_is_finished_comes_again_of_the_next_leader() -> None:
    group = Group()
    group.gets(A, 0)
    group.says(A, 0, Kind.ACCEPT)
    group.now_ms = 10
    group.changes()
    group.gets(B, 0)  # of nobody who is known to lead
    group.leads("broker-2")
    with violates("finished once"):
        group.gets(OTHER, 0)


def test_what_was_long_on_its_way_convicts_nobody() -> None:
    group = Group()
    group.now_ms = LOCK_MS + 10
    group.gets(B, 0, 2)
    group.says(B, 0, Kind.ACCEPT)
    group.gets(A, 0, 1, asked_ms=0)


def test_an_acknowledgement_that_is_not_answered_allows_both() -> None:
    group = Group()
    group.gets(A, 0)
    group.says(A, 0, Kind.ACCEPT, is_kept=False, is_unclear=True)
    assert group.judge.left(P, 1) == []
    group.now_ms = LOCK_MS + 10
    group.gets(B, 0, 2)


def test_two_members_have_a_record() -> None:
    group = Group()
    group.gets(A, 0)
    group.now_ms = LOCK_MS // 2
    group.gets(B, 0, 2)
    with violates("one holder"):
        group.gets_nothing(A)


def test_a_lock_ends_with_its_session() -> None:
    group = Group()
    group.gets(A, 0)
    group.now_ms = LOCK_MS // 2
    group.gets(B, 0, 2)
    group.judge.on(ShareSessionOver(A))
    group.judge.on(ShareSessionOver(B))
    group.gets(ShareSession("a", "broker-1", 9), 0, 3)


def test_a_count_that_does_not_rise_after_a_release() -> None:
    group = Group()
    group.gets(A, 0, 2)
    group.says(A, 0, Kind.RELEASE)
    group.now_ms = 10
    group.leads("broker-1")
    with violates("deliveries counted"):
        group.gets(B, 0, 2)


def test_who_has_lost_a_record_decides_on_it() -> None:
    group = Group()
    group.gets(A, 0)
    group.now_ms = LOCK_MS + 10
    group.gets(B, 0, 2)
    group.now_ms += 1
    with violates("holders decide"):
        group.says(A, 0, Kind.ACCEPT)


def test_what_is_said_too_late_of_a_finished_record_means_nothing() -> None:
    group = Group()
    group.gets(A, 0)
    group.now_ms = LOCK_MS + 10
    group.gets(B, 0, 2)
    asked_ms = group.asks_to_say(B, 0, Kind.ACCEPT)
    group.now_ms += 1
    group.says(A, 0, Kind.RELEASE)
    group.is_told(B, 0, Kind.ACCEPT, asked_ms)
    group.now_ms += 1
    with violates("finished once"):
        group.gets(A, 0, 3)


@pytest.mark.parametrize("value", [None, 8])
def test_another_value_than_before(value: int | None) -> None:
    group = Group()
    group.gets(A, 0, value=7)
    group.judge.on(ShareSessionOver(A))
    with violates("as in the log"):
        group.gets(B, 0, 2, value=value)


def test_a_record_that_is_free_and_never_comes() -> None:
    group = Group()
    group.gets(A, 0)
    group.now_ms = LOCK_MS + LOCK_MS + SLACK_MS
    for _ in range(5):
        group.gets_nothing(B)
    group.now_ms += 10
    group.judge.on(RecordsAsked(B, (P,)))
    with violates("comes again"):
        group.gets_nothing(A)


def test_an_error_is_not_repeated_within_a_second() -> None:
    group = Group()
    group.gets(A, 0)
    group.now_ms = LOCK_MS + LOCK_MS + SLACK_MS + 10
    for _ in range(3):
        group.gets_an_error(B)
        for _ in range(5):
            group.now_ms += ERROR_AGAIN_MS // 5 - 1
            group.gets_nothing(B)
    group.now_ms += ERROR_AGAIN_MS
    with violates("comes again"):
        for _ in range(5):
            group.gets_nothing(B)


def test_an_error_ends_a_row_of_empty_fetches() -> None:
    group = Group()
    group.gets(A, 0)
    group.now_ms = LOCK_MS + LOCK_MS + SLACK_MS
    for _ in range(5):
        group.gets_nothing(A)
    group.gets_an_error(B)
    group.now_ms += 10
    group.gets_nothing(A)


def test_a_fetch_without_an_answer_may_have_a_record() -> None:
    group = Group()
    group.gets(A, 0)
    group.judge.on(RecordsAsked(B, (P,)))
    group.now_ms = LOCK_MS + LOCK_MS + SLACK_MS + 10
    for _ in range(5):
        group.gets_nothing(A)
    group.judge.on(ShareSessionOver(B))
    for _ in range(5):
        group.gets_nothing(A)
    group.now_ms += LOCK_MS + LOCK_MS + SLACK_MS + 10
    with violates("comes again"):
        group.gets_nothing(A)


def test_a_fetch_of_another_partition_excuses_nothing() -> None:
    group = Group()
    group.gets(A, 0)
    for number in range(LIMIT):
        session = ShareSession("c", "broker-1", 10 + number)
        group.judge.on(RecordsAsked(session, (TopicPartition("in", 1),)))
    with violates("finished first"):
        group.starts(1)


def test_the_start_passes_what_nobody_finished() -> None:
    group = Group()
    group.gets(A, 0)
    with violates("finished first"):
        group.starts(1)


@pytest.mark.parametrize("kind", [Kind.ACCEPT, Kind.REJECT])
def test_the_start_passes_what_is_about_to_be_answered(kind: Kind) -> None:
    """The share coordinator has the end of a record before its member has the answer: seeds 11 and 16 of `shares`."""
    group = Group()
    group.gets(A, 0)
    asked_ms = group.asks_to_say(A, 0, kind)
    group.starts(1)
    group.is_told(A, 0, kind, asked_ms, is_kept=False)
    with violates("finished first"):
        group.starts(1)


def test_the_start_moves_back() -> None:
    group = Group()
    for offset in (0, 1):
        group.gets(A, offset)
        group.says(A, offset, Kind.ACCEPT)
    group.now_ms = 10
    group.starts(2)
    with violates("start stays"):
        group.starts(1)


def test_what_was_never_delivered_in_the_end() -> None:
    group = Group()
    group.gets(A, 0)
    log = {"in-0": FinalLog("in-0", 0, 2, {0: 8, 1: 9})}
    assert group.judge.left(P, 2) == [0, 1]
    kinds = [(each.kind, each.detail.split(" ")[1]) for each in group.judge.anomalies(log, {8: 0, 9: 0})]
    assert kinds == [("as in the log", "0"), ("delivered", "1")]
    for number in range(LIMIT):
        session = ShareSession("c", "broker-1", 10 + number)
        group.judge.on(RecordsAsked(session, (P,)))
        group.judge.on(ShareSessionOver(session))
    assert [each.kind for each in group.judge.anomalies(log, {8: 0, 9: 0})] == ["as in the log"]


def test_what_is_lost_with_the_log_excuses_everything() -> None:
    group = Group()
    group.gets(A, 0)
    group.says(A, 0, Kind.ACCEPT)
    group.has_lost = True
    group.now_ms = 10
    group.gets(B, 0)
    group.starts(5)
    assert group.judge.left(P, 9) == []
    assert group.judge.anomalies({}, {}) == []


def test_what_is_said_of_a_record_that_came_after_the_loss_is_not_judged() -> None:
    group = Group()
    group.has_lost = True
    group.gets(A, 0)
    group.says(A, 0, Kind.ACCEPT)
    group.says(A, 0, Kind.RELEASE)
    assert not group.judge.counts

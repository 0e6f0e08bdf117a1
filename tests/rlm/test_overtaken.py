"""Which of two copies of the same offsets, begun by two brokers that both believe to lead, gives way. Pure."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata
from tierfetch.rlm.core.moment import Moment
from tierfetch.rlm.core.plan import must_give_way, overtaken_by
from tierfetch.rlm.core.view import PartitionView

from .views import FINISHED, ME, OTHER, PARTITION, STARTED, local, remote, view

DEADLINE_MS = 2_000
"""What the view grants a segment of 1,000 bytes."""
OLD, NEW, KAFKAS = 4, 5, None


def attempt(
    number: int, leader_epoch: int | None, broker_id: int, *, at_ms: int = 0, start: int = 0, end: int = 100
) -> RemoteLogSegmentMetadata:
    """`leader_epoch` None is an id that does not say."""
    segment_id = (
        RemoteLogSegmentId(PARTITION, UUID(int=number, version=4))
        if leader_epoch is None
        else RemoteLogSegmentId.of_attempt(PARTITION, leader_epoch, number)
    )
    started = remote(number, start, end, state=STARTED, broker_id=broker_id, at_ms=at_ms)
    return replace(started, segment_id=segment_id)


def is_overtaken(
    ledger: PartitionView, own: RemoteLogSegmentMetadata, by: RemoteLogSegmentMetadata, now_ms: int = 0
) -> bool:
    rival = overtaken_by(ledger, own.segment_id, Moment(now_ms))
    assert rival in (None, by)
    return rival is not None


@pytest.mark.parametrize(
    ("own", "other", "if_other_is_later", "if_other_is_earlier"),
    [
        (NEW, OLD, False, False),
        (OLD, NEW, True, True),
        (KAFKAS, NEW, True, False),
        (NEW, KAFKAS, True, False),
        (KAFKAS, KAFKAS, True, False),
    ],
)
def test_R1_an_attempt_is_overtaken_by_a_later_leaders(
    own: int | None, other: int | None, if_other_is_later: bool, if_other_is_earlier: bool
) -> None:
    one, two = attempt(1, own, ME), attempt(2, other, OTHER)
    assert is_overtaken(view(remote=(one, two)), one, two) is if_other_is_later
    assert is_overtaken(view(remote=(two, one)), one, two) is if_other_is_earlier


def test_R1_an_earlier_attempt_of_a_higher_epoch_counts_as_long_as_its_upload_may_take() -> None:
    """A cluster that was restored begins its epochs again; what its predecessor left half done is in nobody's way."""
    own, left = attempt(1, OLD, ME, at_ms=9_000), attempt(2, NEW, OTHER, at_ms=7_000)
    restored = view(remote=(left, own))
    assert is_overtaken(restored, own, left, 7_000 + DEADLINE_MS)
    assert not is_overtaken(restored, own, left, 7_001 + DEADLINE_MS)


def test_R1_an_attempt_from_far_in_the_future_holds_up_nothing() -> None:
    """Of a broken clock, or of somebody who can write into the tier's metadata: it would never run out of time."""
    own, foreign = attempt(1, OLD, ME, at_ms=9_000), attempt(2, 2**31 - 1, OTHER, at_ms=2**62)
    found = view(remote=(foreign, own))
    assert not is_overtaken(found, own, foreign, 9_000)
    assert not must_give_way(found, local(0, 100), foreign, Moment(9_000))
    assert is_overtaken(found, own, foreign, 2**62 - DEADLINE_MS), "a clock may be ahead a little"


def test_R1_a_leader_waits_for_its_rival_until_that_one_has_ended_or_its_time_is_over() -> None:
    own, rival = attempt(1, OLD, ME), attempt(2, NEW, OTHER)
    waiting = view(remote=(own, rival))
    assert must_give_way(waiting, local(0, 100), rival, Moment(DEADLINE_MS))
    assert not must_give_way(waiting, local(0, 100), rival, Moment(DEADLINE_MS + 1))
    assert not must_give_way(waiting, local(100, 200), rival, Moment(0))
    assert not must_give_way(view(remote=(own, replace(rival, state=FINISHED))), local(0, 100), rival, Moment(0))
    assert not must_give_way(view(remote=(own,)), local(0, 100), rival, Moment(0))


def test_R1_only_others_unfinished_attempts_at_the_same_offsets_overtake() -> None:
    own = attempt(1, OLD, ME)
    for other in (
        attempt(2, NEW, ME),
        attempt(2, NEW, OTHER, start=100, end=200),
        replace(attempt(2, NEW, OTHER), state=FINISHED),
    ):
        assert not is_overtaken(view(remote=(own, other)), own, other)
    assert overtaken_by(view(), own.segment_id, Moment(0)) is None, "its started event has not been read yet"


EPOCHS = st.one_of(st.none(), st.integers(0, 3))
TIMES = st.integers(0, 2 * DEADLINE_MS)


@given(EPOCHS, EPOCHS, TIMES, TIMES, TIMES, TIMES)
def test_R1_of_two_that_see_the_same_at_most_one_is_overtaken(
    first: int | None, second: int | None, first_ms: int, second_ms: int, now_ms: int, others_now_ms: int
) -> None:
    """Whatever their clocks say: none of the two uploads in vain because both have given way."""
    one, two = attempt(1, first, ME, at_ms=first_ms), attempt(2, second, OTHER, at_ms=second_ms)
    seen = view(remote=(one, two))
    assert not (is_overtaken(seen, one, two, now_ms) and is_overtaken(seen, two, one, others_now_ms))

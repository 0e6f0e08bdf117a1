"""An loss covers the records that were lost, and nothing else: neither what lies above, nor what came afterwards."""

from __future__ import annotations

import pytest

from tierfetch.sim.judges.core.allowed_losses import AllowedLoss, AllowedLosses

LOSS = AllowedLoss(from_offset=4, end_offset=8, at_ms=100, until_ms=300)
STILL_BELIEVED = AllowedLoss(from_offset=4, end_offset=8, at_ms=100)


@pytest.mark.parametrize(
    ("offset", "sent_ms", "asked_ms", "is_covered"),
    [
        (4, 50, 90, True),
        (7, 100, 300, True),  # told by a replica that did not know of the loss yet
        (3, 50, 90, False),
        (8, 50, 90, False),
        (4, 101, 150, False),  # sent after the loss: it cannot have been lost in it
        (4, 50, 301, False),  # told when everybody knew: it was there still, or again
    ],
)
def test_records_that_are_covered(offset: int, sent_ms: int, asked_ms: int, is_covered: bool) -> None:
    assert AllowedLosses([LOSS]).covers(offset, sent_ms, asked_ms) is is_covered


def test_somebody_may_still_believe_in_what_was_lost() -> None:
    assert AllowedLosses([STILL_BELIEVED]).covers(4, 50, 10_000)
    assert AllowedLosses([STILL_BELIEVED]).may_hide(4, 10_000)
    assert not AllowedLosses([LOSS]).may_hide(4, 301)
    assert not AllowedLosses([LOSS]).may_hide(8, 200)


def test_whether_there_is_any_excuse() -> None:
    assert AllowedLosses([LOSS])
    assert not AllowedLosses()


def test_what_may_be_said_to_be_committed_ends_where_the_loss_does() -> None:
    allowed = AllowedLosses([LOSS])
    assert allowed.may_be_committed(8, 300)
    assert not allowed.may_be_committed(9, 200)
    assert not allowed.may_be_committed(8, 301)


def test_a_reader_goes_back_no_further_than_what_was_lost_before_it_asked_again() -> None:
    twice = AllowedLosses([LOSS, AllowedLoss(from_offset=2, end_offset=5, at_ms=400)])
    assert AllowedLosses([LOSS]).floor(8, 90, 150) == 4
    assert AllowedLosses([LOSS]).floor(8, 90, 99) == 8
    assert AllowedLosses([LOSS]).floor(9, 90, 150) == 9
    assert AllowedLosses([LOSS]).floor(8, 301, 400) == 8
    assert AllowedLosses([LOSS]).floor(4, 90, 150) == 4
    assert twice.floor(8, 90, 399) == 4
    assert twice.floor(7, 310, 500) == 7


def test_what_a_deposed_leader_committed_piece_by_piece_is_lost_as_a_whole() -> None:
    pieces = [(0, 24, 3_000), (24, 30, 5_000), (30, 51, 6_000)]
    losses = AllowedLosses(AllowedLoss(from_offset=at, end_offset=end, at_ms=at_ms) for at, end, at_ms in pieces)
    assert losses.floor(51, 5_500, 6_000) == 0
    assert losses.floor(51, 5_500, 5_999) == 51
    assert losses.floor(52, 5_500, 6_000) == 52

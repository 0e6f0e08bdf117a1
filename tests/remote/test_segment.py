"""The ids of attempts to copy a segment."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from tierfetch.remote.core import RemoteLogSegmentId

from .builders import PARTITION

EPOCHS = st.integers(0, 2**31 - 1)
BITS = st.integers(0, 2**128 - 1)


@given(EPOCHS, BITS)
def test_R1_an_attempts_id_says_its_leader_epoch(leader_epoch: int, bits: int) -> None:
    attempt = RemoteLogSegmentId.of_attempt(PARTITION, leader_epoch, bits)
    assert attempt.leader_epoch == leader_epoch
    assert (attempt.id.variant, attempt.id.version) == (uuid.RFC_4122, 8)
    assert RemoteLogSegmentId(PARTITION, uuid.UUID(bytes=attempt.id.bytes)) == attempt


@given(EPOCHS, BITS, st.integers(0, 89))
def test_R1_each_of_90_random_bits_tells_two_attempts_of_one_leader_apart(
    leader_epoch: int, bits: int, number: int
) -> None:
    place = number + (number >= 62) * 2 + (number >= 74) * 4
    one = RemoteLogSegmentId.of_attempt(PARTITION, leader_epoch, bits)
    other = RemoteLogSegmentId.of_attempt(PARTITION, leader_epoch, bits ^ 1 << place)
    assert one != other


@given(BITS)
def test_R1_an_id_of_others_says_nothing(bits: int) -> None:
    """Those of Java's UUID.randomUUID, and of versions before."""
    assert RemoteLogSegmentId(PARTITION, uuid.UUID(int=bits, version=4)).leader_epoch is None


def test_R1_an_epoch_that_no_leader_can_have_is_none() -> None:
    foreign = uuid.UUID("ffffffff-0000-8000-8000-000000000000")
    assert RemoteLogSegmentId(PARTITION, foreign).leader_epoch is None
    assert RemoteLogSegmentId(PARTITION, uuid.UUID(int=0)).leader_epoch is None

"""Where a batch probably is: what a guess may cost, whatever the segment is like, and when it must be right."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from tierfetch.rlm.core.guess import (
    BEFORE_SHARE,
    PARTITIONS_MAX,
    TRUST_MAX,
    ByteRange,
    GuessTrust,
    probable_range,
)

from .views import PARTITION, remote

CHUNK = 6_400
BEFORE = CHUNK // BEFORE_SHARE
BATCHES = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(61, 3 * CHUNK)), min_size=1, max_size=40
)
"""Each with the offsets that compaction left out before it, those that it has, and its size."""
READ_BYTES = st.integers(0, 3 * CHUNK)


@given(BATCHES, READ_BYTES, st.data())
def test_a_guess_is_within_the_log_and_within_two_chunks_whatever_the_batches(
    batches: list[tuple[int, int, int]], read_bytes: int, data: st.DataObject
) -> None:
    end_offset = 7 + sum(left_out + count for left_out, count, _ in batches)
    segment = replace(remote(1, 7, end_offset), segment_size_in_bytes=sum(size for _, _, size in batches))
    offset = data.draw(st.integers(segment.start_offset, segment.end_offset))
    guess = probable_range(segment, offset, read_bytes, CHUNK)
    assert 0 <= guess.start < guess.end <= segment.segment_size_in_bytes
    assert guess.size <= CHUNK
    assert (guess.end - 1) // CHUNK - guess.start // CHUNK <= 1


@given(st.integers(1, 500), st.integers(1, 20), st.integers(61, BEFORE), READ_BYTES, st.data())
def test_of_even_batches_a_guess_has_the_batch_and_the_first_of_what_follows(
    count: int, offsets: int, batch_bytes: int, read_bytes: int, data: st.DataObject
) -> None:
    segment = replace(remote(1, 7, 7 + count * offsets), segment_size_in_bytes=count * batch_bytes)
    number = data.draw(st.integers(0, count - 1))
    offset = 7 + number * offsets + data.draw(st.integers(0, offsets - 1))
    guess = probable_range(segment, offset, read_bytes, CHUNK)
    assert guess.start <= number * batch_bytes < guess.end
    wanted_end = min(segment.segment_size_in_bytes, number * batch_bytes + min(read_bytes, CHUNK - 2 * BEFORE))
    assert guess.end >= wanted_end


@given(BATCHES, READ_BYTES, st.data())
def test_a_segment_of_one_chunk_is_guessed_right_whatever_its_batches(
    batches: list[tuple[int, int, int]], read_bytes: int, data: st.DataObject
) -> None:
    sizes = [size for _, _, size in batches]
    ends = list(accumulate(left_out + count for left_out, count, _ in batches))
    segment = replace(remote(1, 0, ends[-1]), segment_size_in_bytes=sum(sizes))
    chunk = sum(sizes)
    guess = probable_range(segment, data.draw(st.integers(0, segment.end_offset)), read_bytes, chunk)
    assert guess.start // chunk == (guess.end - 1) // chunk == 0


@given(st.lists(st.booleans(), max_size=200))
def test_wrong_guesses_exceed_right_ones_by_a_bound_and_right_ones_bring_trust_back(values: list[bool]) -> None:
    trust, wrong, right = GuessTrust(), 0, 0
    for is_right in values:
        wrong += trust.may_guess(PARTITION) and not is_right
        right += is_right
        trust.judge(PARTITION, is_right=is_right)
        assert wrong <= right + TRUST_MAX
    trust.judge(PARTITION, is_right=True)
    assert trust.may_guess(PARTITION)


def test_a_partition_in_which_guesses_are_wrong_says_nothing_of_another() -> None:
    trust = GuessTrust()
    for _ in range(TRUST_MAX):
        assert trust.may_guess(PARTITION)
        trust.judge(PARTITION, is_right=False)
    assert not trust.may_guess(PARTITION)
    assert trust.may_guess(replace(PARTITION, partition=1))


def test_as_many_partitions_are_remembered_as_there_is_room_for() -> None:
    trust = GuessTrust()
    for number in range(PARTITIONS_MAX + 3):
        for _ in range(TRUST_MAX):
            trust.judge(replace(PARTITION, partition=number), is_right=False)
    assert len(trust._trust) == PARTITIONS_MAX
    assert trust.may_guess(replace(PARTITION, partition=0))
    assert not trust.may_guess(replace(PARTITION, partition=PARTITIONS_MAX))


def test_ranges_that_share_a_byte_touch() -> None:
    assert ByteRange(10, 20).touches(19, 30)
    assert ByteRange(10, 20).touches(0, 11)
    assert not ByteRange(10, 20).touches(20, 30)
    assert not ByteRange(10, 20).touches(0, 10)

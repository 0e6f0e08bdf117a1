"""Frames from bytes that arrive in arbitrary pieces."""

from __future__ import annotations

import mmap
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.protocol.wire.framing import (
    FIRST_BUFFER_SIZE,
    GROWTH,
    MAPPED_FRAME_SIZE_MIN,
    SCRATCH_SIZE,
    FrameAssembler,
    FrameTooLargeError,
)

LIMIT = 100_000


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def feed(assembler: FrameAssembler, data: bytes | memoryview) -> int:
    """Put as much of `data` as the next buffer takes; returns how much."""
    buffer = assembler.get_buffer()
    count = min(len(buffer), len(data))
    assert count, "an empty buffer ends a connection"
    buffer[:count] = data[:count]
    assembler.filled(count)
    return count


def frames(assembler: FrameAssembler) -> list[bytes]:
    found = []
    while assembler.next_size() is not None and (frame := assembler.frame()) is not None:
        found.append(bytes(frame))
    return found


PAYLOADS = st.lists(
    st.binary(max_size=50) | st.sampled_from([0, 1, SCRATCH_SIZE - 4, SCRATCH_SIZE, 3 * SCRATCH_SIZE]).map(bytes),
    max_size=8,
)


@given(payloads=PAYLOADS, cuts=st.lists(st.integers(1, 6000), min_size=1, max_size=30))
def test_frames_come_out_whole_however_the_bytes_are_cut(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(framed, payloads))
    assembler = FrameAssembler(LIMIT)
    found: list[bytes] = []
    step = 0
    while stream:
        stream = stream[feed(assembler, stream[: cuts[step % len(cuts)]]) :]
        step += 1
        found += frames(assembler)
    assert found == payloads
    assert not assembler.is_partial


@given(payloads=PAYLOADS.filter(len), cut=st.integers(1, 10))
def test_a_part_of_a_frame_is_seen_as_one(payloads: list[bytes], cut: int) -> None:
    stream = b"".join(map(framed, payloads))
    stream = stream[: max(len(stream) - cut, 0)]
    assembler = FrameAssembler(LIMIT)
    whole = 0
    while stream:
        stream = stream[feed(assembler, stream) :]
        whole += sum(len(frame) + 4 for frame in frames(assembler))
    assert assembler.is_partial == (whole < max(sum(len(framed(payload)) for payload in payloads) - cut, 0))


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_an_absurd_size_is_refused_before_memory_is_taken(size: int) -> None:
    assembler = FrameAssembler(LIMIT)
    feed(assembler, struct.pack(">i", size))
    with pytest.raises(FrameTooLargeError, match=str(size)):
        assembler.next_size()


def test_the_largest_allowed_size_is_taken() -> None:
    assembler = FrameAssembler(LIMIT)
    feed(assembler, struct.pack(">i", LIMIT))
    assert assembler.next_size() == LIMIT


def test_the_kernel_fills_the_frame_itself() -> None:
    """What does not fit the scratch goes directly into the frame's own, exactly sized buffer."""
    assembler = FrameAssembler(LIMIT)
    feed(assembler, framed(bytes(50_000))[:SCRATCH_SIZE])
    assert assembler.frame() is None
    buffer = assembler.get_buffer()
    assert len(buffer) == 50_000 - (SCRATCH_SIZE - 4)
    buffer[:] = b"x" * len(buffer)
    assembler.filled(len(buffer))
    frame = assembler.frame()
    assert frame is not None
    assert frame.obj is buffer.obj
    assert not frame.readonly
    assert bytes(frame[-1:]) == b"x"


def test_a_large_frame_is_mapped_so_that_its_size_alone_takes_no_memory() -> None:
    assembler = FrameAssembler(MAPPED_FRAME_SIZE_MIN)
    feed(assembler, struct.pack(">i", MAPPED_FRAME_SIZE_MIN))
    assert assembler.frame() is None
    assert isinstance(assembler.get_buffer().obj, mmap.mmap)


def test_frames_that_are_not_asked_for_wait() -> None:
    assembler = FrameAssembler(LIMIT)
    feed(assembler, framed(b"one") + framed(b"two"))
    first = assembler.frame()
    assert first is not None
    assert bytes(first) == b"one"
    assert assembler.is_partial
    feed(assembler, framed(b"three"))
    assert frames(assembler) == [b"two", b"three"]


def large_frame(assembler: FrameAssembler, payload: bytes) -> memoryview:
    data = memoryview(framed(payload))
    while data:
        data = data[feed(assembler, bytes(data)) :]
        if assembler.next_size() is not None and (frame := assembler.frame()) is not None:
            return frame
    raise AssertionError("the frame is not whole")


def test_the_buffer_of_a_large_frame_is_used_again_once_nobody_has_a_view_of_it() -> None:
    assembler = FrameAssembler(10_000_000, recycles=True)
    first = large_frame(assembler, b"a" * 2_000_000)
    buffer = first.obj
    kept = first[100:200]
    second = large_frame(assembler, b"b" * 1_900_000)
    assert second.obj is not buffer, "somebody has a view of the first one"
    assert kept == b"a" * 100
    del first, kept
    buffer = second.obj
    del second
    third = large_frame(assembler, b"c" * 1_800_000)
    assert third.obj is buffer
    assert third == b"c" * 1_800_000
    del third
    assert large_frame(assembler, b"d" * 3_000_000) == b"d" * 3_000_000
    assert large_frame(assembler, b"e" * 100) == b"e" * 100


def test_what_is_arriving_can_be_looked_at() -> None:
    assembler = FrameAssembler(10_000_000)
    assert assembler.arriving is None
    data = framed(b"x" * 10_000)
    feed(assembler, data)
    assert assembler.next_size() == 10_000
    assert assembler.frame() is None
    assert assembler.arriving is not None
    frame, count = assembler.arriving
    assert (len(frame), count) == (10_000, SCRATCH_SIZE - 4)
    assert frame[:count] == b"x" * count


def test_what_a_frame_takes_grows_with_what_has_arrived() -> None:
    size = MAPPED_FRAME_SIZE_MIN - 1
    assembler, payload = FrameAssembler(size), bytes(range(251)) * (size // 251 + 1)
    data, sizes = memoryview(framed(payload[:size])), set[int]()
    while (frame := assembler.frame() if assembler.next_size() is not None else None) is None:
        assert assembler.arriving is None or len(assembler.arriving[0]) <= max(
            FIRST_BUFFER_SIZE, GROWTH * assembler.arriving[1]
        )
        sizes.add(0 if assembler.arriving is None else len(assembler.arriving[0]))
        data = data[feed(assembler, data) :]
    assert sizes == {0, FIRST_BUFFER_SIZE, GROWTH * FIRST_BUFFER_SIZE, size}
    assert frame == payload[:size]
    assert not assembler.is_partial

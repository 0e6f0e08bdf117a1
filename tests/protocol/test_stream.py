"""What both ends of a connection share: here, for how many bytes of a frame the kernel wakes its reader."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.protocol.net.stream import WAKE_BYTES_MAX, WAKE_BYTES_MIN, StreamProtocol

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the reader is woken for every byte")

FRAME_SIZE_MAX = 4 * WAKE_BYTES_MAX


class RecordingSocket:
    """The part of a socket that is used, and the low-water mark that it was given last."""

    def __init__(self) -> None:
        self.wake_bytes = 1

    def setsockopt(self, level: int, option: int, value: int) -> None:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        self.wake_bytes = value


class Transport(asyncio.Transport):
    """Has a socket and, where it is given one, a TLS context."""

    def __init__(self, connected: RecordingSocket, context: ssl.SSLContext | None = None) -> None:
        super().__init__({"socket": connected, "sslcontext": context})
        self.is_closed = False

    def is_closing(self) -> bool:
        return self.is_closed


class Frames(StreamProtocol):
    """Takes every frame."""

    def __init__(self) -> None:
        super().__init__(asyncio.new_event_loop(), FRAME_SIZE_MAX)
        self.loop.close()
        self.received: list[int] = []

    def bytes_received(self) -> None:
        while self.frames.next_size() is not None and (frame := self.frames.frame()) is not None:
            self.received.append(len(frame))

    def arrive(self, data: Any) -> int:
        """As much of the data as the kernel would put into the buffer."""
        buffer = self.get_buffer(-1)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        self.buffer_updated(count)
        return count


SIZES = st.lists(
    st.integers(0, 100)
    | st.sampled_from([WAKE_BYTES_MIN, WAKE_BYTES_MIN + 5000, WAKE_BYTES_MAX, FRAME_SIZE_MAX])
    | st.integers(0, FRAME_SIZE_MAX),
    min_size=1,
    max_size=4,
)


@given(sizes=SIZES, cuts=st.lists(st.integers(1, FRAME_SIZE_MAX), min_size=1, max_size=5))
def test_the_reader_is_woken_before_the_last_byte_that_must_come_has_passed(sizes: list[int], cuts: list[int]) -> None:
    """A mark above what is still to come of the frame would leave its end unread for ever."""
    connected, protocol = RecordingSocket(), Frames()
    protocol.connection_made(Transport(connected))
    stream = memoryview(b"".join(struct.pack(">i", size) + bytes(size) for size in sizes))
    step = 0
    while stream:
        wanted = max(cuts[step % len(cuts)], connected.wake_bytes)
        assert len(stream) >= connected.wake_bytes, "nobody would be woken"
        stream = stream[protocol.arrive(stream[:wanted]) :]
        step += 1
    assert protocol.received == sizes
    assert connected.wake_bytes == 1, "the next frame may be small"


def test_a_large_frame_wakes_its_reader_seldom() -> None:
    connected, protocol = RecordingSocket(), Frames()
    protocol.connection_made(Transport(connected))
    protocol.arrive(struct.pack(">i", FRAME_SIZE_MAX))
    assert connected.wake_bytes == WAKE_BYTES_MAX
    left = bytes(FRAME_SIZE_MAX - WAKE_BYTES_MIN)
    while left:
        left = left[protocol.arrive(left) :]
    assert connected.wake_bytes == WAKE_BYTES_MIN
    protocol.arrive(b"x")
    assert connected.wake_bytes == 1


def test_under_tls_every_byte_wakes() -> None:
    """Parts of what was read may be held back in a TLS record, so less may come than is missing."""
    connected, protocol = RecordingSocket(), Frames()
    protocol.connection_made(Transport(connected, ssl.create_default_context()))
    protocol.arrive(struct.pack(">i", FRAME_SIZE_MAX))
    assert connected.wake_bytes == 1


def test_a_closed_socket_is_left_alone() -> None:
    connected, protocol = RecordingSocket(), Frames()
    transport = Transport(connected)
    protocol.connection_made(transport)
    transport.is_closed = True
    protocol.arrive(struct.pack(">i", FRAME_SIZE_MAX))
    assert connected.wake_bytes == 1

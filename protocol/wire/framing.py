"""Frames: an int32 size, then as many bytes. Bytes come in as the network cuts them, frames go out whole.

    IDLE --first bytes--> SIZE --all 4 bytes--> (memory?) --> BODY --last byte--> a frame, IDLE
                                                   |
                                                   +-- wait for memory (backpressure) --> BODY

Rules:
* What arrives first is read into a small scratch buffer, so that a burst of small requests costs one system call.
* A frame that is not whole in the scratch gets a buffer of its own, which the kernel then fills directly. `frame()`
  hands it out as a writable view (a leader stamps offsets in place).
* A size is checked against the limit before any memory is taken, and what a peer announces costs little: the buffer of
  a frame above `FIRST_BUFFER_SIZE` begins with that and grows `GROWTH` times when it is full, which copies an eighth of
  the bytes once more. From `MAPPED_FRAME_SIZE_MIN` on it is mapped, not zeroed, and costs address space only.
* A buffer that no view refers to any longer is used for the next frame, where the owner asks for that: fresh memory
  costs as much as filling it.
* The assembler decides nothing about time: who owns it asks `is_partial` and times it.

Pure: knows no transport.
"""

from __future__ import annotations

import mmap
from typing import Final

from .primitives import INT32, MalformedMessageError

SIZE_BYTES: Final = 4
SCRATCH_SIZE: Final = 4096
MAPPED_FRAME_SIZE_MIN: Final = 16 * 1024 * 1024
"""From here on a frame is mapped: a claimed size alone then takes no memory. Below, the allocator's warm pages make a
buffer several times cheaper than a fault for each page.
"""
FIRST_BUFFER_SIZE: Final = 256 * 1024
GROWTH: Final = 8
READ_SIZE_MAX: Final = 512 * 1024
"""What one read takes at most, so that the owner can stop a peer that sends much at once."""
RECYCLED_FRAME_SIZE_MIN: Final = 64 * 1024
RECYCLED_FRAME_SIZE_STEP: Final = 1024 * 1024


TLS_RECORD: Final = 0x1603
"""How a TLS handshake begins, where a frame's size would be."""


class FrameTooLargeError(MalformedMessageError):
    """An announced size that is negative or above the limit."""


class FrameAssembler:
    """Frames of one direction of one connection.

    The owner repeats: `get_buffer()`, have it filled, `filled(n)`, then `frame()` until it returns None. If it stops
    asking for frames (backpressure), it must not fill the buffer either until it has asked again.
    """

    __slots__ = (
        "_frame",
        "_frame_filled",
        "_frame_size",
        "_frame_size_max",
        "_recycled",
        "_recycles",
        "_scratch",
        "_scratch_end",
        "_scratch_start",
    )

    def __init__(self, frame_size_max: int, *, recycles: bool = False) -> None:
        self._frame_size_max = frame_size_max
        self._recycles = recycles
        self._recycled = bytearray()
        """The buffer of the last large frame: the next one's, if by then no view of it is left."""
        self._scratch = memoryview(bytearray(SCRATCH_SIZE))
        self._scratch_start = 0
        self._scratch_end = 0
        self._frame: memoryview | None = None
        """The buffer of the frame that is being filled directly, as far as it has grown; None while bytes go into the
        scratch.
        """
        self._frame_size = 0
        self._frame_filled = 0

    @property
    def is_partial(self) -> bool:
        """Whether a part of a frame has arrived and more of it must come."""
        return self._frame is not None or self._scratch_end > self._scratch_start

    @property
    def missing(self) -> int:
        """How many bytes the frame that is being filled still needs; 0 while its size is not known."""
        return 0 if self._frame is None else self._frame_size - self._frame_filled

    def get_buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._frame is not None:
            return self._frame[self._frame_filled : self._frame_filled + READ_SIZE_MAX]
        if self._scratch_start == self._scratch_end:
            self._scratch_start = self._scratch_end = 0
            return self._scratch
        if self._scratch_start > 0:
            self._move_to_front()
        return self._scratch[self._scratch_end :]

    def filled(self, count: int) -> None:
        """`count` bytes were put at the beginning of the last buffer."""
        if self._frame is not None:
            self._frame_filled += count
            if self._frame_filled == len(self._frame) < self._frame_size:
                self._frame = self._grown(self._frame)
        else:
            self._scratch_end += count

    @property
    def arriving(self) -> tuple[memoryview, int] | None:
        """The buffer of the frame that is being filled, and how many bytes of it are there."""
        return None if self._frame is None else (self._frame, self._frame_filled)

    def clear(self) -> None:
        """Throw away what has arrived; the stream is of no use afterwards."""
        self._frame = None
        self._scratch_start = self._scratch_end = 0

    def next_size(self) -> int | None:
        """Size of the frame that `frame()` would begin or return, None while it is not known.

        FrameTooLargeError names the size.
        """
        if self._frame is not None:
            return self._frame_size
        if self._scratch_end - self._scratch_start < SIZE_BYTES:
            return None
        size: int = INT32.unpack_from(self._scratch, self._scratch_start)[0]
        if not 0 <= size <= self._frame_size_max:
            hint = "; it looks like TLS on a listener without it" if size >> 16 == TLS_RECORD else ""
            raise FrameTooLargeError(
                f"a frame of {size} bytes is announced; at most {self._frame_size_max} are allowed{hint}"
            )
        return size

    def frame(self, size: int | None = None) -> memoryview | None:
        """The next whole frame without its size, or None: more bytes are needed. `size`: what `next_size` has said."""
        if self._frame is None:
            if self._scratch_start == self._scratch_end:
                return None
            if size is None and (size := self.next_size()) is None:
                return None
            return self._from_scratch(size)
        if self._frame_filled < self._frame_size:
            return None
        frame, self._frame = self._frame, None
        return frame

    def _from_scratch(self, size: int) -> memoryview | None:
        """The frame if it is there as a whole; what is there of it is moved to a buffer of its own otherwise."""
        start, here = self._scratch_start + SIZE_BYTES, self._scratch_end
        end = start + size
        if end <= here:
            self._scratch_start = end
            return memoryview(bytearray(self._scratch[start:end]))
        frame = self._frame = self._allocate(size)
        self._frame_size, self._frame_filled = size, here - start
        frame[: here - start] = self._scratch[start:here]
        self._scratch_start = here
        return None

    def _move_to_front(self) -> None:
        rest = bytes(self._scratch[self._scratch_start : self._scratch_end])
        self._scratch[: len(rest)] = rest
        self._scratch_start, self._scratch_end = 0, len(rest)

    def _allocate(self, size: int) -> memoryview:
        if size >= MAPPED_FRAME_SIZE_MIN:
            return _mapped(size)
        if not self._recycles:
            return memoryview(bytearray(min(size, FIRST_BUFFER_SIZE)))
        if size < RECYCLED_FRAME_SIZE_MIN:
            return memoryview(bytearray(size))
        if len(self._recycled) < size or not _is_unused(self._recycled):
            self._recycled = bytearray(-(-size // RECYCLED_FRAME_SIZE_STEP) * RECYCLED_FRAME_SIZE_STEP)
        return memoryview(self._recycled)[:size]

    def _grown(self, full: memoryview) -> memoryview:
        buffer = memoryview(bytearray(min(self._frame_size, GROWTH * len(full))))
        buffer[: len(full)] = full
        return buffer


def _is_unused(buffer: bytearray) -> bool:
    """Whether no view of it is left: only then can its length be changed."""
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)
    return True


def _mapped(size: int) -> memoryview:
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE") and size > MAPPED_FRAME_SIZE_MIN:
        # Not for its beginning: one byte of a frame that never comes would take a page of 2 MiB.
        pages.madvise(mmap.MADV_NOHUGEPAGE, 0, MAPPED_FRAME_SIZE_MIN)
        pages.madvise(mmap.MADV_HUGEPAGE, MAPPED_FRAME_SIZE_MIN, size - MAPPED_FRAME_SIZE_MIN)
    return memoryview(pages)

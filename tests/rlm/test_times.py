"""What a search by time reads of a batch that is larger than one look."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfetch.protocol.records import DECOMPRESSED_BYTES_MAX, Record, build_batch
from tierfetch.remote import RemoteStorageCorruptError
from tierfetch.rlm import times

from .views import remote


def claiming(size_bytes: int) -> bytes:
    """The beginning of a batch whose header claims that size."""
    data = bytearray(build_batch([Record(0, 0, None, b"v", ())], base_offset=0))
    data[8:12] = (size_bytes - 12).to_bytes(4, "big")
    return bytes(data)


def test_it_reads_as_much_as_the_batch_has() -> None:
    segment = replace(remote(1, 0, 9), segment_size_in_bytes=1 << 20)
    assert times._size_of_large_batch(segment, 100, claiming(5000), 64) == 5000


@pytest.mark.parametrize(
    ("segment_bytes", "claimed", "read"),
    [
        (1 << 20, (1 << 20) + 1, 64),
        (1 << 30, DECOMPRESSED_BYTES_MAX + 1, 64),
        (1 << 20, 5000, 5000),
    ],
    ids=["more than the segment has", "more than any batch has", "what was read and is none"],
)
def test_what_no_batch_can_have_is_not_read(segment_bytes: int, claimed: int, read: int) -> None:
    segment = replace(remote(1, 0, 9), segment_size_in_bytes=segment_bytes)
    with pytest.raises(RemoteStorageCorruptError, match=f"no whole batch at byte 0: {claimed} bytes are claimed"):
        times._size_of_large_batch(segment, 0, claiming(claimed), read)

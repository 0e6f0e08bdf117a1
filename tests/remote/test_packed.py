"""Packed segments: what was packed comes back, and the order of the bytes is the order of the offsets."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import EpochEntry
from tierfetch.remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata, packed

from .builders import FINISHED, PARTITION, segment

FIRST = replace(segment(1, 0, 99, (0, 0), (3, 60), max_timestamp_ms=-1), state=FINISHED)

offsets = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)).map(sorted)
segments = st.builds(
    lambda number, bounds, custom, empty, epochs: replace(
        FIRST,
        segment_id=RemoteLogSegmentId(PARTITION, UUID(int=number)),
        start_offset=bounds[0],
        end_offset=bounds[1],
        custom_metadata=custom,
        txn_index_empty=empty,
        segment_leader_epochs=tuple(EpochEntry(epoch, bounds[0]) for epoch in sorted(epochs)),
    ),
    st.integers(0, 2**128 - 1),
    offsets,
    st.none() | st.binary(max_size=40),
    st.booleans(),
    st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=5),
)


@given(segments)
def test_what_was_packed_comes_back(metadata: RemoteLogSegmentMetadata) -> None:
    row = packed.pack(metadata)
    assert packed.unpack(row, PARTITION) == metadata
    assert packed.offsets_of(row) == (metadata.start_offset, metadata.end_offset)
    assert packed.id_of(row) == metadata.segment_id.id.int
    assert packed.size_of(row) == metadata.segment_size_in_bytes
    assert packed.max_timestamp_of(row) == metadata.max_timestamp_ms
    assert packed.last_epoch_of(row) == metadata.segment_leader_epochs[-1].epoch


@given(segments, segments)
def test_bytes_sort_as_offsets_do(one: RemoteLogSegmentMetadata, other: RemoteLogSegmentMetadata) -> None:
    rows = packed.pack(one), packed.pack(other)
    if one.start_offset != other.start_offset:
        assert (rows[0] < rows[1]) == (one.start_offset < other.start_offset)
    assert (packed.end_key(rows[0]) < packed.end_key(rows[1])) == (one.end_offset < other.end_offset)
    assert (rows[0] < packed.offset_key(other.start_offset)) == (one.start_offset < other.start_offset)


@pytest.mark.parametrize(("custom", "size"), [(None, 89), (b"", 89), (b"where", 94)])
def test_size_of_a_packed_segment(custom: bytes | None, size: int) -> None:
    assert len(packed.pack(replace(FIRST, custom_metadata=custom))) == size

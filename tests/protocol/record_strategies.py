"""Hypothesis strategies for records and batches."""

from __future__ import annotations

from hypothesis import strategies as st

from tierfetch.protocol.records import Compression, Record, build_batch

nullable_bytes = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=10), nullable_bytes), max_size=4).map(tuple)
timestamps = st.integers(-1, 2**53)
codecs = st.sampled_from(list(Compression))


@st.composite
def record_lists(draw: st.DrawFn, size_max: int = 12) -> list[Record]:
    """Records with rising offsets, gaps included."""
    offset = draw(st.integers(0, 2**40))
    records = []
    for gap in draw(st.lists(st.integers(1, 300), min_size=1, max_size=size_max)):
        records.append(Record(offset, draw(timestamps), draw(nullable_bytes), draw(nullable_bytes), draw(headers)))
        offset += gap
    return records


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    records = draw(record_lists(4))
    return build_batch(records, base_offset=records[0].offset, compression=draw(codecs))

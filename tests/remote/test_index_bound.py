"""How large an index may be, by what its segment can have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfetch.remote import IndexType, RemoteStorageCorruptError, check_index_size, index_size_max

from .builders import segment

GIBIBYTE = replace(segment(1, 0, (1 << 30) - 1), segment_size_in_bytes=1 << 30)
BATCHES = (1 << 30) // 61


@pytest.mark.parametrize(
    ("index_type", "size_max"),
    [
        (IndexType.OFFSET, 8 * (BATCHES + 1)),
        (IndexType.TIMESTAMP, 12 * (BATCHES + 1)),
        (IndexType.TRANSACTION, 34 * (BATCHES + 1)),
        (IndexType.PRODUCER_SNAPSHOT, 64 << 20),
        (IndexType.LEADER_EPOCH, 4 << 20),
    ],
)
def test_an_index_of_a_batch_for_each_header_is_the_largest(index_type: IndexType, size_max: int) -> None:
    assert index_size_max(GIBIBYTE, index_type) == size_max
    check_index_size(GIBIBYTE, index_type, size_max)
    with pytest.raises(RemoteStorageCorruptError, match=f"{size_max + 1} bytes, where .* at most {size_max}"):
        check_index_size(GIBIBYTE, index_type, size_max + 1)


@pytest.mark.parametrize("index_type", [IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION])
def test_an_index_that_kafka_preallocated_is_judged_by_its_contents(index_type: IndexType) -> None:
    assert index_size_max(segment(1, 0, 0), index_type) == 10 << 20


def test_the_offsets_of_a_survey_do_not_count() -> None:
    """It asks for the indexes of a segment to find where it ends."""
    surveyed = replace(GIBIBYTE, end_offset=GIBIBYTE.start_offset)
    for index_type in IndexType:
        assert index_size_max(surveyed, index_type) == index_size_max(GIBIBYTE, index_type)

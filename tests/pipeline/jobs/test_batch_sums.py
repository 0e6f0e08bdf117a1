"""Sums of headers against what an independent walk along the batches counts."""

from __future__ import annotations

import pytest

from tierfetch.pipeline.core.batch_table import Selection
from tierfetch.pipeline.jobs.batch_sums import joined, sum_batches
from tierfetch.pipeline.jobs.profile_report import KeyFigures, total
from tierfetch.pipeline.jobs.profiling import bucket_for
from tierfetch.protocol.records import iter_batches
from tierfetch.tests import samples

DAY_MS = 86_400_000


@pytest.mark.parametrize("topic", ["s-none", "s-gzip", "s-snappy", "s-lz4", "s-zstd"])
def test_sums_are_those_of_the_batches(topic: str) -> None:
    found = joined(sum_batches(memoryview(path.read_bytes()), Selection(), 1000) for path in samples.log_files(topic))
    headers = [
        header
        for path in samples.log_files(topic)
        for _, header in iter_batches(path.read_bytes())
        if not header.is_control
    ]
    assert found.total.batches == len(headers)
    assert found.total.records == sum(header.record_count for header in headers)
    assert found.total.size_bytes == sum(header.size_bytes for header in headers)
    assert found.first_timestamp_ms == min(header.base_timestamp for header in headers)
    assert found.last_timestamp_ms == max(header.max_timestamp for header in headers)
    assert found.codecs[topic.removeprefix("s-")].batches > 0
    assert sum(bucket.records for bucket in found.buckets.values()) == found.total.records
    assert {start % 1000 for start in found.buckets} == {0}


def test_only_the_selected_batches_count() -> None:
    path = samples.log_files("s-none")[0]
    whole = sum_batches(memoryview(path.read_bytes()), Selection(), 1000).total
    some = sum_batches(memoryview(path.read_bytes()), Selection(50, 60), 1000).total
    assert 0 < some.records < whole.records


def test_buckets_grow_with_the_time_that_they_cover() -> None:
    assert bucket_for([(0, 60_000)]) == 1000
    assert bucket_for([(0, DAY_MS)]) == 15 * 60_000
    assert bucket_for([(0, DAY_MS), (30 * DAY_MS, 400 * DAY_MS)]) == 7 * DAY_MS
    assert bucket_for([]) == 1000


def test_key_figures_add_up_but_for_the_largest() -> None:
    some = [
        KeyFigures(records=10, distinct_keys=2, payload_bytes=100, kept_bytes=20, largest_key_records=8),
        KeyFigures(records=5, distinct_keys=5, payload_bytes=100, kept_bytes=100, largest_key_records=1),
    ]
    whole = total(some)
    assert (whole.records, whole.distinct_keys, whole.largest_key_records) == (15, 7, 8)
    assert whole.removable_share == pytest.approx(0.4)
    assert KeyFigures().removable_share == 0

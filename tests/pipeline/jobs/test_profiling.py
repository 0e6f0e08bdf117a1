"""What of damaged segments counts in a profile."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tierfetch.pipeline.jobs import profiling
from tierfetch.pipeline.jobs.profiling import _HeaderTask, _sum_headers
from tierfetch.pipeline.planning.tier_splits import PlannedSplit
from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import iter_batches
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests import samples

from ..tables import options_of, plan


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    source = samples.tier_directory("s-trim")
    shutil.copytree(source, tmp_path / samples.TIER.name / source.name)
    return tmp_path


def counted(tier: Path, mode: str) -> int:
    options = options_of(tier, topics="s-trim", mode=mode)
    splits = tuple(split for split in plan(options) if isinstance(split, PlannedSplit))
    return _sum_headers(_HeaderTask(options, 1000, splits))[TopicPartition("s-trim", 0)].total.batches


def test_a_batch_that_is_damaged_is_an_error_or_is_left_out_and_told(
    tier: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = counted(tier, "failfast")
    log = sorted(tier.glob("*/*/*.log"))[1]
    content = bytearray(log.read_bytes())
    second = [position for position, _ in iter_batches(bytes(content))][1]
    content[second + 16] = 9  # its magic
    log.write_bytes(content)
    with pytest.raises(CorruptRecordError, match="magic 9"):
        counted(tier, "failfast")
    assert counted(tier, "permissive") == whole - 1
    assert "the profile of s-trim-0 leaves out a part of segment" in caplog.text
    assert {record.name for record in caplog.records} == {profiling.__name__}

"""Other layouts inside Spark: what the driver finds out and the keys that it is given reach the executors"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tierfetch.pipeline.spark.executors import check_executors
from tierfetch.tests.fakes.aiven_tier import AivenWriter, private_pem
from tierfetch.tests.fakes.random_tier import segments, write_log_directory

from .tiers import TIMEOUT_S, TOPIC, GrowingTier, stream


@pytest.fixture
def tier(tmp_path: Path) -> GrowingTier:
    growing = GrowingTier(tmp_path / "tier")
    growing.grow(4)
    return growing


def test_P1_an_encrypted_tier_of_aivens_plugin(spark: Any, tier: GrowingTier, tmp_path: Path) -> None:
    pytest.importorskip("Cryptodome", reason="pip install '.[encryption]'")
    root, pem = tmp_path / "aiven", tmp_path / "key.pem"
    writer = AivenWriter(root, 2000, True, "Key1")
    for segment in tier.segments:
        writer.write(segment.metadata, segment.log, segment.indexes)
    pem.write_text(private_pem("Key1"))
    options = {"location": str(root), "topics": TOPIC, "encryption.Key1": str(pem)}
    frame = spark.read.format("tierfetch").options(**options).load()
    pem.unlink()
    assert sorted(row.offset for row in frame.select("offset").collect()) == tier.offsets()


def test_executors_can_be_asked(spark: Any, tier: GrowingTier) -> None:
    check_executors(spark, {"location": str(tier.root), "topics": TOPIC})


def test_P1_a_stream_over_a_tier_and_a_log_directory(spark: Any, tier: GrowingTier, tmp_path: Path) -> None:
    tier.history.run([("plain", -1, 10)] * 4, tier.rng)
    local = list(segments(tier.history, [14, 18], tier.rng))[1:]
    write_log_directory(tmp_path / "broker", tier.history, local, tier.history.end_offset)
    frame = stream(spark, tier.root, logDirs=tmp_path / "broker", maxOffsetsPerTrigger=60)
    writer = frame.select("offset").writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S)
    rows = spark.read.schema("offset LONG").parquet(str(tmp_path / "out")).collect()
    assert sorted(row.offset for row in rows) == tier.offsets()

"""The Spark source's plans and reads over a bucket, in both layouts that a bucket may have"""

from __future__ import annotations

import random
from pathlib import Path

import boto3
import pytest

from tierfetch.tests.fakes.aiven_tier import AivenWriter, private_pem
from tierfetch.tests.fakes.random_tier import PARTITION, History, consumed, segments, write_kafka_tier
from tierfetch.tests.pipeline.tables import Row, rows

STEPS = [("plain", 0, 10), ("transactional", 1, 5), ("plain", -1, 10), ("abort", 1, 1), ("epoch", 0, 1)] * 3


def upload(root: Path, options: dict[str, str]) -> None:
    client = boto3.client(
        "s3",
        region_name=options["region"],
        endpoint_url=options["endpoint.url"],
        aws_access_key_id=options["access.key.id"],
        aws_secret_access_key=options["secret.access.key"],
    )
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        client.put_object(
            Bucket=options["bucket"], Key=f"{options['prefix']}/{path.relative_to(root)}", Body=path.read_bytes()
        )
    client.close()


@pytest.mark.parametrize("layout", ["kafka", "aiven"])
def test_P1_a_bucket_as_a_table(layout: str, s3_options: dict[str, str], tmp_path: Path) -> None:
    rng = random.Random(4)
    history = History().run(STEPS, rng)
    some = list(segments(history, [4, 8, 11], rng))
    if layout == "kafka":
        write_kafka_tier(tmp_path, some)
        upload(tmp_path / "kafka-tiered-storage", s3_options)
    else:
        writer = AivenWriter(tmp_path, 700, True, "key1")
        for segment in some:
            writer.write(segment.metadata, segment.log, segment.indexes)
        upload(tmp_path, s3_options)
    found = read(s3_options)
    assert [row["offset"] for row in found] == [record.offset for record in consumed(history, "read_committed")]


def read(options: dict[str, str]) -> list[Row]:
    storage = {f"storage.{key}": value for key, value in options.items() if key not in ("bucket", "prefix")}
    location = f"s3://{options['bucket']}/{options['prefix']}/"
    keys = {"encryption.key1": private_pem("key1")}
    return rows(location, ("offset", "value"), topics=PARTITION.topic, splitBytes=1024, **storage, **keys)

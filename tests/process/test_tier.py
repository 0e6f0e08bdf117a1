"""`tierfetch tier` beside a running cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.tier.report import Listing, Verification
from tierfetch.tests.process.clients import Librdkafka, create_topic

TOPIC = "listed"
VALUES = [b"%06d " % number + b"x" * 1000 for number in range(40)]
TIMEOUT_S = 60.0


def tier(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tierfetch.cli.main", "tier", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@pytest.fixture(scope="module")
def tiered(shared_cluster: LocalCluster) -> LocalCluster:
    """Each call of `produce` fills a segment."""
    configs = {"remote.storage.enable": "true", "internal.segment.bytes": "60000"}
    create_topic(shared_cluster.bootstrap_servers, TOPIC, configs=configs)
    for _ in range(6):
        Librdkafka().produce(shared_cluster.bootstrap_servers, TOPIC, VALUES, "none")
    for _ in poll(TIMEOUT_S, "segments to be tiered", 0.2):
        if listed(shared_cluster).finished_segments >= 5:
            return shared_cluster
    raise AssertionError("unreachable: poll raises")


def listed(cluster: LocalCluster, *arguments: str) -> Listing:
    result = tier("ls", "--bootstrap", cluster.bootstrap_servers, "--topic", TOPIC, "--json", *arguments)
    assert result.returncode == 0, result.stderr
    return Listing.model_validate_json(result.stdout)


def verified(cluster: LocalCluster, *arguments: str) -> tuple[int, Verification]:
    config = cluster.base / "broker-1.properties"
    result = tier("verify", "--config", config, "--topic", TOPIC, "--json", *arguments)
    assert result.returncode in {0, 1}, result.stderr
    return result.returncode, Verification.model_validate_json(result.stdout)


def test_the_metadata_and_the_objects_tell_the_same(tiered: LocalCluster) -> None:
    by_metadata = listed(tiered)
    by_objects = listed(tiered, "--from-objects", "--plugin", "local", "--option", f"dir={tiered.base / 'tier'}")
    (told,), (seen,) = by_metadata.partitions, by_objects.partitions
    whole = [segment for segment in told.segments if segment.state == "COPY_SEGMENT_FINISHED"]
    assert [(segment.id, segment.start_offset, segment.end_offset, segment.max_timestamp_ms) for segment in whole] == [
        (segment.id, segment.start_offset, segment.end_offset, segment.max_timestamp_ms)
        for segment in seen.segments[: len(whole)]
    ]
    assert whole[0].start_offset == 0


def test_a_tier_in_use_is_sound_until_an_object_is_taken_away(tiered: LocalCluster) -> None:
    exit_code, found = verified(tiered, "--deep")
    assert (exit_code, found.findings) == (0, 0)
    taken = sorted((tiered.base / "tier").glob(f"kafka-tiered-storage/{TOPIC}-0-*/*.timeindex"))[1]
    content = taken.read_bytes()
    taken.unlink()
    try:
        exit_code, found = verified(tiered)
    finally:
        taken.write_bytes(content)
    assert exit_code == 1
    assert [finding.kind for finding in found.partitions[0].findings] == ["missing"]

"""`tierfetch tier` on the tier of an Apache Kafka cluster, asked by nothing but its address."""

from __future__ import annotations

from click.testing import CliRunner, Result

from tierfetch.bench.lab.kafka import KafkaCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.tier import tier
from tierfetch.cli.tier.report import Listing, Verification
from tierfetch.tests.interop.brokers import BROKER, list_offsets
from tierfetch.tests.interop.clients import TIMEOUT_S, create_topic, produce_transactions
from tierfetch.tests.interop.histories import TOPIC_CONFIGS

TOPIC = "seen-by-tier"
LATEST_TIERED = -5


def run(command: str, cluster: KafkaCluster, *arguments: str) -> Result:
    where = ["--bootstrap", cluster.bootstrap_servers, "--plugin", "local", "--option", f"dir={cluster.tier_directory}"]
    return CliRunner().invoke(tier, [command, *where, "--topic", TOPIC, "--json", *arguments])


def test_ls_and_verify(cluster: KafkaCluster) -> None:
    create_topic(cluster.bootstrap_servers, TOPIC, {"remote.storage.enable": "true", **TOPIC_CONFIGS})
    for compression in ("none", "zstd", "none"):
        produce_transactions(cluster.bootstrap_servers, TOPIC, compression)
    local = sorted((cluster.data_directory(BROKER) / f"{TOPIC}-0").glob("*.log"))
    last_tiered = int(local[-1].stem) - 1
    for _ in poll(TIMEOUT_S, "all closed segments to be tiered", 0.5):
        if list_offsets(cluster, TOPIC, LATEST_TIERED) == last_tiered:
            break
    (told,) = Listing.model_validate_json(run("ls", cluster).stdout).partitions
    (seen,) = Listing.model_validate_json(run("ls", cluster, "--from-objects").stdout).partitions
    unknown = {"broker_id": -1, "event_timestamp_ms": -1}
    assert [segment.model_copy(update=unknown) for segment in told.segments] == seen.segments
    assert (told.segments[0].start_offset, told.segments[-1].end_offset) == (0, last_tiered)
    for source in ((), ("--from-objects",)):
        result = run("verify", cluster, "--deep", *source)
        assert result.exit_code == 0, result.output
        assert Verification.model_validate_json(result.stdout).segments == len(told.segments)

"""What clients do that ask for what is not offered here, KIP-848 groups: the table of
docs/divergence.md, "Clients that ask for more". A client of a newer release that does otherwise fails here first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import aiokafka
import confluent_kafka
import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import create_topic
from tierfetch.tests.process.test_cluster_command import tierfetch

TOPIC = "refusals"
TIMEOUT_S = 60.0

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")


@pytest.fixture
def old_cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """One of before KIP-848."""
    with LocalCluster(tmp_path / "cluster", (1, 2)) as running:
        tierfetch(running.bootstrap_servers, "features", "set", "group.version", "0", "--downgrade")
        yield running


def test_librdkafka_with_the_consumer_protocol_ends_with_an_error_that_says_why(old_cluster: LocalCluster) -> None:
    """At `group.version` 0."""
    create_topic(old_cluster.bootstrap_servers, TOPIC)
    consumer = confluent_kafka.Consumer(
        {
            **connecting.librdkafka(old_cluster.bootstrap_servers),
            "group.id": "refusals",
            "group.protocol": "consumer",
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([TOPIC])
        for _ in poll(TIMEOUT_S, "librdkafka to be answered its heartbeat"):
            if (message := consumer.poll(0.2)) is not None:
                break
        error = message.error()
        assert error.code() == confluent_kafka.KafkaError._FATAL
        assert "ConsumerGroupHeartbeat fatal error: Broker: API version not supported" in error.str()
        assert consumer.assignment() == []
    finally:
        consumer.close()


def test_kafka_python_has_no_such_groups(shared_cluster: LocalCluster) -> None:
    import kafka  # its import warns, which only the tests of this module let pass
    from kafka.errors import KafkaConfigurationError

    with pytest.raises(KafkaConfigurationError, match="group_protocol"):
        kafka.KafkaConsumer(**connecting.kafka_python(shared_cluster.bootstrap_servers), group_protocol="consumer")


async def test_aiokafka_has_no_such_groups(shared_cluster: LocalCluster) -> None:
    servers = shared_cluster.bootstrap_servers
    with pytest.raises(TypeError, match="group_protocol"):
        aiokafka.AIOKafkaConsumer(**connecting.kafka_python(servers), group_protocol="consumer")

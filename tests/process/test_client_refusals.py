"""What clients do that ask for what is not offered here, KIP-848 groups: the table of
docs/divergence.md, "Clients that ask for more". A client of a newer release that does otherwise fails here first.
"""

from __future__ import annotations

import logging

import aiokafka
import confluent_kafka
import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import create_topic

TOPIC = "refusals"
TIMEOUT_S = 60.0

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_librdkafka_with_the_consumer_protocol_gets_no_error_and_no_partition(shared_cluster: LocalCluster) -> None:
    create_topic(shared_cluster.bootstrap_servers, TOPIC)
    errors: list[confluent_kafka.KafkaError] = []
    seen, logger = _Lines(), logging.getLogger("refusals")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    logger.addHandler(seen)
    consumer = confluent_kafka.Consumer(
        {
            **connecting.librdkafka(shared_cluster.bootstrap_servers),
            "group.id": "refusals",
            "group.protocol": "consumer",
            "debug": "cgrp",
            "error_cb": errors.append,
        },
        logger=logger,
    )
    try:
        consumer.subscribe([TOPIC])
        for _ in poll(TIMEOUT_S, "librdkafka to find that it cannot send a heartbeat"):
            assert consumer.poll(0.2) is None
            if any("ConsumerGroupHeartbeatRequest not supported by broker" in line for line in seen.lines):
                break
        told = [error for error in errors if error.code() != confluent_kafka.KafkaError._TRANSPORT]
        assert (consumer.assignment(), told) == ([], [])  # a connection may be lost, as to a coordinator that moves
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

"""Configs of groups (resource type 32) are altered and described as by Apache Kafka, and by its tool."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tierfetch.bench.lab.kafka import KafkaCluster
from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.protocol.wire.group_configs import GROUP_CONFIGS
from tierfetch.tests.interop.clients import TIMEOUT_S
from tierfetch.tests.interop.java import kafka_tool

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.plaintext]

GROUP = 32
SET, DELETE, APPEND = 0, 1, 2
TOOL = "kafka.admin.ConfigCommand"
OF_STREAMS = "streams."
WITHOUT_DEFAULT = {"consumer.assignment.interval.ms", "share.assignment.interval.ms"}
"""Kafka's brokers have keys for them; ours gather by the size of a group."""
CHANGES: list[tuple[str, int, str | None]] = [
    ("consumer.session.timeout.ms", SET, "50000"),
    ("consumer.session.timeout.ms", SET, "44999"),
    ("consumer.session.timeout.ms", SET, "60001"),
    ("consumer.session.timeout.ms", SET, "soon"),
    ("consumer.session.timeout.ms", SET, ""),
    ("consumer.session.timeout.ms", APPEND, "1"),
    ("consumer.heartbeat.interval.ms", SET, "15001"),
    ("consumer.heartbeat.interval.ms", SET, "6000"),
    ("consumer.assignment.interval.ms", SET, "15000"),
    ("consumer.assignment.interval.ms", SET, "15001"),
    ("share.session.timeout.ms", SET, "1"),
    ("share.heartbeat.interval.ms", SET, "20000"),
    ("share.record.lock.duration.ms", SET, "999"),
    ("share.record.lock.duration.ms", SET, "14999"),
    ("share.record.lock.duration.ms", SET, "20000"),
    ("share.delivery.count.limit", SET, "1"),
    ("share.delivery.count.limit", SET, "11"),
    ("share.delivery.count.limit", SET, "4"),
    ("share.partition.max.record.locks", SET, "99"),
    ("share.partition.max.record.locks", SET, "10001"),
    ("share.assignment.interval.ms", SET, "15001"),
    ("share.auto.offset.reset", SET, "earliest"),
    ("share.auto.offset.reset", SET, "never"),
    ("share.auto.offset.reset", SET, "by_duration:PT1H"),
    ("share.auto.offset.reset", SET, "by_duration:-PT1H"),
    ("share.isolation.level", SET, "read_committed"),
    ("share.isolation.level", SET, "serializable"),
    ("share.renew.acknowledge.enable", SET, "false"),
    ("share.renew.acknowledge.enable", SET, "perhaps"),
    ("no.such.config", SET, "1"),
    ("consumer.heartbeat.interval.ms", DELETE, None),
    ("no.such.config", DELETE, None),
]


@pytest.fixture(scope="module")
def ours(kafka: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("tierfetch"), (1,)) as running:
        yield running


class Administrator:
    def __init__(self, port: int) -> None:
        self._client = KafkaClient(client_id="administrator", random=random.Random(1))
        self._address = Address("127.0.0.1", port)

    async def close(self) -> None:
        await self._client.close()

    async def alter(self, name: str, change: tuple[str, int, str | None]) -> str:
        key, operation, value = change
        config = IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=GROUP, resource_name=name, configs=(config,)
        )
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        (answer,) = (await self._client.send(self._address, request, timeout_s=TIMEOUT_S)).responses
        return answer.error_code.name

    async def described(self, name: str) -> dict[str, Any] | ErrorCode:
        """Value, source, type and synonyms by key."""
        resource = DescribeConfigsResource(resource_type=GROUP, resource_name=name, configuration_keys=None)
        request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
        (answer,) = (await self._client.send(self._address, request, timeout_s=TIMEOUT_S)).results
        return answer.error_code or {
            config.name: (
                config.value,
                config.config_source,
                config.config_type,
                config.read_only,
                config.is_sensitive,
                [(each.name, each.value, each.source) for each in config.synonyms],
            )
            for config in answer.configs
        }


async def answers(port: int) -> tuple[dict[str, str], Any, Any, Any]:
    """What each change is answered, and how the group, another one and none are described afterwards."""
    administrator = Administrator(port)
    try:
        altered = {str(change): await administrator.alter("g", change) for change in CHANGES}
        altered["no name"] = await administrator.alter("", CHANGES[0])
        for _ in poll(TIMEOUT_S, "the last change to be seen"):
            found = await administrator.described("g")
            assert isinstance(found, dict)
            if (
                found["share.renew.acknowledge.enable"][0] == "false"
                and found["consumer.heartbeat.interval.ms"][0] == "5000"
            ):
                break
        return altered, found, await administrator.described("other"), await administrator.described("")
    finally:
        await administrator.close()


def of_both(described: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in described.items() if not key.startswith(OF_STREAMS) and key not in WITHOUT_DEFAULT
    }


def test_changes_are_judged_and_described_as_by_apache_kafka(cluster: KafkaCluster, ours: LocalCluster) -> None:
    (their_codes, theirs, their_other, their_none), (our_codes, mine, other, none) = (
        asyncio.run(answers(each.port(1))) for each in (cluster, ours)
    )
    assert our_codes == their_codes
    assert {key for key in theirs if not key.startswith(OF_STREAMS)} == GROUP_CONFIGS
    assert of_both(mine) == of_both(theirs)
    assert of_both(other) == of_both(their_other)
    assert none == their_none


def test_kafka_configs_alters_and_describes_a_group(ours: LocalCluster) -> None:
    servers = ours.bootstrap_servers
    group = ("--entity-type", "groups", "--entity-name", "tool")
    key = "consumer.session.timeout.ms"
    kafka_tool(TOOL, servers, "--alter", *group, "--add-config", f"{key}=55000")
    for _ in poll(TIMEOUT_S, "the change to be seen"):
        if f"{key}=55000" in (described := kafka_tool(TOOL, servers, "--describe", *group)):
            break
    assert f"{{DYNAMIC_GROUP_CONFIG:{key}=55000" in described
    with pytest.raises(RuntimeError, match=r"group\.consumer\.max\.session\.timeout\.ms"):
        kafka_tool(TOOL, servers, "--alter", *group, "--add-config", f"{key}=90000")
    kafka_tool(TOOL, servers, "--alter", *group, "--delete-config", key)

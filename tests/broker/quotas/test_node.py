"""Quotas through real connections: a broker and its controller in one process, set as `kafka-configs.sh` sets them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tierfetch.broker.node import Broker
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchTopic
from tierfetch.protocol.messages.base import Request
from tierfetch.protocol.messages.cluster import ApiVersionsRequest
from tierfetch.protocol.net.client import KafkaClient
from tierfetch.tests.broker.api_scene import TOPIC, Scene, new_topic, produced
from tierfetch.tests.broker.test_every_api import combined_node, scene_of
from tierfetch.tests.broker.waiting import until

pytestmark = pytest.mark.slow
API_VERSIONS = ApiVersionsRequest(client_software_name="app", client_software_version="1")


def has(broker: Broker, key: str) -> bool:
    """Whether the broker knows a quota with this key."""
    return any(key in values for _, values in broker.view.image.quotas.items())


async def limit(scene: Scene, key: str, value: float | None, **parts: str | None) -> None:
    entity = [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in parts.items()]
    op = {"key": key, "value": value or 0.0, "remove": value is None}
    body = {"entries": [{"entity": entity, "ops": [op]}], "validate_only": False}
    answer = await scene.ask(ApiKey.ALTER_CLIENT_QUOTAS, body)
    assert [item.error_code for item in answer.entries] == [ErrorCode.none]


async def test_clients_are_throttled_by_the_quotas_that_were_set(tmp_path: Path) -> None:
    async with combined_node(tmp_path) as node, scene_of(node) as scene:
        broker, client = node.broker, KafkaClient(client_id="app", random=Random(1))

        async def ask(request: Request[Any]) -> Any:
            return await client.send(scene.broker, request, timeout_s=30)

        await limit(scene, "producer_byte_rate", 10, client_id="app")
        await limit(scene, "consumer_byte_rate", 1, user=None)
        await until(lambda: has(broker, "producer_byte_rate") and has(broker, "consumer_byte_rate"))
        first = await ask(produced(scene.topic_ids[TOPIC]))
        assert first.topics[0].partitions[0].error_code is ErrorCode.none
        assert first.throttle_time_ms > 0
        await limit(scene, "producer_byte_rate", None, client_id="app")
        await client.close()
        client = KafkaClient(client_id="app", random=Random(2))
        asked = FetchTopic((FetchPartition(0, fetch_offset=0),), topic_id=scene.topic_ids[TOPIC])
        fetched = await ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=(asked,)))
        assert len(fetched.topics[0].partitions[0].records) > 50, "the first batch is sent whatever its size"
        throttled = await ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=(asked,)))
        assert throttled.throttle_time_ms > 0
        assert throttled.topics == ()
        await client.close()


async def test_KIP_124_every_api_counts_ApiVersions_too(tmp_path: Path) -> None:
    async with combined_node(tmp_path) as node, scene_of(node) as scene:
        await limit(scene, "request_percentage", 1e-6, client_id="app")
        await until(lambda: has(node.broker, "request_percentage"))
        client = KafkaClient(client_id="app", random=Random(1))
        offered = await client.send(scene.broker, API_VERSIONS, timeout_s=30)
        assert offered.throttle_time_ms == 1_000, "one window at most"
        await client.close()


async def test_KIP_599_changes_to_topics_are_limited_for_the_client_that_asks_a_broker(tmp_path: Path) -> None:
    async with combined_node(tmp_path) as node, scene_of(node) as scene:
        await limit(scene, "controller_mutation_rate", 1, client_id="every-api")
        await until(lambda: has(node.broker, "controller_mutation_rate"))
        body = {"timeout_ms": 10_000, "validate_only": False}
        created = await scene.ask(ApiKey.CREATE_TOPICS, {"topics": [new_topic("many", 20)], **body})
        assert [topic.error_code for topic in created.topics] == [ErrorCode.none]
        refused = await scene.ask(ApiKey.CREATE_TOPICS, {"topics": [new_topic("more")], **body})
        assert [topic.error_code for topic in refused.topics] == [ErrorCode.throttling_quota_exceeded]
        assert refused.throttle_time_ms > 0
        other = KafkaClient(client_id="other", random=Random(1))
        scene.client, limited = other, scene.client
        free = await scene.ask(ApiKey.CREATE_TOPICS, {"topics": [new_topic("more")], **body})
        assert [topic.error_code for topic in free.topics] == [ErrorCode.none]
        await other.close()
        scene.client = limited

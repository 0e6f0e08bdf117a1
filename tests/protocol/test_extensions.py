"""Our tagged fields: written, read again, and skipped by whoever does not know them."""

from __future__ import annotations

from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema
from kio.serial import entity_writer

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import RequestHeader, read_request_body, read_request_header, write_request
from tierfetch.protocol.messages.brokers import ThinReplica
from tierfetch.tests.messages import plain, request_of
from tierfetch.tests.protocol.entities import build_entity, read_entity

HEARTBEAT = {
    "broker_id": 1,
    "broker_epoch": 2,
    "current_metadata_offset": 3,
    "want_fence": False,
    "want_shut_down": False,
    "offline_log_dirs": [UUID(int=500)],
}
THIN = ThinReplica(topic_id=UUID(int=9), partition_index=4, local_start_offset=1000, local_bytes=55, age_ms=66)
CREATE = {"topics": [{"name": "t", "count": 3, "assignments": None}], "timeout_ms": 5, "validate_only": False}


def frame(api: ApiKey, version: int, values: dict[str, Any]) -> memoryview:
    parts = write_request(RequestHeader(api, version, 7, "client"), request_of(api, values, version))
    return memoryview(b"".join(bytes(part) for part in parts))[4:]


def read(data: memoryview) -> Any:
    header, reader = read_request_header(data)
    return read_request_body(header, reader)


def test_a_heartbeat_names_thin_replicas() -> None:
    request = read(frame(ApiKey.BROKER_HEARTBEAT, 2, {**HEARTBEAT, "thin_replicas": [plain(THIN)]}))
    assert request.thin_replicas == (THIN,)
    assert request.offline_log_dirs == (UUID(int=500),)
    assert request.cordoned_log_dirs is None


@pytest.mark.parametrize("remove", [False, True])
def test_removing_partitions_is_said_of_each_topic(remove: bool) -> None:
    values = {**CREATE, "topics": [{**CREATE["topics"][0], "remove_last_partitions": remove}]}
    (topic,) = read(frame(ApiKey.CREATE_PARTITIONS, 3, values)).topics
    assert (topic.name, topic.count, topic.remove_last_partitions) == ("t", 3, remove)


@pytest.mark.parametrize(
    ("api", "version", "values", "name"),
    [
        (
            ApiKey.BROKER_HEARTBEAT,
            2,
            {**HEARTBEAT, "thin_replicas": [plain(THIN)]},
            "broker_id",
        ),
        (ApiKey.CREATE_PARTITIONS, 3, CREATE, "validate_only"),
    ],
)
def test_another_node_skips_them(api: ApiKey, version: int, values: dict[str, Any], name: str) -> None:
    _, reader = read_request_header(frame(api, version, values))
    plain = read_entity(reader, load_request_schema(int(api), version))
    assert getattr(plain, name) == values[name]
    assert reader.remaining == 0


def test_without_them_the_bytes_are_kafkas() -> None:
    for api, version, values in ((ApiKey.BROKER_HEARTBEAT, 2, HEARTBEAT), (ApiKey.CREATE_PARTITIONS, 3, CREATE)):
        schema = load_request_schema(int(api), version)
        out = BytesIO()
        entity_writer(schema)(out, build_entity(schema, values))
        assert bytes(frame(api, version, values)).endswith(out.getvalue())

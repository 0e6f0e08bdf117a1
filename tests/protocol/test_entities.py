"""Entities from bytes (against kio's own reader) and from plain values."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.wire.primitives import MalformedMessageError, Reader
from tierfetch.tests.protocol.entities import build_entity, milliseconds, read_entity
from tierfetch.tests.protocol.entity_strategies import entities

ENTITY_APIS = [api for api in ApiKey if api not in (ApiKey.PRODUCE, ApiKey.FETCH)]
TYPES = [
    type_of(version)
    for api in ENTITY_APIS
    for version in range(api.min_version, api.max_version + 1)
    for type_of in (api.request_type, api.response_type)
]


def name_of(entity_type: Any) -> str:
    return f"{entity_type.__name__}-v{entity_type.__version__}"


def written(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def read(entity_type: Any, data: bytes) -> tuple[Any, int]:
    reader = Reader(memoryview(data), 0, flexible=entity_type.__flexible__)
    return read_entity(reader, entity_type), reader.position


@pytest.mark.parametrize("entity_type", TYPES, ids=name_of)
def test_reads_what_kio_reads(entity_type: Any) -> None:
    @settings(max_examples=8, database=None)
    @given(entity=entities(entity_type))
    def check(entity: Any) -> None:
        data = written(entity)
        assert read(entity_type, data) == entity_reader(entity_type)(data, 0)

    check()


@given(data=st.data())
def test_truncated_entities_are_malformed(data: st.DataObject) -> None:
    entity_type = data.draw(st.sampled_from(TYPES))
    whole = written(data.draw(entities(entity_type)))
    if whole:
        with pytest.raises(MalformedMessageError):
            read(entity_type, whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_unknown_tagged_fields_are_skipped() -> None:
    """KIP-482: a newer client may send them in any structure of any flexible version."""
    schema: Any = ApiKey.METADATA.request_type(12)
    request = schema(topics=(), allow_auto_topic_creation=True, include_topic_authorized_operations=False)
    data = written(request)
    assert data.endswith(b"\0"), "no tagged fields"
    tagged = data[:-1] + b"\x02" + b"\x63\x03abc" + b"\x64\x00"
    assert read(type(request), tagged) == (request, len(tagged))


def test_known_tagged_fields_are_read_among_unknown_ones() -> None:
    response = build_entity(
        ApiKey.API_VERSIONS.response_type(4),
        {
            "api_keys": [],
            "finalized_features_epoch": 7,
            "finalized_features": [{"name": "f", "min_version_level": 1, "max_version_level": 2}],
        },
    )
    data = written(response)
    count_at = 2 + 1 + 4
    assert data[count_at] == 2, "two tagged fields"
    tagged = data[:count_at] + b"\x03" + data[count_at + 1 :] + b"\x63\x03abc"
    assert read(type(response), tagged) == (response, len(tagged))


def test_an_unknown_error_code_is_unknown_server_error() -> None:
    response_type = ApiKey.DELETE_TOPICS.response_type(1)
    data = b"\0\0\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\x7f\xff"
    assert read(response_type, data)[0].responses[0].error_code is ErrorCode.unknown_server_error


def test_the_zero_uuid_is_none() -> None:
    topic = build_entity(
        ApiKey.METADATA.request_type(12),
        {
            "topics": [{"name": None, "topic_id": UUID(int=0)}],
            "allow_auto_topic_creation": True,
            "include_topic_authorized_operations": True,
        },
    )
    assert read(type(topic), written(topic))[0].topics[0].topic_id is None


@pytest.mark.parametrize("version", range(ApiKey.METADATA.min_version, ApiKey.METADATA.max_version + 1))
def test_one_set_of_plain_values_serves_all_versions(version: int) -> None:
    entity = build_entity(
        ApiKey.METADATA.response_type(version),
        {
            "brokers": [{"node_id": 1, "host": "localhost", "port": 9092, "rack": "r"}],
            "cluster_id": "cluster",
            "controller_id": 1,
            "cluster_authorized_operations": -(2**31),
            "topics": [
                {
                    "error_code": ErrorCode.none,
                    "name": "t",
                    "topic_id": UUID(int=5),
                    "partitions": [
                        {
                            "partition_index": 0,
                            "leader_id": 1,
                            "leader_epoch": 4,
                            "replica_nodes": [1, 2],
                            "isr_nodes": [1],
                            "offline_replicas": [],
                        }
                    ],
                }
            ],
        },
    )
    again, _ = read(type(entity), written(entity))
    assert again == entity
    assert again.topics[0].partitions[0].replica_nodes == (1, 2)
    if version >= 7:
        assert again.topics[0].partitions[0].leader_epoch == 4
    if version >= 10:
        assert again.topics[0].topic_id == UUID(int=5)


def test_times_are_given_in_milliseconds() -> None:
    values = {"topics": [], "timeout_ms": 1500, "validate_only": True}
    entity = build_entity(ApiKey.CREATE_TOPICS.request_type(5), values)
    assert entity.timeout == timedelta(milliseconds=1500)
    assert milliseconds(entity.timeout) == 1500
    partition = {"index": 0, "base_offset": 1, "log_append_time_ms": 1234, "record_errors": []}
    topic = {"name": "t", "partition_responses": [partition, partition | {"log_append_time_ms": -1}]}
    produced = build_entity(ApiKey.PRODUCE.response_type(9), {"responses": [topic]})
    first, second = produced.responses[0].partition_responses
    assert first.log_append_time == datetime(1970, 1, 1, 0, 0, 1, 234_000, tzinfo=UTC)
    assert second.log_append_time is None


def test_entities_may_stand_among_plain_values() -> None:
    response_type = ApiKey.DELETE_TOPICS.response_type(4)
    whole = build_entity(response_type, {"responses": [{"name": "t", "error_code": 3}]})
    assert build_entity(response_type, {"responses": whole.responses}) == whole
    assert build_entity(response_type, whole) is whole
    assert whole.responses[0].error_code is ErrorCode.unknown_topic_or_partition


def test_a_missing_field_is_named() -> None:
    with pytest.raises(TypeError, match=r"MetadataResponseBroker v1 needs 'port'"):
        build_entity(ApiKey.METADATA.response_type(1), {"brokers": [{"node_id": 1, "host": "h"}], "topics": []})


def test_a_misspelt_field_is_named() -> None:
    with pytest.raises(TypeError, match="no version of MetadataResponse has a field brokerz"):
        build_entity(ApiKey.METADATA.response_type(0), {"brokers": [], "topics": [], "brokerz": []})


def test_a_point_in_time_beyond_the_calendar_is_malformed() -> None:
    response_type = ApiKey.PRODUCE.response_type(3)
    data = b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + bytes(4 + 2 + 8) + b"\x7f" + b"\xff" * 7 + bytes(4)
    with pytest.raises(MalformedMessageError, match="no point in time"):
        read(response_type, data)

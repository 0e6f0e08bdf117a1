"""Message classes: the same bytes as kio writes, in every version of every API, and back."""

from __future__ import annotations

import io
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest
from kio.serial import entity_reader, entity_writer

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages import generate
from tierfetch.protocol.messages.registry import MESSAGES as CLASSES
from tierfetch.protocol.messages.registry import request_class, response_class
from tierfetch.protocol.wire.message_codec import message_reader, message_writer
from tierfetch.protocol.wire.primitives import MalformedMessageError, Reader, Writer
from tierfetch.protocol.wire.schema import FieldSchema, schema_of

MESSAGES = [
    (api, version, which)
    for api in CLASSES
    for version in range(api.min_version, api.max_version + 1)
    for which in ("request", "response")
]
PRIMITIVES: dict[str, Any] = {
    "bool": lambda random: random.random() < 0.5,
    "string": lambda random: random.choice(["", "t", "é" * 130]),
    "bytes": lambda random: random.randbytes(random.choice([0, 3, 200])),
    "records": lambda random: random.randbytes(random.choice([0, 3, 200])),
    "float64": lambda random: random.random(),
    "error_code": lambda random: random.choice([ErrorCode.none, ErrorCode.not_controller, ErrorCode.corrupt_message]),
    "uuid": lambda random: random.choice([None, UUID(int=random.getrandbits(120) + 1)]),
    "timedelta_i32": lambda random: timedelta(milliseconds=random.randrange(2**31)),
    "timedelta_i64": lambda random: timedelta(milliseconds=random.randrange(2**40)),
    "datetime_i64": lambda random: datetime.fromtimestamp(random.randrange(2**31), UTC),
}
SIZES = {"int8": 7, "int16": 15, "int32": 31, "int64": 62, "uint16": 16, "uint32": 32}


def entity_type(api: ApiKey, version: int, which: str) -> Any:
    return api.request_type(version) if which == "request" else api.response_type(version)


def message_class(api: ApiKey, which: str) -> Any:
    return request_class(api) if which == "request" else response_class(api)


def random_entity(random: Random, kind: Any) -> Any:
    return kind(**{schema.name: random_field(random, schema) for schema in schema_of(kind)})


def random_field(random: Random, schema: FieldSchema) -> Any:
    if schema.is_nullable and schema.tag is None and random.random() < 0.3 and schema.kafka_type != "error_code":
        return None
    if schema.is_array:
        return tuple(random_one(random, schema) for _ in range(random.choice([0, 1, 3])))
    return random_one(random, schema)


def random_one(random: Random, schema: FieldSchema) -> Any:
    if schema.entity is not None:
        return random_entity(random, schema.entity)
    if schema.kafka_type in SIZES:
        return random.randrange(2 ** SIZES[schema.kafka_type])
    return PRIMITIVES[schema.kafka_type](random)


def is_flexible(api: ApiKey, version: int) -> bool:
    return api.is_flexible(version)


@pytest.mark.parametrize(("api", "version", "which"), MESSAGES)
def test_A4_a_message_has_the_bytes_that_kio_writes_in_every_version(api: ApiKey, version: int, which: str) -> None:
    random = Random(f"{api} {version} {which}")
    kind = entity_type(api, version, which)
    cls = message_class(api, which)
    for _ in range(20):
        entity = random_entity(random, kind)
        buffer = io.BytesIO()
        entity_writer(kind)(buffer, entity)
        expected = buffer.getvalue()
        reader = Reader(memoryview(expected), 0, flexible=is_flexible(api, version))
        message = message_reader(cls, kind)(reader)
        assert reader.position == len(expected)
        assert isinstance(message, cls)
        writer = Writer(flexible=is_flexible(api, version))
        message_writer(cls, kind)(writer, message)
        assert entity_reader(kind)(memoryview(written(writer)), 0)[0] == entity


def written(writer: Writer) -> bytes:
    return b"".join(bytes(part) for part in writer.finish())  # type: ignore[arg-type]


@pytest.mark.parametrize(("api", "which"), sorted({(api, which) for api, _, which in MESSAGES}))
def test_a_message_has_a_field_for_each_field_of_each_version(api: ApiKey, which: str) -> None:
    names = {item.name for item in fields(message_class(api, which))}
    in_schemas = {
        schema.plain_name
        for version in range(api.min_version, api.max_version + 1)
        for schema in schema_of(entity_type(api, version, which))
    }
    assert names == in_schemas


def test_a_null_where_none_is_allowed_is_refused_on_both_sides() -> None:
    cls, kind = message_class(ApiKey.DELETE_GROUPS, "request"), ApiKey.DELETE_GROUPS.request_type(0)
    with pytest.raises(MalformedMessageError, match="groups_names is null"):
        message_reader(cls, kind)(Reader(memoryview(b"\xff\xff\xff\xff"), 0, flexible=False))
    with pytest.raises(TypeError, match=r"DeleteGroupsRequest\.groups_names is None"):
        message_writer(cls, kind)(Writer(flexible=False), cls(groups_names=None))


def test_a_nested_structure_of_another_message_is_refused() -> None:
    cls, kind = message_class(ApiKey.LIST_OFFSETS, "request"), ApiKey.LIST_OFFSETS.request_type(1)
    wrong = message_class(ApiKey.HEARTBEAT, "request")(group_id="g", generation_id=1, member_id="m")
    with pytest.raises(TypeError, match=r"ListOffsetsRequest\.topics holds a HeartbeatRequest, not a ListOffsetsTopic"):
        message_writer(cls, kind)(Writer(flexible=False), cls(replica_id=-1, topics=(wrong,)))


def test_the_generated_files_are_what_the_generator_writes() -> None:
    for name, text in generate.texts().items():
        assert (generate.HERE / name).read_text() == text, f"{name}: python -m tierfetch.protocol.messages.generate"

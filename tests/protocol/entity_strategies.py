"""Hypothesis strategies for kio's entities, from the same schemas that the codec uses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, cast
from uuid import UUID

from hypothesis import strategies as st

from tierfetch.protocol.errors import ErrorCode
from tierfetch.tests.protocol.entities import FieldSchema, schema_of


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


TEXT = st.text(max_size=10)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": _integers(8),
    "int16": _integers(16),
    "int32": _integers(32),
    "int64": _integers(64),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "float64": st.floats(allow_nan=False),
    "string": TEXT,
    "bytes": st.binary(max_size=10),
    "records": st.binary(max_size=10),
    "uuid": st.none() | st.uuids().filter(lambda value: value != UUID(int=0)),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": _integers(32).map(lambda value: timedelta(milliseconds=value)),
    "timedelta_i64": st.integers(-(10**12), 10**12).map(lambda value: timedelta(milliseconds=value)),
    "datetime_i64": st.integers(0, 2**33).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
}


def entity_strategy(entity_type: type[Any], primitives: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Return a strategy whose fields are drawn from `primitives`, which is by kio's names of types."""

    def field(schema: FieldSchema) -> st.SearchStrategy[Any]:
        one = primitives[schema.kafka_type] if schema.entity is None else entity_strategy(schema.entity, primitives)
        value = st.lists(one, max_size=2).map(tuple) if schema.is_array else one
        return st.none() | value if schema.is_nullable and schema.tag is None else value

    return st.builds(entity_type, **{schema.name: field(schema) for schema in schema_of(cast(Any, entity_type))})


@cache
def entities(entity_type: type[Any]) -> st.SearchStrategy[Any]:
    return entity_strategy(entity_type, PRIMITIVES)

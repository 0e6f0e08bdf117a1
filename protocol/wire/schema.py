"""What kio's schemas say of one version of a message, field by field."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import timedelta
from functools import cache
from typing import Final, Union, cast, get_args, get_origin

from kio.static.protocol import Entity

from ...light_dataclass import dataclass
from ..errors import ErrorCode

_IMPLICIT_DEFAULTS: Final[Mapping[str, object]] = {"error_code": ErrorCode.none, "throttle_time": timedelta(0)}


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """One field of an entity. `entity` is the nested type, or None for a primitive of type `kafka_type`."""

    name: str
    plain_name: str
    kafka_type: str
    entity: type[Entity] | None
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: object


@cache
def schema_of(entity_type: type[Entity]) -> tuple[FieldSchema, ...]:
    """Return the fields in wire order, tagged ones among them."""
    return tuple(_field_schema(item) for item in fields(entity_type))


def _field_schema(item: Field[object]) -> FieldSchema:
    inner, is_nullable = _without_none(item.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner, _ = _without_none(get_args(inner)[0])
    kafka_type = item.metadata.get("kafka_type", "")
    is_time = kafka_type.startswith(("timedelta", "datetime"))
    return FieldSchema(
        name=item.name,
        plain_name=f"{item.name}_ms" if is_time else item.name,
        kafka_type=kafka_type,
        entity=cast("type[Entity]", inner) if is_dataclass(inner) else None,
        is_array=is_array,
        is_nullable=is_nullable,
        tag=item.metadata.get("tag"),
        default=item.default if item.default is not MISSING else _IMPLICIT_DEFAULTS.get(item.name, MISSING),
    )


def _without_none(annotation: object) -> tuple[object, bool]:
    if get_origin(annotation) not in (types.UnionType, Union):
        return annotation, False
    (inner,) = (argument for argument in get_args(annotation) if argument is not types.NoneType)
    return inner, True

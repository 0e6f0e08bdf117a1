"""docs/config-keys.md: every key of brokers, controllers and topics, with its type, default and bounds."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ...broker.config import DYNAMIC_KEYS, KEYS, BrokerConfig
from ...log.core import INT32_MAX, INT64_MAX, TOPIC_CONFIG_TYPES, LogConfig, as_text, config_types
from ...quorum import CONTROLLER_KEYS, ControllerConfig
from .tables import table

HEAD = """# Keys

Every key with its type, default and bounds, as the code checks them. Written by `python -m tierfetch.cli.reference`.
[Configuration](configuration.md) says what the keys mean, and where a default is not Kafka's; those of TLS and SASL are
there too. The options of plugins are in [plugins](plugins.md).
"""
BROKERS = """
## Brokers

`tierfetch broker --config FILE`. A dynamic key changes without a restart: `tierfetch configs --help`.

"""
CONTROLLERS = """
## Controllers

`tierfetch controller --config FILE`. None of them is dynamic.

"""
TOPICS = """
## Topics

`tierfetch topics create --config KEY=VALUE`, `tierfetch topics alter`. All of them are dynamic.

"""
NAMES = {INT32_MAX: "2^31-1", INT64_MAX: "2^63-1"}


def configs_page() -> str:
    """Return the text of `docs/config-keys.md`."""
    brokers = [(*row, "yes" if row[0].strip("`") in DYNAMIC_KEYS else "") for row in _rows(BrokerConfig, KEYS)]
    defaults = LogConfig().all_topic_configs()
    topics = [(f"`{key}`", kind.name.lower(), _value(defaults.get(key))) for key, kind in TOPIC_CONFIG_TYPES.items()]
    return (
        f"{HEAD}{BROKERS}{table(('key', 'type', 'default', 'values', 'dynamic'), brokers)}"
        f"{CONTROLLERS}{table(('key', 'type', 'default', 'values'), _rows(ControllerConfig, CONTROLLER_KEYS))}"
        f"{TOPICS}{table(('key', 'type', 'default'), sorted(topics))}"
    )


def _rows(model: type[BaseModel], keys: Iterable[str]) -> list[tuple[str, str, str, str]]:
    types = config_types(model)
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    return [(f"`{key}`", types[key].name.lower(), _default(fields[key]), _bounds(fields[key])) for key in sorted(keys)]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    return _value(None if default is None else as_text(default))


def _value(text: str | None) -> str:
    if not text:
        return "none"
    if text == str(sys.float_info.max):
        return "no limit"
    return f"`{text}`"


def _bounds(field: FieldInfo) -> str:
    """Return the values of an enumeration, or the bounds of a number; empty for any text."""
    found = [*_metadata(field.annotation), *field.metadata]
    choices = _choices(field.annotation)
    if choices:
        return ", ".join(f"`{as_text(choice)}`" for choice in choices)
    limits = [item for entry in found for item in (entry.metadata if isinstance(entry, FieldInfo) else [entry])]
    said: Mapping[type, str] = {Ge: "from", Gt: "above", Le: "to"}
    values = {
        kind: next((getattr(item, kind.__name__.lower()) for item in limits if isinstance(item, kind)), None)
        for kind in said
    }
    return " ".join(f"{said[kind]} {NAMES.get(value, value)}" for kind, value in values.items() if value is not None)


def _metadata(annotation: object) -> list[object]:
    """Return what `Annotated` says within an optional type."""
    if get_origin(annotation) is Annotated:
        return list(get_args(annotation)[1:])
    if get_origin(annotation) in (UnionType, Union):
        return [item for inner in get_args(annotation) if inner is not NoneType for item in _metadata(inner)]
    return []


def _choices(annotation: object) -> list[object]:
    """Return the values of a `Literal`, or of a list of one."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [choice for inner in get_args(annotation) for choice in _choices(inner)]

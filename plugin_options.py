"""The options of a plugin: a pydantic model, parsed from text as in a properties file, and shown as a table.

Keys arrive without their prefix (`rsm.config.`, say). A field that is a mapping, a list or a model is written as JSON.
Problems are reported key by key, for the operator; values of secret fields, and of unknown keys (which may be misspelt
secret ones), are never shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Final, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined

from .errors import OperatorError
from .light_dataclass import dataclass

Options = TypeVar("Options", bound=BaseModel)

_JSON_WANTED: Final = frozenset({"dict_type", "list_type", "tuple_type", "set_type", "frozen_set_type", "model_type"})
_UNITS: Final = {
    "bytes_per_second": "bytes/s",
    "bytes": "bytes",
    "ms": "ms",
    "minutes": "min",
    "hours": "h",
    "seconds": "s",
}
"""The unit that the end of a field's name says."""


class PluginError(OperatorError):
    """A plugin cannot be had or configured. The message is for the operator, and holds no secrets."""


def dotted(name: str) -> str:
    """Return the key of a field: `part_bytes` is `part.bytes`."""
    return name.replace("_", ".")


class PluginConfig(BaseModel):
    """The base of a plugin's options, and the `Config` of one without any. An unknown key is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=dotted, populate_by_name=True)


@dataclass(frozen=True, slots=True)
class Option:
    """One option as an operator writes it. `default` is None where the option is required."""

    name: str
    type: str
    default: str | None
    unit: str
    description: str


def options_of(model: type[BaseModel]) -> list[Option]:
    """Return a plugin's options in the order of their declaration."""
    return [
        Option(key, _type_text(field.annotation), _default_text(field), _unit(key), field.description or "")
        for key, field in _fields(model).items()
    ]


def parse_options(model: type[Options], name: str, config: Mapping[str, str], key_prefix: str) -> Options:
    """Return the model built from text. Raise PluginError with one line for each problem of plugin `name`."""
    try:
        try:
            return model.model_validate(config)
        except ValidationError as error:
            return model.model_validate({**config, **dict(_as_json(config, error))})
    except ValidationError as error:
        problems = [_problem(model, config, detail, key_prefix) for detail in error.errors()]
    # Outside of `except`: a ValidationError in the exception's context would print the values given.
    text = "".join(f"\n  {problem}" for problem in problems)
    for secret in _secret_values(model, config):
        text = text.replace(secret, "**********")
    raise PluginError(f"plugin {name!r} cannot be configured:{text}")


def _as_json(config: Mapping[str, str], error: ValidationError) -> Iterator[tuple[str, object]]:
    """The keys whose text was refused because something structured is wanted, and their value where it is JSON."""
    for detail in error.errors():
        if len(detail["loc"]) == 1 and detail["type"] in _JSON_WANTED:
            key = str(detail["loc"][0])
            try:
                yield key, json.loads(config[key])
            except ValueError:
                continue


def _problem(model: type[BaseModel], config: Mapping[str, str], detail: ErrorDetails, key_prefix: str) -> str:
    message = detail["msg"].removeprefix("Value error, ")
    if not detail["loc"]:
        return message
    key = str(detail["loc"][0])
    shown = key_prefix + ".".join(map(str, detail["loc"]))
    if detail["type"] == "missing":
        return f"{shown}: required, and not given"
    if detail["type"] == "extra_forbidden":
        near = get_close_matches(key, _fields(model), n=1)
        hint = (
            f"did you mean {key_prefix}{near[0]}?" if near else f"known: {', '.join(sorted(_fields(model))) or 'none'}"
        )
        return f"{shown}: unknown key; {hint}"
    if detail["type"] in _JSON_WANTED:
        message += ", written as JSON"
    field = _fields(model).get(key)
    if field is None or _is_secret(field.annotation) or key not in config:
        return f"{shown}: {message}"
    return f"{shown}: {message}; it is {config[key]!r}"


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields by the key that an operator writes."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _secret_values(model: type[BaseModel], config: Mapping[str, str]) -> list[str]:
    """Longest first, so that none is hidden in part."""
    secrets = [config[key] for key, field in _fields(model).items() if key in config and _is_secret(field.annotation)]
    return sorted(filter(None, secrets), key=len, reverse=True)


def _is_secret(annotation: object) -> bool:
    return annotation in (SecretStr, SecretBytes) or any(map(_is_secret, get_args(annotation)))


def _type_text(annotation: object) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_text(arguments[0])
    if origin in (UnionType, Union):
        return " or ".join(_type_text(each) for each in arguments if each is not NoneType)
    if origin is Literal:
        return " or ".join(map(str, arguments))
    if origin is not None:
        return "JSON"
    names: dict[object, str] = {
        SecretStr: "secret",
        SecretBytes: "secret",
        str: "text",
        int: "integer",
        float: "number",
    }
    names[bool] = "true or false"
    name = annotation.__name__.lower() if isinstance(annotation, type) else str(annotation)
    return names.get(annotation, name)


def _default_text(field: FieldInfo) -> str | None:
    if field.is_required():
        return None
    default = field.get_default(call_default_factory=True)
    if default is None or default is PydanticUndefined or default in ("", {}, ()):
        return ""
    if isinstance(default, BaseModel | dict | list | tuple):
        return json.dumps(default.model_dump(mode="json") if isinstance(default, BaseModel) else default, default=str)
    return str(default).lower() if isinstance(default, bool) else str(default)


def _unit(key: str) -> str:
    name = key.replace(".", "_")
    return next((unit for end, unit in _UNITS.items() if name == end or name.endswith(f"_{end}")), "")

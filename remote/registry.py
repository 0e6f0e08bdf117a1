"""Finds the two plugins by the name of their entry point, and builds them from configuration.

| port                     | entry point group               | called as                    |
|--------------------------|---------------------------------|------------------------------|
| RemoteStorageManager     | `tierfetch.remote_storage`      | `Plugin(config)`             |
| RemoteLogMetadataManager | `tierfetch.remote_log_metadata` | `Plugin(config, context)`    |

A plugin has a class attribute `Config`, a pydantic model; `config` is an instance of it. Its keys arrive as text, as in
a properties file, with the prefix (`rsm.config.`, `rlmm.config.`) taken off; a field that is a mapping, a list or a
model is written as JSON. What is wrong is reported key by key, for the operator; values of secret fields, and of
unknown keys (which may be misspelt secret ones), are never shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import ClassVar, Protocol, cast, get_args

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ..protocol.errors import OperatorError
from .metadata import RemoteLogMetadataManager
from .metadata_topic import RemoteLogMetadataContext
from .storage import RemoteStorageManager

STORAGE_GROUP = "tierfetch.remote_storage"
METADATA_GROUP = "tierfetch.remote_log_metadata"

_JSON_WANTED = frozenset({"dict_type", "list_type", "tuple_type", "set_type", "frozen_set_type", "model_type"})


class Plugin(Protocol):
    """The class that an entry point names, as far as it is the same for both ports."""

    Config: ClassVar[type[BaseModel]]


class PluginError(OperatorError):
    """A plugin cannot be had or configured. The message is for the operator, and holds no secrets."""


def load_remote_storage(
    name: str, config: Mapping[str, str], *, key_prefix: str = "rsm.config."
) -> RemoteStorageManager:
    """The storage plugin `name`, built. `key_prefix` is what error messages put before a key."""
    plugin = _load(STORAGE_GROUP, name)
    build = cast(Callable[[BaseModel], RemoteStorageManager], plugin)
    return build(_parse(plugin.Config, name, config, key_prefix))


def load_remote_log_metadata(
    name: str, config: Mapping[str, str], context: RemoteLogMetadataContext, *, key_prefix: str = "rlmm.config."
) -> RemoteLogMetadataManager:
    """The metadata plugin `name`, built but not started."""
    plugin = _load(METADATA_GROUP, name)
    build = cast(Callable[[BaseModel, RemoteLogMetadataContext], RemoteLogMetadataManager], plugin)
    return build(_parse(plugin.Config, name, config, key_prefix), context)


def installed_plugins(group: str) -> list[str]:
    """Names, sorted."""
    return sorted({entry.name for entry in entry_points(group=group)})


def _load(group: str, name: str) -> type[Plugin]:
    entry = _find(group, name)
    try:
        plugin = entry.load()
    except ImportError as error:
        missing = f"; install it: pip install {error.name}" if isinstance(error, ModuleNotFoundError) else ""
        raise PluginError(f"plugin {name!r} ({entry.value}) cannot be imported: {error}{missing}") from error
    except AttributeError as error:
        raise PluginError(f"plugin {name!r} ({entry.value}) does not exist: {error}; reinstall its package") from error
    if not (isinstance(plugin, type) and issubclass(getattr(plugin, "Config", type(None)), BaseModel)):
        raise PluginError(f"plugin {name!r} ({entry.value}) has no class attribute Config that is a pydantic model")
    return cast(type[Plugin], plugin)


def _find(group: str, name: str) -> EntryPoint:
    found = {entry.value: entry for entry in entry_points(group=group, name=name)}
    if not found:
        known = ", ".join(installed_plugins(group)) or "none"
        raise PluginError(
            f"no plugin {name!r} is installed in the group {group!r}; installed: {known}. Install the package that "
            f"provides it into this environment, or name one of these"
        )
    if len(found) > 1:
        raise PluginError(
            f"plugin {name!r} is provided more than once in the group {group!r}: {', '.join(sorted(found))}; "
            "uninstall all but one of their packages"
        )
    (entry,) = found.values()
    return entry


def _parse(model: type[BaseModel], name: str, config: Mapping[str, str], key_prefix: str) -> BaseModel:
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
        hint = f"did you mean {key_prefix}{near[0]}?" if near else f"known: {', '.join(sorted(_fields(model)))}"
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

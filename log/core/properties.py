"""A node's `.properties` file: Kafka's keys, read into pydantic models whose fields are the keys.

* A field is the key with dots as underscores: `log_dirs` is `log.dirs`.
* An unknown key is a warning with the nearest known key; a wrong value is a `ConfigError` that names source, key, value
  and what is expected, one line for each problem. Nothing is guessed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Final, Literal, TypeVar, Union, get_args, get_origin

import javaproperties
from annotated_types import Le
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ...light_dataclass import dataclass
from ...protocol import OperatorError
from ...protocol.wire import ConfigType
from .config import INT32_MAX, INT64_MAX

INT16_MAX: Final = 2**15 - 1
_ENDPOINT: Final = r"(?P<host>\[[0-9a-fA-F:]+\]|[^:\[\]/@]*):(?P<port>\d+)"
_LISTENER = re.compile(rf"(?P<name>[A-Za-z0-9_]+)://{_ENDPOINT}")
_HOST_AND_PORT = re.compile(_ENDPOINT)
PORT_MAX: Final = 65535

Keys = TypeVar("Keys", bound=BaseModel)


class ConfigError(OperatorError, ValueError):
    """The configuration cannot be used; the message has one line for each problem."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One endpoint `NAME://host:port`; port 0 lets the system choose."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{host_and_port(self.host, self.port)}"


def parse_listener(text: str) -> Listener:
    """ValueError says what is expected."""
    match = _LISTENER.fullmatch(text.strip())
    if match is None or int(match["port"]) > PORT_MAX:
        raise ValueError("expected exactly one NAME://host:port, such as PLAINTEXT://127.0.0.1:9092")
    return Listener(match["name"].upper(), match["host"].strip("[]"), int(match["port"]))


def host_and_port(host: str, port: int) -> str:
    """As `parse_host_and_port` reads it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_host_and_port(text: str) -> tuple[str, int]:
    """ValueError says what is expected."""
    match = _HOST_AND_PORT.fullmatch(text.strip())
    if match is None or not match["host"] or not 0 < int(match["port"]) <= PORT_MAX:
        raise ValueError(f"expected host:port, found {text!r}")
    return match["host"].strip("[]"), int(match["port"])


def boolean(value: object) -> object:
    if isinstance(value, str):
        lowered = value.strip().lower()
        if lowered not in {"true", "false"}:
            raise ValueError("expected true or false")
        return lowered == "true"
    return value


def comma_list(value: object) -> object:
    if not isinstance(value, str):
        return value
    items = tuple(item.strip() for item in value.split(",") if item.strip())
    if not items:
        raise ValueError("expected at least one value, separated by commas")
    return items


Boolean = Annotated[bool, BeforeValidator(boolean)]
PositiveInt = Annotated[int, Field(ge=1, le=INT32_MAX)]
PositiveLong = Annotated[int, Field(ge=1, le=INT64_MAX)]
NaturalInt = Annotated[int, Field(ge=0, le=INT32_MAX)]
Unlimited = Annotated[int, Field(ge=-1, le=INT64_MAX)]
"""-1 means without a limit."""
Paths = Annotated[tuple[Path, ...], BeforeValidator(comma_list)]


class PropertyKeys(BaseModel):
    """The base of every model of keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        arbitrary_types_allowed=True,
        alias_generator=lambda name: name.replace("_", "."),
        defer_build=True,  # most of these models are only parts of others, and never read a file themselves
    )

    def as_properties(self) -> dict[str, str]:
        """Every key that has a value, as text; without those that are shown to nobody (`repr=False`)."""
        shown = {name: field.alias or name for name, field in type(self).model_fields.items() if field.repr}
        values = {key: getattr(self, name) for name, key in shown.items()}
        return {key: as_text(value) for key, value in values.items() if value is not None}

    def static_properties(self) -> dict[str, str]:
        """The keys that the file gave, as text."""
        given = self.model_fields_set
        return {key: value for key, value in self.as_properties().items() if key.replace(".", "_") in given}


def as_text(value: object) -> str:
    """A value as a file would give it."""
    match value:
        case bool():
            return str(value).lower()
        case (str() as host, int() as port):
            return host_and_port(host, port)
        case dict():
            return ",".join(f"{key}@{as_text(item)}" for key, item in value.items())
        case frozenset():
            return ",".join(sorted(map(as_text, value)))
        case tuple():
            return ",".join(map(as_text, value))
    return str(value)


def config_types(model: type[BaseModel]) -> dict[str, ConfigType]:
    """What Kafka calls the value of each key of a model: a `ConfigType` in the annotation, else what follows from the
    type and the largest value of the field.
    """
    return {
        field.alias or name: _config_type(field.annotation, field.metadata)
        for name, field in model.model_fields.items()
    }


def _config_type(annotation: object, metadata: Sequence[object]) -> ConfigType:
    for declared in metadata:
        if isinstance(declared, ConfigType):
            return declared
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *declared_within = get_args(annotation)
        return _config_type(inner, declared_within)
    if origin in (UnionType, Union):
        (inner,) = (argument for argument in get_args(annotation) if argument is not NoneType)
        return _config_type(inner, metadata)
    if origin in (tuple, frozenset, dict, Mapping) or annotation is Listener:
        return ConfigType.LIST
    if annotation is int:
        return _integer_type(metadata)
    kind = type(get_args(annotation)[0]) if origin is Literal else annotation
    if kind is bool:
        return ConfigType.BOOLEAN
    return ConfigType.DOUBLE if kind is float else ConfigType.STRING


def _integer_type(metadata: Sequence[object]) -> ConfigType:
    limits = [item for entry in metadata for item in (entry.metadata if isinstance(entry, FieldInfo) else [entry])]
    maximum = min((item.le for item in limits if isinstance(item, Le) and isinstance(item.le, int)), default=INT64_MAX)
    if maximum <= INT16_MAX:
        return ConfigType.SHORT
    return ConfigType.INT if maximum <= INT32_MAX else ConfigType.LONG


def keys_of(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in model.model_fields.items())


def read_properties(path: Path) -> dict[str, str]:
    """ConfigError names the file."""
    try:
        with path.open("rb") as file:
            properties: dict[str, str] = javaproperties.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (javaproperties.InvalidUEscapeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a properties file: {error}") from error
    return properties


def nearest_key(key: str, known: Collection[str]) -> str | None:
    """Return what an unknown key may have been meant for."""
    return next(iter(difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.8)), None)


def unknown_key(key: str, known: Collection[str]) -> str:
    """The warning."""
    nearest = nearest_key(key, known)
    return f"unknown key {key!r} is ignored" + ("" if nearest is None else f"; did you mean {nearest!r}?")


def validated(model: type[Keys], values: Mapping[str, object], source: str, ignored: Sequence[str] = ()) -> Keys:
    """Return the keys as their model. ConfigError has one line for each problem, and one for each unknown key that is
    `ignored`: what is missing may be misspelt.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = [f"{source}: {_problem(item)}" for item in error.errors()]
        raise ConfigError("\n".join([*problems, *ignored])) from None


def _problem(item: ErrorDetails) -> str:
    location = item["loc"]
    message = str(item["msg"]).removeprefix("Value error, ").replace("Input should be", "expected")
    if not location:
        return message
    key = str(location[0])
    if item["type"] == "missing":
        return f"{key} is missing"
    return f"{key}={item['input']!r}: {message}"

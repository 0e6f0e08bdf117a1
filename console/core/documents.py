"""The values of this folder as JSON documents: dataclasses become objects, with the names of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None


def document_of(value: object) -> Json:
    """Return the value as JSON has it. TypeError for a type that it has not."""
    if isinstance(value, Enum):
        return str(value.value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): document_of(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [document_of(each) for each in value]
    if is_dataclass(value):
        return {each.name: document_of(getattr(value, each.name)) for each in fields(value)}
    raise TypeError(f"{type(value).__name__} is not in a document")

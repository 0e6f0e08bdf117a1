"""Values that are made for every request, and not changed after that.

A frozen dataclass sees to that itself, and for it takes three times as long to make. Here the type checker does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeVar, dataclass_transform, overload

from ..light_dataclass import dataclass

T = TypeVar("T")


@overload
def value(cls: type[T], /) -> type[T]: ...


@overload
def value(*, kw_only: bool = False, order: bool = False) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(
    cls: type[T] | None = None, /, *, kw_only: bool = False, order: bool = False
) -> type[T] | Callable[[type[T]], type[T]]:
    """A dataclass with slots, compared and hashed by its fields (by its own `__hash__`, where it defines one)."""

    def make(cls: type[T]) -> type[T]:
        hashes_itself = "__hash__" in vars(cls)
        return dataclass(slots=True, kw_only=kw_only, order=order, unsafe_hash=not hashes_itself)(cls)

    return make if cls is None else make(cls)

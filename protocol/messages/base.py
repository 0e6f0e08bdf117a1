"""What all messages have in common: values with slots, compared by their fields; a request knows its response.

The methods here are shared by all classes, because creating them for each of some 200 would take a node a tenth of a
second at its start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, field
from typing import ClassVar, Generic, TypeVar, dataclass_transform

from ...light_dataclass import dataclass

T = TypeVar("T")
MessageT = TypeVar("MessageT", bound="Message")
ResponseT = TypeVar("ResponseT", bound="Message | None")
ResponseT_co = TypeVar("ResponseT_co", bound="Message | None", covariant=True)


class Message:
    """A message, or a structure inside one. It is not changed after it is made, as with `values.value`."""

    __slots__: tuple[str, ...] = ()
    holds_slices: ClassVar[bool] = False
    """Whether a response may have slices of files in the place of bytes, to be released once it is sent."""
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]
    """Set by `message` in each class."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self.__slots__)))

    def __repr__(self) -> str:
        held = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({held})"


class WrittenOften(Message):
    """A structure that goes into many messages as the same object: its bytes are kept with it (`wire.steps`)."""

    __slots__ = ("__weakref__",)


class Request(Message, Generic[ResponseT_co]):
    """A request whose response is a `ResponseT_co`. `api_key` is Kafka's number of the API."""

    __slots__ = ()
    api_key: ClassVar[int]


def replaced(message: MessageT, **changes: object) -> MessageT:
    """Return the message with other values in the named fields. `dataclasses.replace` does this where the fields are
    known beforehand; this is for code that finds their names in a table.
    """
    held = {name: getattr(message, name) for name in message.__slots__}
    return type(message)(**(held | changes))


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=True, field_specifiers=(field,))
def message(cls: type[T]) -> type[T]:
    """Make a message class: keyword arguments and slots; the rest comes from `Message`."""
    make: Callable[[type[T]], type[T]] = dataclass(slots=True, kw_only=True, eq=False, repr=False)
    return make(cls)

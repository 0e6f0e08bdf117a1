"""What all messages have in common: a request knows its API and the type of its response."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

ResponseT_co = TypeVar("ResponseT_co", covariant=True)


class Request(Generic[ResponseT_co]):
    """A request whose answer is a `ResponseT_co`. `api_key` is Kafka's number of the API."""

    __slots__ = ()
    api_key: ClassVar[int]

"""The answers of a listener to everything that it offers, in every version, as plain values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

from tierfetch.protocol.api import ApiKey, VersionRange
from tierfetch.protocol.messages.base import Message
from tierfetch.protocol.messages.registry import MESSAGES
from tierfetch.protocol.messages.versions import lowered
from tierfetch.protocol.wire.message_codec import message_writer
from tierfetch.protocol.wire.primitives import Reader, Writer
from tierfetch.tests.broker.api_requests import QUESTIONS
from tierfetch.tests.broker.api_scene import Scene
from tierfetch.tests.protocol.entities import read_entity

CLOSED = "the connection was closed"
OF_A_CONNECTION = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""They begin a connection, and are no questions in the middle of one. Apache Kafka offers them without SASL too, and
answers ILLEGAL_SASL_STATE.
"""


class Asked(NamedTuple):
    """One API in one version."""

    api: ApiKey
    version: int

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version}"


async def offered(scene: Scene, *, controller: bool) -> Mapping[ApiKey, VersionRange]:
    """What ApiVersions of that listener says."""
    connection = await scene.client.connection(scene.controller if controller else scene.broker)
    return connection.versions


async def answers_of(scene: Scene, *, controller: bool, only: Iterable[Asked] | None = None) -> dict[Asked, list[Any]]:
    """Everything that is offered and known here, or `only` that."""
    ranges = await offered(scene, controller=controller)
    wanted = [
        Asked(api, version)
        for api, theirs in sorted(ranges.items())
        if api not in OF_A_CONNECTION
        for version in range(max(api.min_version, theirs.min_version), min(api.max_version, theirs.max_version) + 1)
    ]
    return {asked: (await answers_to(scene, scene, asked, controller=controller))[1] for asked in only or wanted}


async def answers_to(scene: Scene, asker: Scene, asked: Asked, *, controller: bool) -> tuple[list[Any], list[Any]]:
    """Ask one API with the client of `asker`, what the question needs beforehand with that of `scene`. Returns what was
    asked, and the answers."""
    ask = _Asking(asker, asked, controller=controller)
    try:
        await QUESTIONS[asked.api](scene, ask)
    except OSError:
        assert CLOSED in ask.answers, f"{asked}: the scene could not be set"
    return ask.asked, ask.answers


class _Asking:
    """An `api_requests.Ask`."""

    def __init__(self, scene: Scene, asked: Asked, *, controller: bool) -> None:
        self.version = asked.version
        self.asked: list[Any] = []
        self.answers: list[Any] = []
        self._scene = scene
        self._api = asked.api
        self._controller = controller

    async def __call__(self, body: Any) -> Any:
        self.asked.append(plain(body))
        try:
            answer = await self._scene.ask(self._api, body, version=self.version, controller=self._controller)
        except OSError:
            self.answers.append(CLOSED)
            raise
        self.answers.append(plain(_as_sent(self._api, self.version, answer)))
        return answer


def _as_sent(api: ApiKey, version: int, answer: Any) -> Any:
    """Return the answer with the fields of its version alone: a message has those of all versions."""
    if api not in MESSAGES or not isinstance(answer, Message):
        return answer
    kind = api.response_type(version)
    writer = Writer(flexible=api.is_flexible(version))
    message_writer(type(answer), kind)(writer, lowered(answer, version))
    data = b"".join(bytes(part) for part in writer.finish())  # type: ignore[arg-type]  # no slices of files here
    return read_entity(Reader(memoryview(data), 0, flexible=api.is_flexible(version)), kind)


def plain(value: Any) -> Any:
    """Dictionaries, lists and primitives; codes by name, times in ms."""
    if isinstance(value, Enum):
        return value.name
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(item) for name, item in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    if isinstance(value, datetime | UUID):
        return str(value)
    return value


def empty_places(answers: Iterable[Any]) -> set[str]:
    """The arrays that hold nothing in any of the answers."""
    found: dict[str, bool] = {}
    for place, items in _arrays(list(answers), ""):
        found[place] = found.get(place, False) or bool(items)
    return {place for place, is_filled in found.items() if not is_filled}


def _arrays(value: Any, place: str) -> Iterator[tuple[str, list[Any]]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _arrays(item, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        if place:
            yield place, value
        for item in value:
            yield from _arrays(item, place)

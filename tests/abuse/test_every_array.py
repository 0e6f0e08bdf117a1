"""SPEC A2: no request holds the event loop, whichever of its arrays is large. No list of APIs: their table is the list.

For each array that a request has, at any depth, a request in its newest version has very many elements there: so many
that handling them at once would take some hundred milliseconds. Measured is the CPU time of the longest step of the
event loop, which other processes hardly change, and which is generous: a slice takes some 10 ms.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import sys
import time
from asyncio import events
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pytest
from kio.serial import entity_writer

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.request_elements import ELEMENTS_MAX_OF, REQUEST_ELEMENTS_MAX, SMALL_ELEMENTS_MAX
from tierfetch.tests.abuse.attacks import frame
from tierfetch.tests.broker.api_answers import OF_A_CONNECTION, offered
from tierfetch.tests.broker.api_scene import Scene
from tierfetch.tests.broker.test_every_api import combined_node, scene_of
from tierfetch.tests.protocol.entities import build_entity, schema_of
from tierfetch.tests.protocol.full_content import full_request

pytestmark = pytest.mark.timeout(600)

ELEMENTS: Final = 20_000
STEP_S_MAX: Final = 0.1
ANSWER_S: Final = 10.0
READ_BYTES: Final = 1 << 16
SHOWN: Final = 25
PathOf = tuple[str, ...]


class LongestStep:
    """The CPU time of the longest step of the event loop since `begin`, and what ran in it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.what = ""

    def begin(self) -> None:
        self.seconds = 0.0

    def measured(self, run: Callable[[events.Handle], None]) -> Callable[[events.Handle], None]:
        def measure(handle: events.Handle) -> None:
            began = time.thread_time()
            run(handle)
            seconds = time.thread_time() - began
            if seconds > self.seconds:
                self.seconds, self.what = seconds, repr(handle)[:300]

        return measure


@pytest.fixture
def longest(monkeypatch: pytest.MonkeyPatch) -> Iterator[LongestStep]:
    longest = LongestStep()
    monkeypatch.setattr(events.Handle, "_run", longest.measured(events.Handle._run))
    gc.disable()  # here it looks at what the test keeps
    yield longest
    gc.enable()


def arrays(content: Any, at: PathOf = ()) -> Iterator[PathOf]:
    """Yield the path of every array, by the names of the fields on the way."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from arrays(value, (*at, name))
    elif isinstance(content, list):
        yield at
        yield from arrays(content[0], at)


def with_many(content: Any, path: PathOf, count: int) -> Any:
    """Return the content with so many elements in that array, each unlike the others, and one in the arrays around."""
    if not path:
        return [unlike(content[0], number) for number in range(count)]
    name, *rest = path
    value = content[name]
    if rest and isinstance(value, list):
        return {**content, name: [with_many(value[0], tuple(rest), count)]}
    return {**content, name: with_many(value, tuple(rest), count)}


def unlike(value: Any, number: int) -> Any:
    if isinstance(value, dict):
        made = dict(value)
        for name, each in value.items():
            if isinstance(each, str | int) and not isinstance(each, bool):
                made[name] = unlike(each, number)
                break
        return made
    if isinstance(value, str):
        return f"{value[:20]}-{number}"
    if isinstance(value, int):
        return number % 120 if abs(value) < 128 else number % 30_000
    return copy.copy(value)


@pytest.mark.parametrize("listener", ["broker", "controller"])
async def test_no_array_of_any_request_holds_the_loop(tmp_path: Path, longest: LongestStep, listener: str) -> None:
    is_controller = listener == "controller"
    steps: list[tuple[float, str]] = []
    async with combined_node(tmp_path) as node, scene_of(node) as scene:
        for api in sorted(set(await offered(scene, controller=is_controller)) - OF_A_CONNECTION):
            limit = ELEMENTS_MAX_OF.get(api, REQUEST_ELEMENTS_MAX)
            if limit <= SMALL_ELEMENTS_MAX:
                continue
            content = full_request(api)
            for path in arrays(content):
                body = with_many(content, path, min(ELEMENTS, limit - 10))
                data = request(api, body)
                await asyncio.sleep(0)  # what was measured so far is the making of the request
                longest.begin()
                await answered(scene, data, controller=is_controller)
                steps.append((longest.seconds, f"{api.name} {'.'.join(path)}: {longest.what}"))
    steps.sort(reverse=True)
    sys.stdout.write("".join(f"\n{listener} {seconds:.3f} s {what}" for seconds, what in steps[:SHOWN]))
    assert [step for step in steps if step[0] > STEP_S_MAX] == []


def request(api: ApiKey, body: Mapping[str, Any]) -> bytes:
    out = BytesIO()
    entity_type = api.request_type(api.max_version)
    entity_writer(entity_type)(out, build_entity(entity_type, known(entity_type, body)))
    return frame(api, api.max_version, out.getvalue())


async def answered(scene: Scene, data: bytes, *, controller: bool) -> None:
    """Send the request on a connection of its own, and read its answer, if there is one, without keeping it."""
    address = scene.controller if controller else scene.broker
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(data)
        async with asyncio.timeout(ANSWER_S):
            left = int.from_bytes(await reader.readexactly(4), "big")
            while left and (some := await reader.read(min(left, READ_BYTES))):
                left -= len(some)
    except (TimeoutError, EOFError, ConnectionError):
        pass  # what it means is not the question: it may wait for what never comes, or be refused
    finally:
        writer.close()


def known(entity_type: type[Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the fields that the version does not have."""
    values: dict[str, Any] = {}
    for field in schema_of(entity_type):
        if field.plain_name not in body:
            continue
        value = body[field.plain_name]
        if field.entity is not None:
            entity = field.entity
            value = [known(entity, item) for item in value] if isinstance(value, list) else known(entity, value)
        values[field.plain_name] = value
    return values

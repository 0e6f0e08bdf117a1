"""A page's changes as server-sent events: what is sent, and that nothing is left of a reader that has left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.exceptions import HTTPException

from tierfetch.console import Pages
from tierfetch.console import live as live_module
from tierfetch.console.live import StreamResponse, Streams, changes, events
from tierfetch.console.routes import LIVE, application
from tierfetch.tests.console.readers import MARKUP, FakeReader


def sent_by(events: list[str]) -> list[tuple[str, dict[str, str]]]:
    found = []
    for event in events:
        name, data = event.removesuffix("\n\n").split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


async def pause() -> None:
    """None."""


def test_only_parts_that_changed_are_sent() -> None:
    sent: dict[str, bytes] = {}
    first = changes({"a": "<p>1</p>", "b": MARKUP + "\n\nevent: evil"}, sent)
    assert sent_by(first) == [
        ("part", {"id": "a", "html": "<p>1</p>"}),
        ("part", {"id": "b", "html": MARKUP + "\n\nevent: evil"}),
    ]
    again = changes({"a": "<p>2</p>", "b": MARKUP + "\n\nevent: evil"}, sent)
    assert sent_by(again) == [("part", {"id": "a", "html": "<p>2</p>"})]
    assert sent_by(changes({"a": "<p>2</p>"}, sent)) == [("alive", {})]


async def test_a_stream_looks_again_only_when_its_reader_has_taken_what_there_was() -> None:
    looks = 0

    async def look() -> dict[str, str]:
        nonlocal looks
        looks += 1
        return {"a": str(looks)}

    stream: AsyncIterator[str] = events(look, pause)
    assert (await anext(stream)).startswith("retry: ")
    assert looks == 0
    await anext(stream)
    assert looks == 1
    await anext(stream)
    assert looks == 2
    await stream.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_a_stream_whose_reader_leaves_before_its_first_byte_gives_its_place_back() -> None:
    streams = Streams()
    assert streams.take()

    async def look() -> dict[str, str]:
        return {}

    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    async def send(_: object) -> None:
        raise OSError("the reader has left")

    with pytest.raises((OSError, ExceptionGroup)):
        await StreamResponse(streams, look, pause)({"type": "http"}, receive, send)
    assert streams.count == 0


async def test_streams_that_begin_at_once_are_counted_before_they_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "STREAMS_MAX", 3)
    reader = FakeReader()
    pages = Pages(reader, interval_s=1)
    app = application(pages, hosts=["console"], refresh_s=1)
    looking, opened = asyncio.Event(), 0

    async def overview() -> object:
        nonlocal opened
        opened += 1
        await looking.wait()
        raise HTTPException(404)

    monkeypatch.setattr(pages, "overview", overview)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://console") as client:
        asked = [asyncio.create_task(client.get("/live/overview")) for _ in range(10)]
        async with asyncio.timeout(10):
            while sum(each.done() for each in asked) < 7:  # noqa: ASYNC110 - of tasks
                await asyncio.sleep(0)
        assert opened == 3
        looking.set()
        codes = sorted([(await each).status_code for each in asked])
        assert codes == [404] * 3 + [503] * 7
        assert (await client.get("/live/overview")).status_code == 404, "the places are given back"
    await pages.close()


async def first_event(url: str) -> str:
    """The beginning of a stream, through a real application; its end is the test's."""
    pages = Pages(FakeReader(), interval_s=1)
    app = application(pages, hosts=["console"], refresh_s=1)
    taken: list[bytes] = []
    left = asyncio.Event()

    async def receive() -> dict[str, object]:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])  # type: ignore[call-overload]
            assert headers[b"content-type"].startswith(b"text/event-stream")
            assert b"content-security-policy" in headers
        body = message.get("body")
        assert body is None or isinstance(body, bytes)
        taken.append(body or b"")
        if b"event: part" in (body or b""):
            left.set()

    path, _, query = url.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": query.encode(),
        "headers": [(b"host", b"console")],
        "server": ("console", 80),
        "client": ("127.0.0.1", 1),
    }
    async with asyncio.timeout(10):
        await app(scope, receive, send)  # type: ignore[arg-type]
    await pages.close()
    return b"".join(taken).decode()


@pytest.mark.parametrize("page", LIVE)
async def test_every_page_streams_its_parts_and_ends_with_its_reader(page: str) -> None:
    text = await first_event(f"/live/{page}?id=billing")
    assert '"id": "verdict"' in text
    assert "<script>alert" not in text


async def test_too_many_streams_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "STREAMS_MAX", 0)
    pages = Pages(FakeReader(), interval_s=1)
    app = application(pages, hosts=["console"], refresh_s=1)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://console") as client:
        assert (await client.get("/live/overview")).status_code == 503
        assert (await client.get("/live/group")).status_code == 503
        assert (await client.get("/live/replace?broker=1")).status_code == 404, "a prediction is made once"
    await pages.close()

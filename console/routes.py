"""The console as an ASGI application: HTML that works without a script, the same values as JSON, static files.

    path                                                 answer
    ---------------------------------------------------  ---------------------------------------------------------------
    /, /topics, /partitions, /groups, /group, /replace   a page
    /api/ and the same names (/api/overview for /)       its values as JSON
    /live/ and the same names, but for replace           its changes as server-sent events (`live`)
    /pages.css                                           the style sheet that all pages of tierfetch share
    /static/                                             what the console adds to it, and the script

Before any of it `Guard` refuses what no reader of the console sends: a Host header that is not ours (DNS rebinding), a
method that could change something, a request that another site's page makes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..pages import Made
from .core.documents import document_of
from .core.hosts import host_name
from .core.selection import Only, query_of
from .formats import FILTERS, PARTS, SHARED_STYLE, durations_scale, look_numbers
from .live import STREAMS_MAX, Parts, StreamResponse, Streams
from .pages import Pages, View

HERE: Final = Path(__file__).parent
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:;"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
LIVE: Final = ("overview", "topics", "partitions", "groups", "group")
"""The pages whose changes are streamed."""
METHODS: Final = frozenset({"GET", "HEAD"})
KNOWN_MAX: Final = 100
"""Characters of a figure that a reader fills in."""

Answer = Callable[[Request], Awaitable[View]]


def application(
    pages: Pages,
    *,
    hosts: Collection[str],
    refresh_s: float,
    figures: Mapping[str, str] | None = None,
    assumed: Mapping[str, str] | None = None,
) -> ASGIApp:
    """`hosts`: names that a Host header may have. `figures`: what a reader may fill in for a prediction, by key;
    `assumed`: what is taken for those that are not given.
    """
    site = _Site(pages, refresh_s, figures or {}, assumed or {})
    found: dict[str, tuple[str, Answer]] = {
        "": ("overview", site.overview),
        "topics": ("topics", site.topics),
        "partitions": ("partitions", site.partitions),
        "groups": ("groups", site.groups),
        "group": ("group", site.group),
        "replace": ("replace", site.replace),
    }
    routes = [Route(f"/{path}", site.page(name, answer)) for path, (name, answer) in found.items()]
    routes += [Route(f"/api/{name}", _document(answer)) for name, answer in found.values()]
    routes += [Route(f"/live/{name}", site.stream(name, answer)) for name, answer in found.values() if name in LIVE]
    routes.append(Route("/pages.css", _style))
    inner = Starlette(
        routes=[*routes, Mount("/static", StaticFiles(directory=HERE / "static"))],
        exception_handlers={HTTPException: site.refused, Exception: site.failed},
    )
    return Guard(inner, hosts=frozenset(hosts))  # outside of all, so that its headers are on errors too


class Guard:
    """Refuses foreign requests, and puts `HEADERS` on every answer."""

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        await (refusal or self._app)(scope, receive, send_protected)

    def _refusal(self, method: str, headers: Headers) -> Response | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or host_name(hosts[0]) not in self._hosts:
            text = f"The console answers to {', '.join(sorted(self._hosts))}. Name other hosts with --allow-host.\n"
            return PlainTextResponse(text, 421)
        if method not in METHODS:
            return PlainTextResponse("The console is read-only.\n", 405, {"Allow": ", ".join(sorted(METHODS))})
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return PlainTextResponse("The console does not answer pages of other sites.\n", 403)
        return None


class _Site:
    """The handlers."""

    def __init__(self, pages: Pages, refresh_s: float, figures: Mapping[str, str], assumed: Mapping[str, str]) -> None:
        self._pages = pages
        self._refresh_s = refresh_s
        self._figures = figures
        self._assumed = assumed
        self._made = Made.now()
        self._streams = Streams()
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= FILTERS

    async def overview(self, _: Request) -> View:
        return await self._pages.overview()

    async def topics(self, request: Request) -> View:
        return await self._pages.topics(query_of(request.query_params))

    async def partitions(self, request: Request) -> View:
        return await self._pages.partitions(query_of(request.query_params))

    async def groups(self, request: Request) -> View:
        return await self._pages.groups(query_of(request.query_params))

    async def group(self, request: Request) -> View:
        name = request.query_params.get("id")
        if name is None:
            raise HTTPException(404, "Say which group: /group?id=NAME")
        return await self._pages.group(name, query_of(request.query_params))

    async def replace(self, request: Request) -> View:
        given = request.query_params
        known = {key: given[key][:KNOWN_MAX].strip() for key in self._figures if given.get(key, "").strip()}
        broker = given.get("broker", "")
        if broker and not (broker.isascii() and broker.isdigit() and len(broker) < 11):
            raise HTTPException(400, "A broker is named by its id, a number")
        return await self._pages.replacement(int(broker) if broker else None, known, self._assumed)

    def page(self, name: str, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler of a page."""

        async def handle(request: Request) -> Response:
            return HTMLResponse(self._rendered(await answer(request), name, request)[0])

        return handle

    def stream(self, name: str, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler of a page's changes."""

        async def handle(request: Request) -> Response:
            if not self._streams.take():  # before the first look, for others may come meanwhile
                return PlainTextResponse(f"{STREAMS_MAX} pages are open already.\n", 503)

            async def look() -> Parts:
                return self._rendered(await answer(request), name, request)[1]

            try:
                await look()  # what is wrong with the request is an answer, not an event
            except BaseException:
                self._streams.give_back()
                raise
            return StreamResponse(self._streams, look, lambda: self._pages.news(self._refresh_s))

        return handle

    def _rendered(self, view: View, name: str, request: Request) -> tuple[str, Parts]:
        """Return a page, and its parts that change."""
        parts: dict[str, str] = {}

        def note(part: str, html: str) -> str:
            parts[part] = html
            return ""

        context = self._context(view, name, request) | {"note": note}
        return self._templates.get_template(f"{name}.html").render(context), parts

    def _context(self, view: View, name: str, request: Request) -> dict[str, object]:
        query = f"?{request.url.query}" if request.url.query else ""
        return {
            "view": view,
            "here": name,
            "only": list(Only),
            "parts": PARTS,
            "refresh_s": self._refresh_s,
            "figures": self._figures,
            "made": self._made,
            "live": f"/live/{name}{query}",
            "looks": look_numbers(view),
            "scale": durations_scale(view.prediction),
            "parameters": dict(request.query_params),
        }

    async def refused(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        text = self._templates.get_template("refused.html").render(here="", status=error.status_code, why=error.detail)
        return HTMLResponse(text, error.status_code)

    async def failed(self, _: Request, __: Exception) -> Response:
        why = "Internal error; the output of the command has more."
        return HTMLResponse(self._templates.get_template("refused.html").render(here="", status=500, why=why), 500)


async def _style(_: Request) -> Response:
    return Response(SHARED_STYLE, media_type="text/css")


def _document(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of a page's values. A document has what the page shows, not the whole cluster."""

    async def handle(request: Request) -> Response:
        view = await answer(request)
        document = document_of(replace(view, overview=replace(view.overview, partitions=(), groups=None)))
        assert isinstance(document, dict)
        overview = document["overview"]
        assert isinstance(overview, dict)
        overview["partitions"] = len(view.overview.partitions)
        overview["groups"] = None if view.overview.groups is None else len(view.overview.groups)
        return JSONResponse(document)

    return handle

"""The console over HTTP, against a cluster that fails, hangs and has names that want to be markup."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from html.parser import HTMLParser

import httpx
import pytest

from tierfetch import __version__
from tierfetch.console import Pages
from tierfetch.console.routes import HEADERS, application
from tierfetch.protocol import ErrorCode, KafkaError
from tierfetch.tests.console.readers import MARKUP, FakeReader, overview, part
from tierfetch.tests.turns import turns

PAGES = ["/", "/topics", "/partitions", "/groups", "/group?id=billing", "/replace", "/replace?broker=1"]
FIGURES = {"cores": "CPU cores"}


@asynccontextmanager
async def browser(reader: FakeReader) -> AsyncIterator[httpx.AsyncClient]:
    pages = Pages(reader, interval_s=1)
    app = application(pages, hosts=["console"], refresh_s=3, figures=FIGURES)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
        yield client
    await pages.close()


class Outline(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_is_whole(path: str) -> None:
    async with browser(FakeReader()) as client:
        answer = await client.get(path)
    assert answer.status_code == 200
    found = Outline(answer.text)
    assert len(found.of("h1")) == len(found.of("main")) == 1
    assert found.of("html") == [{"lang": "en"}]
    assert len(found.of("table")) == len(found.of("caption"))
    assert all(each.get("scope") for each in found.of("th")), "every header says what it is the header of"
    assert all(each.get("aria-label") or each.get("aria-hidden") for each in found.of("svg"))
    assert all(each.get("aria-label") for each in found.of("progress"))
    identities = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(identities) == len(set(identities))


@pytest.mark.parametrize("path", [*PAGES, f"/group?id={MARKUP}", f"/topics?q={MARKUP}", f"/partitions?topic={MARKUP}"])
async def test_names_of_others_are_text(path: str) -> None:
    reader = FakeReader(replace(overview(), partitions=(part(MARKUP, 0),)))
    async with browser(reader) as client:
        answer = await client.get(path)
    found = Outline(answer.text)
    assert [each for each in found.of("script") if "src" not in each] == []
    assert not [each for _, each in found.tags if any(name.startswith("on") or name == "style" for name in each)]
    assert "<script>alert" not in answer.text
    seen = answer.text.replace('value="' + MARKUP.replace("&", "&amp;"), "")
    assert "\u202e" not in seen.split("<main")[1].split("<form")[0], "an override would turn its neighbours round"


@pytest.mark.parametrize("path", ["/", "/static/console.css", "/pages.css", "/nothing", "/api/overview"])
async def test_every_answer_is_protected(path: str) -> None:
    async with browser(FakeReader()) as client:
        answer = await client.get(path)
    assert {name: answer.headers[name] for name in HEADERS} == dict(HEADERS)


async def test_an_internal_error_shows_nothing_of_the_inside_and_is_protected() -> None:
    reader = FakeReader()
    reader.found = "no overview"
    async with browser(reader) as client:
        answer = await client.get("/")
    assert answer.status_code == 500
    assert "Internal error" in answer.text
    assert "Traceback" not in answer.text
    assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {"host": "console:8090"}, 200),
        ("HEAD", {}, 200),
        ("GET", {"host": "evil.example"}, 421),
        ("GET", {"host": "console.evil.example"}, 421),
        ("GET", {"host": "console@evil.example"}, 421),
        ("GET", {"host": ""}, 421),
        ("POST", {}, 405),
        ("DELETE", {}, 405),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
        ("GET", {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}, 200),
    ],
)
async def test_who_may_ask(method: str, headers: dict[str, str], status: int) -> None:
    reader = FakeReader()
    async with browser(reader) as client:
        answer = await client.request(method, "/", headers=headers)
    assert answer.status_code == status
    assert bool(reader.asked) == (status == 200), "a refused request costs the cluster nothing"


async def test_two_host_headers_are_none() -> None:
    async with browser(FakeReader()) as client:
        answer = await client.get("/", headers=[("host", "console"), ("host", "evil.example")])
    assert answer.status_code == 421


async def test_ten_thousand_partitions_are_shown_fifty_at_a_time() -> None:
    reader = FakeReader(overview(10_000))
    async with browser(reader) as client:
        answer = await client.get("/partitions?page=200")
        document = (await client.get("/api/partitions?page=200")).json()
    assert reader.keys == [tuple(("t", index) for index in range(9_950, 10_000))]
    assert answer.text.count('role="rowheader"') == 50
    assert "Page 200 of 200, 10,000 rows" in answer.text
    assert document["overview"]["partitions"] == 10_000
    assert len(document["partitions"]["rows"]) == 50
    assert len(answer.content) < 300_000


@pytest.mark.parametrize("path", ["/", "/topics", "/partitions", "/groups"])
async def test_a_page_begins_with_the_verdict_and_says_how_it_was_made(path: str) -> None:
    async with browser(FakeReader()) as client:
        text = (await client.get(path)).text
    main = text.split("<main")[1]
    assert main.index('class="verdict warn"') < main.index("quiet made") < main.index("<table")
    assert "Broker 3 is fenced; no partition has a replica outside the ISR." in main
    assert "1970-01-01 00:00:00 UTC" in main
    assert f"tierfetch {__version__}" in main


async def test_the_overview_counts_hurt_partitions_and_leads_to_them() -> None:
    hurt = (part("t", 0), part("t", 1, isr=(1,)))
    async with browser(FakeReader(replace(overview(), partitions=hurt))) as client:
        text = (await client.get("/")).text
        rows = (await client.get("/api/partitions?only=hurt")).json()["partitions"]["rows"]
    assert '<a href="/partitions?only=hurt">' in text
    assert "1 without a leader" in text
    assert [row["partition"]["index"] for row in rows] == [1]


async def test_a_replicas_bar_has_words() -> None:
    async with browser(FakeReader()) as client:
        found = Outline((await client.get("/partitions")).text)
        rows = (await client.get("/api/partitions")).json()["partitions"]["rows"]
    labels = [each["aria-label"] for each in found.of("svg") if each.get("role") == "img"]
    assert labels[0] == "broker 1: in the tier only 50 %, on disk 30 %, on disk, pending its copy 20 %"
    assert labels[1] == "broker 2: about in the tier only 75 %, on disk 5 %, on disk, pending its copy 20 %"
    assert rows[0]["tier_error"] == f"copy: {MARKUP}"
    assert [bar["sign"] for bar in rows[0]["bars"]] == ["leader", "warming"]
    assert rows[0]["bars"][1]["progress"] == 0.5


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(
    "failure",
    [OSError("h1:9092: connection refused"), KafkaError(ErrorCode.unsupported_version, "too old")],
    ids=["away", "too old"],
)
async def test_a_cluster_that_fails_is_a_sentence_on_every_page(path: str, failure: Exception) -> None:
    async with browser(FakeReader(failure=failure)) as client:
        answer = await client.get(path)
    assert answer.status_code == 200
    assert str(failure) in answer.text
    assert "Traceback" not in answer.text


async def test_a_page_outlives_the_cluster() -> None:
    reader = FakeReader()
    async with browser(reader) as client:
        await client.get("/")
        reader.failure = OSError("gone")
        async with asyncio.timeout(30):
            while "gone" not in (text := (await client.get("/")).text):  # noqa: ASYNC110  # the page is what is awaited
                await asyncio.sleep(0.05)
    assert "h1:9092" in text, "what was read last is still shown"


async def test_a_group_that_does_not_exist_and_one_that_nobody_named() -> None:
    async with browser(FakeReader()) as client:
        assert "group other does not exist" in (await client.get("/group?id=other")).text
        assert (await client.get("/group")).status_code == 404


async def test_a_prediction_names_what_it_needs_and_takes_it_from_the_form() -> None:
    async with browser(FakeReader()) as client:
        first = (await client.get("/replace?broker=1")).text
        second = (await client.get("/replace?broker=1&cores=16&evil=1")).text
        document = (await client.get("/api/replace?broker=1&cores=16&evil=1")).json()
    assert "The model needs more" in first
    assert "12.0 s" in second
    assert document["known"] == {"cores": "16"}


@pytest.mark.parametrize("broker", ["x", "-1", "1e3", "\u0661", "9" * 5000])
async def test_a_broker_is_a_number(broker: str) -> None:
    reader = FakeReader()
    async with browser(reader) as client:
        answer = await client.get("/replace", params={"broker": broker})
    assert answer.status_code == 400
    assert "predict" not in reader.asked


async def test_what_nobody_knows_is_assumed_and_said() -> None:
    pages = Pages(FakeReader(), interval_s=1)
    app = application(pages, hosts=["console"], refresh_s=3, figures=FIGURES, assumed={"cores": "16"})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://console") as client:
        assumed = (await client.get("/replace?broker=1")).text
        given = (await client.get("/replace?broker=1&cores=4")).text
    await pages.close()
    assert "all replicas are in sync after 12.0 s under tier-first, on assumed machines." in assumed
    assert "<code>cores=16</code>" in assumed
    assert 'value="16"' in assumed
    assert assumed.count('class="bar"') == 2, "what never ends has no bar"
    assert "(logarithmic)" in assumed
    assert "all replicas are in sync after 12.0 s under tier-first." in given


async def test_one_prediction_at_a_time() -> None:
    reader = FakeReader()
    pages = Pages(reader, interval_s=1)
    await pages.overview()
    reader.hangs = True
    first = asyncio.create_task(pages.replacement(1, {}))
    await turns(10)
    assert "predict" in reader.asked
    second = await pages.replacement(2, {})
    assert second.problems[0].what == "prediction"
    first.cancel()
    await asyncio.wait([first])
    reader.hangs = False
    assert (await pages.replacement(2, {})).prediction is not None
    await pages.close()


@pytest.mark.parametrize("path", ["/static/../application.py", "/static/%2e%2e/application.py", "/templates/base.html"])
async def test_only_static_files_are_served(path: str) -> None:
    async with browser(FakeReader()) as client:
        assert (await client.get(path)).status_code == 404

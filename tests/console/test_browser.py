"""The console in a browser: both widths, both colour schemes, the keyboard, updates in place, and without a script."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tierfetch.console import Pages
from tierfetch.console.routes import application
from tierfetch.console.server import listener, serve, url_of
from tierfetch.tests.console import chromium
from tierfetch.tests.console.readers import FakeReader, broker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium.PATH is None, reason="there is no Chromium (apt-get install chromium)"),
]

PATHS = ["/", "/topics", "/partitions", "/groups", "/group?id=billing", "/replace?broker=1&cores=4"]
OVERFLOWS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
OVERLAPPING = """[...document.querySelectorAll(".replicas li, .legend, nav ul, .search")].flatMap(row => {
  const boxes = [...row.children].map(each => each.getBoundingClientRect()).filter(box => box.width && box.height);
  return boxes.flatMap((one, i) => boxes.slice(i + 1).filter(other =>
    one.left < other.right - 1 && other.left < one.right - 1 && one.top < other.bottom - 1 && other.top < one.bottom - 1
  ).map(() => row.textContent.trim()));
})"""


@dataclass
class Serving:
    """A console in a thread of this process."""

    reader: FakeReader
    url: str


@contextmanager
def serving(reader: FakeReader) -> Iterator[Serving]:
    listening = listener("127.0.0.1", 0)
    started: dict[str, object] = {}
    ready = threading.Event()

    async def work() -> None:
        pages = Pages(reader, interval_s=1)
        app = application(pages, hosts=["127.0.0.1"], refresh_s=1, figures={"cores": "CPU cores"})
        started.update(loop=asyncio.get_running_loop(), task=asyncio.current_task())
        ready.set()
        try:
            await serve(app, listening)
        except asyncio.CancelledError:
            pass
        finally:
            await pages.close()

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    ready.wait()
    try:
        yield Serving(reader, url_of("127.0.0.1", listening).rstrip("/"))
    finally:
        started["loop"].call_soon_threadsafe(started["task"].cancel)
        thread.join()
        listening.close()


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Tab]:
    with chromium.tab(tmp_path_factory.mktemp("chromium")) as found:
        yield found


def test_every_page_fits_a_phone_and_a_desk_and_the_browser_complains_of_nothing(
    tab: chromium.Tab, tmp_path: Path
) -> None:
    tab.log.clear()
    with serving(FakeReader()) as console:
        for width in (420, 1400):
            for scheme in ("light", "dark"):
                tab.size(width, 900)
                tab.scheme(scheme)
                for number, path in enumerate(PATHS):
                    tab.open(console.url + path)
                    assert not tab.value(OVERFLOWS), f"{path} is wider than {width}"
                    assert tab.value(OVERLAPPING) == [], f"{path} at {width}"
                    tab.picture(tmp_path / f"{number}-{width}-{scheme}.png")
    assert tab.log == []


def luminance(colour: str) -> float:
    channels = [int(each) / 255 for each in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(tab: chromium.Tab, scheme: str) -> None:
    """WCAG's 4.5 to 1."""
    with serving(FakeReader()) as console:
        tab.scheme(scheme)
        tab.open(f"{console.url}/partitions")
        found = tab.value(
            "['.sign', '.made', '.held', 'a', 'thead th', '.legend', 'caption'].map(each =>"
            " [each, getComputedStyle(document.querySelector(each)).color,"
            "  getComputedStyle(document.documentElement).backgroundColor])"
        )
    for selector, *colours in found:
        dark, light = sorted(map(luminance, colours))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (selector, colours)


def test_the_keyboard_reaches_everything_and_shows_where_it_is(tab: chromium.Tab) -> None:
    with serving(FakeReader()) as console:
        tab.size(1400, 900)
        tab.open(f"{console.url}/groups")
        seen = []
        for _ in range(12):
            tab.press("Tab")
            text, outline = tab.value(
                "[document.activeElement.textContent.trim() || document.activeElement.name,"
                " getComputedStyle(document.activeElement).outlineStyle]"
            )
            assert outline == "solid", text
            seen.append(text)
    assert seen[:3] == ["Skip to the content", "Overview", "Topics"]
    assert seen[6].startswith("Broker 3 is fenced"), "the verdict comes first, and leads to what is wrong"
    assert seen[10] == "billing"


def test_a_screen_reader_finds_landmarks_and_a_name_for_everything(tab: chromium.Tab) -> None:
    """The tree that Chromium gives to assistive technology."""
    with serving(FakeReader()) as console:
        tab.send("Accessibility.enable")
        for path in PATHS:
            tab.open(console.url + path)
            nodes = [node for node in tab.send("Accessibility.getFullAXTree")["nodes"] if not node.get("ignored")]
            found = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes]
            roles = {role for role, _ in found}
            assert {"banner", "navigation", "main", "heading"} <= roles, path
            assert next(name for role, name in found if role == "heading"), path
            named = {"link", "button", "textbox", "combobox", "table", "region", "progressbar", "image", "navigation"}
            assert [each for each in found if each[0] in named and not each[1].strip()] == [], path
            assert ("status", "") in [(role, "") for role, _ in found] or path.startswith("/replace"), path
        tab.send("Accessibility.disable")


def test_a_change_appears_without_a_reload_and_the_focus_stays(tab: chromium.Tab) -> None:
    with serving(FakeReader()) as console:
        tab.open(f"{console.url}/groups")
        tab.value("window.isSamePage = true; document.querySelector('#groups a').focus()")
        found = console.reader.found
        console.reader.found = replace(found, groups=(replace(found.groups[0], state="Dead"), *found.groups[1:]))
        tab.wait("document.querySelector('#groups').textContent.includes('Dead')")
        assert tab.value("[window.isSamePage, document.activeElement.textContent]") == [True, "billing"]
        console.reader.failure = OSError("h1:9092: connection refused")
        tab.wait("document.querySelector('#problems').textContent.includes('connection refused')")
        assert tab.value("document.querySelector('#groups').textContent.includes('billing')")
    tab.wait("document.querySelector('#lost').textContent.includes('does not answer')")
    tab.log.clear()


def test_without_a_script_the_page_is_whole(tab: chromium.Tab) -> None:
    reader = FakeReader()
    reader.found = replace(reader.found, brokers=(broker(7),))
    with serving(reader) as console:
        tab.send("Emulation.setScriptExecutionDisabled", value=True)
        try:
            tab.open(f"{console.url}/")
            assert tab.value("document.querySelector('#brokers tbody th').textContent") == "7"
        finally:
            tab.send("Emulation.setScriptExecutionDisabled", value=False)

"""What every page must hold: parsed by a strict reader, small, self-contained, a table beside each picture."""

from __future__ import annotations

import re
from html.parser import HTMLParser

BYTES_MAX = 300_000
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Reader(HTMLParser):
    """Collects what a page has; an element that is closed in the wrong order is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"


def check(page: str) -> Reader:
    """Return what was read of a page that holds all rules."""
    assert len(page.encode()) < BYTES_MAX
    assert page.startswith("<!doctype html>")
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    tags = [tag for tag, _ in reader.seen]
    assert ("html", {"lang": "en"}) in reader.seen
    assert tags.count("h1") == tags.count("main") == page.count("<title>", 0, page.index("<body>")) == 1
    assert "script" not in tags
    assert not re.search(r'(?:src|href)="(?!#)|@import|url\((?!#)', page)
    ids = [found["id"] for _, found in reader.seen if "id" in found]
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page)) <= set(ids)
    assert page.index('class="verdict') < min(page.index(part) for part in ("<main", "<time"))
    for figure in re.findall(r"<figure>.*?</figure>", page, re.DOTALL):
        assert "<figcaption>" in figure
        assert "<table>" in figure
        assert figure.count('role="img" aria-label="') == figure.count("<svg ") == 2
    assert all(found.get("tabindex") == "0" for tag, found in reader.seen if found.get("role") == "region")
    return reader

"""The docs as a site (`mkdocs.yml`): a strict build without the network, in which nothing is fetched from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from .test_docs import ROOT

OFFLINE = """
import socket, sys
def refused(*_): raise SystemExit("the build uses the network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refused
from mkdocs.__main__ import cli
cli(sys.argv[1:])
"""
FETCHED = re.compile(r"""<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=["']?(https?:)?//[^>]*>""")
"""An element for which a browser asks another host as soon as it shows the page."""


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", OFFLINE, "build", "--config-file", str(config), "--site-dir", str(site)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="needs the extra [docs]")
    directory = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def listed(nav: object) -> Iterator[str]:
    """Return the pages of mkdocs' `nav`."""
    if isinstance(nav, str):
        yield nav
    else:
        for item in nav.values() if isinstance(nav, dict) else nav:
            yield from listed(item)


def test_every_page_is_in_the_navigation() -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    nav = list(listed(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert len(nav) == len(set(nav))
    assert set(nav) - pages == {"contributing.md", "changelog.md"}, "those that docs/site_hooks.py makes"
    assert pages - set(nav) == set()


@pytest.mark.slow
def test_a_browser_asks_no_other_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    assert [(page.name, found.group()) for page in pages for found in FETCHED.finditer(page.read_text())] == []
    assert [sheet.name for sheet in site.rglob("*.css") if "url(http" in sheet.read_text()] == []


@pytest.mark.slow
def test_files_of_the_root_are_pages_and_links_lead_to_them(site: Path) -> None:
    assert "How to add a tier plugin" in (site / "contributing.html").read_text()
    assert "contributing.html#how-to-add-a-tier-plugin" in (site / "plugins.html").read_text()
    assert not (site / "site_hooks.py").exists()


@pytest.mark.slow
@pytest.mark.parametrize("link", ["nowhere.md", "index.md#nowhere"])
def test_a_broken_link_fails_the_build(tmp_path: Path, link: str) -> None:
    pytest.importorskip("material", reason="needs the extra [docs]")
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Page\n\n[a link]({link})\n")
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump({**config, "nav": ["index.md"], "hooks": []}))
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert "nowhere" in done.stderr

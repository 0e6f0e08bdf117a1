"""The generated pages of `docs/` are those of the code, and say of it what their readers look for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierfetch.broker.config.broker_config import DYNAMIC_KEYS, KEYS
from tierfetch.cli.reference import PAGES, apis_page, commands_page, configs_page
from tierfetch.cli.reference.tables import table
from tierfetch.log.core import TOPIC_CONFIG_TYPES
from tierfetch.protocol.api import ApiKey
from tierfetch.quorum import CONTROLLER_KEYS
from tierfetch.tests.command_tree import commands

DOCS = Path(__file__).resolve().parents[2] / "docs"


def rows(page: str, section: str) -> list[list[str]]:
    """Return the cells of the table of a section, without its head."""
    lines = page.split(f"## {section}\n")[1].split("\n## ")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_that_of_the_code(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), "run python -m tierfetch.cli.reference"


def test_a_page_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    before = commands_page()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TIERFETCH_BOOTSTRAP", "elsewhere:1")
    monkeypatch.setenv("HOME", "/nowhere")
    assert commands_page() == before


def test_every_command_has_its_section() -> None:
    headings = [line.split(" ", 2)[2] for line in commands_page().splitlines() if line.startswith(("## ", "### "))]
    assert headings == [" ".join(path) for path in commands()]


def test_every_key_has_its_row() -> None:
    page = configs_page()
    brokers = {row[0].strip("`"): row for row in rows(page, "Brokers")}
    assert set(brokers) == KEYS
    assert {key for key, row in brokers.items() if row[-1] == "yes"} == DYNAMIC_KEYS
    assert {row[0].strip("`") for row in rows(page, "Controllers")} == CONTROLLER_KEYS
    assert {row[0].strip("`") for row in rows(page, "Topics")} == set(TOPIC_CONFIG_TYPES)


@pytest.mark.parametrize(
    ("key", "row"),
    [
        ("broker.heartbeat.interval.ms", ["int", "`2000`", "from 1 to 2^31-1", ""]),
        (
            "compression.type",
            ["string", "`producer`", "`producer`, `uncompressed`, `gzip`, `snappy`, `lz4`, `zstd`", "yes"],
        ),
        ("log.cleaner.io.max.bytes.per.second", ["double", "no limit", "above 0", ""]),
        ("log.dirs", ["list", "required", "", ""]),
        ("log.retention.ms", ["long", "none", "from -1 to 2^63-1", "yes"]),
        ("metrics.port", ["int", "none", "from 0 to 65535", ""]),
    ],
)
def test_a_row_of_a_broker_key(key: str, row: list[str]) -> None:
    assert [found[1:] for found in rows(configs_page(), "Brokers") if found[0] == f"`{key}`"] == [row]


def test_every_api_has_its_row() -> None:
    assert "| 3 | Metadata | 0 to 13 | from 9 on |\n" in apis_page()
    assert apis_page().count("\n| ") == len(ApiKey) + 2


def test_a_cell_may_hold_a_bar() -> None:
    assert table(("a", "b"), [("[x|y]", "z")]) == "| a | b |\n| --- | --- |\n| [x\\|y] | z |\n"

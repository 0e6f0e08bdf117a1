"""docs/configuration.md names every key, and marks the dynamic ones."""

from __future__ import annotations

import re
from pathlib import Path

from tierfetch.broker.config.broker_config import DYNAMIC_KEYS, KEYS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text()
ROWS = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `")]


def named() -> dict[str, bool]:
    """Keys in the first column, and whether they are marked; `.suffix` stands for the row's first key with that end."""
    found: dict[str, bool] = {}
    for row in ROWS:
        first = ""
        for name, mark in re.findall(r"`([^`]+)`( \*\*d\*\*)?", row):
            first = first or name
            key = _with_suffix(first, name) if name.startswith(".") else name
            found[key] = bool(mark) or found.get(key, False)
    return found


def _with_suffix(first: str, suffix: str) -> str:
    """`a.b.ms` and `.hours` make `a.b.hours`: the longest key that begins as `first` does and ends so."""
    candidates = [key for key in KEYS if key.endswith(suffix)]
    return max(candidates, key=lambda key: len([1 for a, b in zip(key, first, strict=False) if a == b]), default=suffix)


def test_every_key_is_there() -> None:
    documented = set(named()) | {"remote.log.storage.manager.class.name"}
    assert KEYS - documented == set()


def test_dynamic_keys_are_marked() -> None:
    assert {name for name, is_dynamic in named().items() if is_dynamic} == DYNAMIC_KEYS

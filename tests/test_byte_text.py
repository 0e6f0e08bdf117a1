"""Bytes as people read them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.byte_text import rate, size
from tierfetch.model.units import parse_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (149, "149 B"),
        (999.4, "999 B"),
        (1000, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (19_600_000, "18.7 MiB"),
        (256 << 30, "256 GiB"),
        (3 << 40, "3.0 TiB"),
        (5_000 << 50, "5,000 PiB"),
    ],
)
def test_one_unit_system(count: float, text: str) -> None:
    assert size(count) == text
    assert rate(count) == f"{text}/s"


@given(st.integers(0, 10**18))
def test_what_is_shown_is_read_back_within_its_digits(count: int) -> None:
    assert float(str(parse_bytes(size(count)))) == pytest.approx(count, rel=0.06, abs=0.5)


def test_every_unit_is_one_of_1024() -> None:
    shown = {re.sub(r"[\d.,]+ ", "", size(10**power)) for power in range(18)}
    assert shown == {"B", "KiB", "MiB", "GiB", "TiB", "PiB"}


ROOT = Path(__file__).resolve().parent.parent
ELSEWHERE = ("tests", "bench", "build", "docs")
OTHER_UNIT = re.compile(r"^ ?([kKMGTP]B|bytes?/s)\b")


def values_with_units(tree: ast.Module) -> list[int]:
    """Return the lines of f-strings that put a unit of another system behind a value."""
    return [
        part.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for before, part in zip(node.values, node.values[1:], strict=False)
        if isinstance(before, ast.FormattedValue)
        and isinstance(part, ast.Constant)
        and OTHER_UNIT.match(str(part.value))
    ]


def test_what_counts_as_a_unit_of_another_system() -> None:
    assert values_with_units(ast.parse('f"{x:.1f} MB read"')) == [1]
    assert values_with_units(ast.parse('f"{x} bytes/s"')) == [1]
    assert values_with_units(ast.parse('f"{x} MiB"')) == [], "a table with one unit for a column"
    assert values_with_units(ast.parse('f"{size(x)} read, {n} bytes"')) == []


def test_no_message_has_a_unit_of_another_system() -> None:
    """`size` and `rate` write bytes; plain counts of bytes in messages about a file's content say "bytes"."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in ROOT.iterdir()
        if (folder / "__init__.py").exists() and folder.name not in ELSEWHERE
        for path in folder.rglob("*.py")
        for line in values_with_units(ast.parse(path.read_text()))
    ]
    assert found == []

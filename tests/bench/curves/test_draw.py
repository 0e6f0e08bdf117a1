"""A picture has every quantity, and the same values make the same bytes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib of the extras is not installed")

from tierfetch.bench.curves.draw import draw, terse

CURVES = {
    "created, s": {"tierfetch": {1: 0.1, 10: 0.2, 100: 3.0}, "kafka": {1: 0.3, 10: math.nan}},
    "produce, MB/s": {"tierfetch": {1: 90.0, 10: 91.0, 100: 0.0}},
    "memory, <MiB>": {"tierfetch": {1: 60.0}},
    "failover, s": {"tierfetch": {1: 1.0}, "kafka": {1: 9.0}},
}


def test_a_picture_has_a_field_for_each_quantity(tmp_path: Path) -> None:
    draw(tmp_path / "new" / "a.svg", "partitions", CURVES, "2 cores")
    text = (tmp_path / "new" / "a.svg").read_text()
    for named in ("created, s", "produce, MB/s", "memory, &lt;MiB&gt;", "failover, s", "tierfetch", "kafka", "2 cores"):
        assert named in text


def test_the_same_values_make_the_same_bytes(tmp_path: Path) -> None:
    pictures = []
    for name in ("a.svg", "b.svg"):
        draw(tmp_path / name, "partitions", CURVES, "2 cores")
        pictures.append((tmp_path / name).read_bytes())
    assert pictures[0] == pictures[1]


def test_a_line_along_an_axis_has_one_number() -> None:
    path = "M 0.123 1.06 \nL 5 1.08 \nL 5 7 \nL 6 8 \nL 0.123 1.06 \nz\nM 0 9 \nC 1 1 2 2 3 9 \nL 4 9 \n"
    assert terse(f'<path id="a" d="{path}"/>') == '<path id="a" d="M0.1 1.0H5V7L6 8L0.1 1.0zM0 9C1 1 2 2 3 9H4"/>'

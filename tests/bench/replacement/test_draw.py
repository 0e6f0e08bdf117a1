"""The picture has a column for each case, a layer for each state, and the same bytes for the same values."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib of the extras is not installed")

from tierfetch.bench.replacement.draw import Picture, draw, merged_steps
from tierfetch.bench.replacement.states import State

OURS = Picture(
    "ours, option <on>",
    {State.STARTS.value: [3.0, 1.0, 0.0], State.FETCHES.value: [0.0, 2.0, 0.0], State.IN_ISR.value: [0.0, 0.0, 3.0]},
    {"leader": [0.0, 0.5, 0.2], "follower": [1.0, 1.5, 0.1]},
)
LONGER = Picture("kafka", {State.NOT_SEEN.value: [3.0] * 9}, {"leader": [0.1] * 9})


def test_a_picture_has_a_column_for_each_case(tmp_path: Path) -> None:
    draw(tmp_path / "new" / "a.svg", [OURS, LONGER], "2 cores")
    text = (tmp_path / "new" / "a.svg").read_text()
    named = ("ours, option &lt;on&gt;", "kafka", "2 cores", "leader", "follower", "partitions", "cores in use")
    for each in (*named, State.STARTS.value, State.FETCHES.value, State.IN_ISR.value, State.NOT_SEEN.value):
        assert f">{each}<" in text, each
    assert State.ASKS.value not in text


def test_the_same_values_make_the_same_bytes(tmp_path: Path) -> None:
    pictures = []
    for name in ("a.svg", "b.svg"):
        draw(tmp_path / name, [OURS], "2 cores")
        pictures.append((tmp_path / name).read_bytes())
    assert pictures[0] == pictures[1]


def test_equal_neighbours_are_one_step() -> None:
    edges, values = merged_steps([2.0, 2.0, 3.0, 2.0])
    assert edges == pytest.approx([0.0, 0.02, 0.03, 0.04])
    assert values == [2.0, 3.0, 2.0]

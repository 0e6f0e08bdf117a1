"""Charts: no text covers another at either width, names are escaped, axes span decades where values do."""

from __future__ import annotations

from html import escape
from itertools import combinations

import pytest

from tierfetch.pages import LOOKS, Bars, Boxes, Lines, Markup, Points, Series, chart, percent, policy_look, topic_looks
from tierfetch.pages import charts as drawn
from tierfetch.pages.charts import Drawing, plain_number
from tierfetch.pages.shapes import round_times, thinned
from tierfetch.pages.style import DARK_BACKGROUND, LIGHT_BACKGROUND, contrast, shortened

pytest.importorskip("matplotlib", reason="matplotlib of the extras is not installed")
NAMES = ["orders", "a-topic-whose-name-is-far-too-long-for-a-label-of-a-narrow-chart", "$x^2$ <b>", "eu.clicks.v2"]


def text(value: float) -> str:
    return f"{value:,.4g}"


SHAPES = {
    "bars over decades": Bars(NAMES, [Series("n", LOOKS[0], [3, 40, 500, 900_000])], "bytes", text),
    "bars side by side": Bars(
        NAMES, [Series("a", LOOKS[0], [3, 4, 5, 9]), Series("b", LOOKS[1], [0, 1, 2, 3])], "s", text
    ),
    "stacked bars": Bars(
        NAMES, [Series(name, LOOKS[at], [at + 1.0] * 4) for at, name in enumerate(NAMES)], "MiB", text, is_stacked=True
    ),
    "lines": Lines(
        [Series(name, LOOKS[at], [9, 5, 1, 0], [1, 60, 4000, 90_000]) for at, name in enumerate(NAMES)],
        "time", "partitions", text, text, is_log_x=True, is_time=True,
    ),
    "boxes": Boxes(["6", "1,000"], [("with", LOOKS[0], [[1, 2, 9], [5, 70, 800]])], "brokers", "time", text),
    "points": Points([Series("100% tiered", LOOKS[0], [0.1, 0.5], [0.2, 0.4])], "data", "time", percent, (0.1, 0.15)),
}  # fmt: skip


@pytest.fixture
def overlaps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Pairs of texts of the charts drawn in a test that cover each other, or a text and the edge of the drawing."""
    found: list[tuple[str, str]] = []
    write = drawn._svg

    def measured(figure, name: str, alt: str) -> str:
        from matplotlib.text import Text

        written = write(figure, name, alt)
        renderer = figure._get_renderer()
        texts = [each for each in figure.findobj(Text) if each.get_visible() and each.get_text()]
        shown = [each for each in texts if f">{escape(each.get_text(), quote=False)}</text>" in written]
        assert shown
        boxes = [(each.get_text(), each.get_window_extent(renderer).padded(-1)) for each in shown]
        found.extend((one, other) for (one, a), (other, b) in combinations(boxes, 2) if a.overlaps(b))
        found.extend((one, "the edge") for one, a in boxes if a.x0 < 0 or a.x1 > figure.bbox.x1 or a.y0 < 0)
        return written

    monkeypatch.setattr(drawn, "_svg", measured)
    return found


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_no_text_covers_another_and_none_is_markup(shape, overlaps: list[tuple[str, str]]) -> None:
    written = chart("caption", "what <it> shows", shape, Markup("<table></table>")).html
    assert overlaps == []
    assert "<b>" not in written
    assert "what &lt;it&gt; shows" in written
    assert len(written) < 60_000


def test_the_check_sees_texts_that_cover_each_other(overlaps: list[tuple[str, str]]) -> None:
    def crowded(to: Drawing) -> None:
        to.axes.text(0.5, 0.5, "one")
        to.axes.text(0.51, 0.5, "other")

    chart("caption", "alt", crowded, Markup(""))
    assert ("one", "other") in overlaps


def test_an_axis_is_logarithmic_if_values_span_decades() -> None:
    assert "(logarithmic)" in chart("c", "a", SHAPES["bars over decades"], Markup("")).html
    assert "(logarithmic)" not in chart("c", "a", SHAPES["bars side by side"], Markup("")).html


def test_colours_can_be_seen_on_both_backgrounds_and_are_not_the_only_sign() -> None:
    for look in LOOKS:
        assert min(contrast(look.color, LIGHT_BACKGROUND), contrast(look.color, DARK_BACKGROUND)) >= 3
    assert len({look.color for look in LOOKS}) == len({look.marker for look in LOOKS}) == len(LOOKS)
    assert len({look.hatch for look in LOOKS}) == len(LOOKS)


def test_a_policy_and_a_topic_keep_their_look() -> None:
    assert policy_look("tier-first") == policy_look("tier-first") != policy_look("kafka")
    alone, among = topic_looks(["orders"]), topic_looks(["orders", "clicks"])
    assert len(set(among.values())) == 2
    assert alone["orders"] in among.values()
    assert len(topic_looks(f"t{number}" for number in range(25))) == 25


def test_small_helpers() -> None:
    assert shortened("abcdefghij", 5) == "ab…ij"
    assert shortened("abc", 5) == "abc"
    assert round_times(7200, 4) == [0, 1800, 3600, 5400, 7200]
    assert thinned([1, 2, 3], 5) == [1, 2, 3]
    assert thinned(list(range(1000)), 10)[-1] == 999


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.25, "0.25"), (9.5, "9.5"), (999.94, "999.9"), (10_000, "10,000"), (1e6, "1,000,000")],
)
def test_a_number_at_an_axis_has_no_exponent(value: float, text: str) -> None:
    assert plain_number(value) == text

"""Charts for the pages of reports, by plotly: one look, and its script in the page once, so that it needs no net."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...extras import needing
from .page import Markup

COLORS: Final = (
    "#4c78a8",
    "#f58518",
    "#54a24b",
    "#b279a2",
    "#e45756",
    "#72b7b2",
    "#eeca3b",
    "#9d755d",
    "#ff9da6",
    "#79706e",
)
ROW_PX: Final = 30


def charts(figures: Sequence[Any]) -> list[Markup]:
    """Each figure as a part of a page, in their order. MissingExtraError without plotly."""
    with needing("spark"):
        from plotly.io import to_html
    config = {"displayModeBar": False, "responsive": True}
    return [
        Markup(to_html(figure, config=config, full_html=False, include_plotlyjs=index == 0))
        for index, figure in enumerate(figures)
    ]


def styled(figure: Any, *, height: int, x_title: str = "", y_title: str = "") -> Any:
    """The figure in the look of the pages."""
    figure.update_layout(
        template="plotly_white",
        font={"size": 14, "family": 'system-ui, "Segoe UI", "Liberation Sans", sans-serif'},
        height=height,
        margin={"t": 30, "r": 30, "b": 50, "l": 60},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        bargap=0.3,
        hoverlabel={"namelength": -1},
    )
    figure.update_xaxes(title=x_title, automargin=True)
    figure.update_yaxes(title=y_title, automargin=True)
    return figure


def row_height(rows: int) -> int:
    """Pixels of a chart with a horizontal bar for each of `rows`."""
    return 120 + ROW_PX * max(2, rows)

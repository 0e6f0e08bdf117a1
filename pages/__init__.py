"""Pages that commands write: one HTML file each, that needs nothing else; the same look everywhere.

style    has the stylesheet, and the colours of policies and topics.
made     says when, by which version and by which command line a page was made, without secrets.
frame    makes a document of a title, a verdict, tiles, sections and tables, and escapes what comes from outside.
charts   draws a chart as SVG beside its table.
shapes   draws bars, lines, boxes and points.
"""

from .charts import chart, plain_number, rounded, rows_height
from .frame import (
    Cell,
    Markup,
    Tile,
    Tone,
    bullets,
    folded,
    glossary,
    mark,
    moment,
    page,
    paragraph,
    percent,
    quiet,
    section,
    table,
    tiles,
    verdict,
)
from .made import Made, redacted
from .shapes import Bars, Boxes, Lines, Points, Series
from .style import AFTER, BEFORE, LOOKS, REST, STYLE, Look, policy_look, spans_decades, topic_looks

__all__ = [
    "AFTER",
    "BEFORE",
    "LOOKS",
    "REST",
    "STYLE",
    "Bars",
    "Boxes",
    "Cell",
    "Lines",
    "Look",
    "Made",
    "Markup",
    "Points",
    "Series",
    "Tile",
    "Tone",
    "bullets",
    "chart",
    "folded",
    "glossary",
    "mark",
    "moment",
    "page",
    "paragraph",
    "percent",
    "plain_number",
    "policy_look",
    "quiet",
    "redacted",
    "rounded",
    "rows_height",
    "section",
    "spans_decades",
    "table",
    "tiles",
    "topic_looks",
    "verdict",
]

"""The frame of the reports that jobs, and commands with a report of their own, write as HTML.

page    frames a report as one self-contained HTML file.
charts  draws the charts of the reports.
"""

from __future__ import annotations

from .charts import COLORS, charts, row_height, styled
from .page import Cell, Markup, Tile, Tone, mark, moment, page, paragraph, percent, section, table, tiles, verdict

__all__ = [
    "COLORS",
    "Cell",
    "Markup",
    "Tile",
    "Tone",
    "charts",
    "mark",
    "moment",
    "page",
    "paragraph",
    "percent",
    "row_height",
    "section",
    "styled",
    "table",
    "tiles",
    "verdict",
]

"""Charts as SVG inside a page, drawn by matplotlib: each beside the table of its values.

A chart is drawn twice, for a narrow screen and a wide one, so that its text is never scaled below what can be read; the
stylesheet shows one. Text and lines that are not data have the colours of the page, light or dark. Names come from
outside: matplotlib escapes them, and reads no mathematics in them.
"""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from zlib import crc32

from ..light_dataclass import dataclass
from .frame import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

THOUSAND: Final = 1000
WIDE: Final = 720
NARROW: Final = 360
"""Units of the drawing, which are pixels where it is not scaled."""
FONT_SIZE: Final = 12.0
TEXT: Final = "#010203"
GRID: Final = "#020304"
"""Stand for the colours of the page, which replace them in the SVG."""
_STYLE: Final[dict[RcKeyType, object]] = {
    "svg.fonttype": "none",
    "font.size": FONT_SIZE,
    "font.family": ["DejaVu Sans"],
    "text.parse_math": False,
    "axes.unicode_minus": False,
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.edgecolor": GRID,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": TEXT,
    "ytick.labelcolor": TEXT,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": FONT_SIZE,
    "axes.titlesize": FONT_SIZE,
    "figure.dpi": 72,
}


def plain_number(value: float) -> str:
    """Return a value at an axis or a bar: four digits, none left out of large ones: "0.25", "9.5", "10,000"."""
    return f"{value:,.0f}" if abs(value) >= THOUSAND else f"{value:.4g}"


@dataclass(frozen=True, slots=True)
class Drawing:
    """The figure, its axes, and whether it is the narrow one."""

    figure: Figure
    axes: Axes
    is_narrow: bool


def chart(caption: str, alt: str, draw: Callable[[Drawing], None], values: Markup, *, height: int = 320) -> Markup:
    """Return a figure: caption, picture (`height` units high, described by `alt`), and the table of its values.

    Raises ModuleNotFoundError without matplotlib.
    """
    pictures = "".join(_picture(draw, is_narrow, height, caption, alt) for is_narrow in (False, True))
    return Markup(
        f"<figure>\n<figcaption>{html.escape(caption)}</figcaption>\n<div>{pictures}</div>\n{values.html}\n</figure>"
    )


def rows_height(rows: int, bars: int = 1) -> int:
    """Return the height of a chart with so many rows of horizontal bars."""
    return 110 + max(2, rows) * (14 + 16 * bars)


def _picture(draw: Callable[[Drawing], None], is_narrow: bool, height: int, caption: str, alt: str) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    width = NARROW if is_narrow else WIDE
    name = f"c{crc32(repr((caption, alt, is_narrow)).encode('utf-8', 'replace')):08x}"
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
        axes = figure.add_subplot()
        draw(Drawing(figure, axes, is_narrow))
        return f'<div class="{"at-narrow" if is_narrow else "at-wide"}">{_svg(figure, name, alt)}</div>'


def _svg(figure: Figure, name: str, alt: str) -> str:
    """Return the drawing without what a page has no use for: header, metadata, ids of groups, digits below a pixel."""
    written = io.StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    text = written.getvalue()
    text = text[text.index("<svg") :]
    view = re.search(r'viewBox="[^"]*"', text)
    assert view is not None
    body = text[text.index(">") + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{name}", body).replace("xlink:href", "href")
    body = rounded(body)
    body = body.replace(TEXT, "var(--text)").replace(GRID, "var(--quiet)").replace("'DejaVu Sans'", "var(--sans)")
    body = re.sub(r' transform="rotate\(-0 [^"]*"| clip-path="[^"]*"', "", body)
    body = re.sub(r"\s*\n\s*", " ", body)
    return f'<svg {view.group()} role="img" aria-label="{html.escape(alt)}">{body}'.rstrip()


def rounded(svg: str) -> str:
    """Return a drawing without the digits below a tenth of a pixel."""
    return re.sub(r'(?<= )(d|x|y|transform|points|width|height)="[^"]*"', _rounded, svg)


def _rounded(attribute: re.Match[str]) -> str:
    return re.sub(r"(\.\d)\d+", r"\1", attribute.group()) if "matrix" not in attribute.group() else attribute.group()

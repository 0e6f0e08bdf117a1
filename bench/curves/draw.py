"""The curves of an axis as one SVG: a field for each quantity, both axes logarithmic, a line for each system.

A dotted line stands where a curve bends. The same values make the same bytes.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tierfetch.pages import LOOKS, plain_number, rounded

from .bends import bend
from .points import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

COLUMNS: Final = 3
FIELD_INCHES: Final = (4.2, 2.8)
STYLE: Final[dict[RcKeyType, object]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "bench",
    "font.size": 9.0,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
}


def draw(path: Path, axis: str, quantities: Mapping[str, Mapping[str, Curve]], note: str) -> None:
    """Write the picture. ModuleNotFoundError without matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = -(-len(quantities) // COLUMNS)
    width, height = FIELD_INCHES
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(COLUMNS * width, rows * height + 0.4), layout="constrained")
        fields = figure.subplots(rows, COLUMNS, squeeze=False).flat
        for (quantity, by_system), field in zip(quantities.items(), fields, strict=False):
            _draw_field(field, axis, quantity, by_system)
        for field in list(fields):
            field.set_visible(False)
        figure.suptitle(note)
        save(figure, path)


def _draw_field(field: Axes, axis: str, quantity: str, by_system: Mapping[str, Curve]) -> None:
    for (system, curve), look in zip(by_system.items(), LOOKS, strict=False):
        shown = {count: value for count, value in curve.items() if value > 0}  # nan is not
        field.plot(list(shown), list(shown.values()), color=look.color, marker=look.marker, label=system)
        bent = bend(quantity, curve)
        if bent is not None:
            field.axvline(bent, color=look.color, linestyle=":", linewidth=1)
    field.set_xscale("log")
    field.set_yscale("log")
    for one in (field.xaxis, field.yaxis):
        one.set_major_formatter(lambda value, _: plain_number(value))
        one.set_minor_formatter(lambda *_: "")
    _show_a_decade(field)
    field.set_title(quantity)
    field.set_xlabel(axis)
    field.grid(alpha=0.3)
    field.legend()


def _show_a_decade(field: Axes) -> None:
    """Let the values' axis span a decade at least: what is flat looks flat."""
    low, high = field.get_ylim()
    if high < 10 * low:
        middle = math.sqrt(low * high)
        field.set_ylim(middle / math.sqrt(10), middle * math.sqrt(10))


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, without metadata."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(terse(written.getvalue()))


def terse(svg: str) -> str:
    """Return the same drawing in fewer bytes: most of a long one is steps, whose lines are along an axis."""
    return re.sub(r'(?<= )d="([^"]*)"', lambda path: f'd="{"".join(_commands(path[1]))}"', rounded(svg))


def _commands(path: str) -> Iterator[str]:
    """Yield the commands of a path as matplotlib writes it, each on a line; a line along an axis has one number."""
    at: list[str] = []
    for line in path.splitlines():
        command, *numbers = line.split()
        if command == "L" and numbers[:1] == at[:1]:
            yield f"V{numbers[1]}"
        elif command == "L" and numbers[1:] == at[1:]:
            yield f"H{numbers[0]}"
        else:
            yield command + " ".join(numbers)
        at = numbers[-2:]

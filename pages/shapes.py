"""The shapes that charts have: bars, lines, boxes, points. Each decides its axis, and draws a series by its look."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from ..light_dataclass import dataclass
from .charts import GRID, Drawing
from .style import Look, shortened, spans_decades

if TYPE_CHECKING:
    from matplotlib.axis import Axis

POINTS_MAX: Final = 400
"""Points of a series that are drawn; more look the same and make the page large."""
ROOM_FOR_LABELS: Final = 0.3
"""Share of the axis right of the longest bar, where its value stands."""
HATCH: Final = "#ffffff"
CODES: Final = (1, 2, 2, 2, 79)
"""The codes of a closed rectangle in matplotlib's paths: begin, three lines, close."""
_TIMES: Final = (
    (0.001, "1 ms"),
    (0.01, "10 ms"),
    (0.1, "0.1 s"),
    (1, "1 s"),
    (10, "10 s"),
    (60, "1 min"),
    (600, "10 min"),
    (3600, "1 h"),
    (6 * 3600, "6 h"),
    (86_400, "1 d"),
    (7 * 86_400, "7 d"),
    (30 * 86_400, "30 d"),
    (365 * 86_400, "1 y"),
    (3650 * 86_400, "10 y"),
)


@dataclass(frozen=True, slots=True)
class Series:
    """Values with a name and a look; `xs` where the values are not one a row, `x_band` the range of each of these."""

    name: str
    look: Look
    values: Sequence[float]
    xs: Sequence[float] = ()
    is_main: bool = False
    x_band: tuple[Sequence[float], Sequence[float]] | None = None


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars, a row for each name; several series stand beside each other or are stacked.

    The axis is logarithmic if the values span decades and are not stacked. `row_looks` and
    `labels` are for one series alone; with labels of their own, bars need no ticks. `spans` are drawn as a line over
    each bar of the one series: where its end may be.
    """

    rows: Sequence[str]
    series: Sequence[Series]
    axis: str
    label: Callable[[float], str]
    row_looks: Sequence[Look] = ()
    is_stacked: bool = False
    limit: float | None = None
    labels: Sequence[str] = ()
    spans: Sequence[tuple[float, float]] = ()

    @property
    def is_log(self) -> bool:
        return not self.is_stacked and spans_decades([value for one in self.series for value in one.values])

    def __call__(self, to: Drawing) -> None:
        axes = to.axes
        left = self._left()
        thick = 0.72 if self.is_stacked else 0.72 / max(1, len(self.series))
        base = [left] * len(self.rows)
        for number, one in enumerate(self.series):
            shift = 0.0 if self.is_stacked else (number - (len(self.series) - 1) / 2) * thick
            ends = [base[row] + value if self.is_stacked else value for row, value in enumerate(one.values)]
            boxes = [(base[row], max(base[row], end), row + shift) for row, end in enumerate(ends)]
            if self.row_looks:
                for look, box in zip(self.row_looks, boxes, strict=True):
                    _fill(to, look, [box], thick * 0.9, "_")
            else:
                _fill(to, one.look, boxes, thick * 0.9, one.name)
            if self.is_stacked:
                base = ends
                continue
            for row, (low, high) in enumerate(self.spans):
                axes.hlines(row + shift, max(left, low), max(left, high), color=GRID, linewidth=2.5, zorder=4)
            for row, value in enumerate(one.values):
                text = self.labels[row] if self.labels else self.label(value)
                end = max(left, value, self.spans[row][1] if self.spans else left)
                axes.annotate(text, (end, row + shift), (4, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(self.rows)), [shortened(row, 16 if to.is_narrow else 32) for row in self.rows])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(self.rows) - 0.4, -0.6)
        values = base if self.is_stacked else [value for one in self.series for value in one.values]
        values = [*values, *(high for _, high in self.spans)]
        self._scale(to, left, max(values, default=0.0))
        if self.limit is not None:
            axes.axvline(self.limit, color=GRID, linestyle=":", linewidth=1.5)
        if len(self.series) > 1:
            legend(to, len(self.series))

    def _left(self) -> float:
        """Return where bars begin: zero, or a whole decade below the smallest."""
        if not self.is_log:
            return 0.0
        smallest = min(value for one in self.series for value in one.values if value > 0)
        return float(10.0 ** (math.floor(math.log10(smallest)) - (0 if math.log10(smallest) % 1 > 0.1 else 1)))

    def _scale(self, to: Drawing, left: float, most: float) -> None:
        axes = to.axes
        if self.is_log:
            axes.set_xscale("log")
            room = ROOM_FOR_LABELS * (1.9 if to.is_narrow else 1.0)
            axes.set_xlim(left, left * (most / left) ** (1 + room))
        else:
            room = 0.02 if self.is_stacked else ROOM_FOR_LABELS * (1.9 if to.is_narrow else 1.0)
            axes.set_xlim(0, max(most, self.limit or 0.0) * (1 + room) or 1.0)
        if self.labels:
            axes.set_xticks([])
            axes.minorticks_off()
        else:
            ticks(to, axes.xaxis, self.label, is_log=self.is_log, most=4 if to.is_narrow else 7)
        axes.set_xlabel(f"{self.axis} (logarithmic)" if self.is_log else self.axis)
        axes.grid(axis="x", alpha=0.5)


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over a number; `is_step` keeps a value until the next."""

    series: Sequence[Series]
    x_axis: str
    y_axis: str
    x_label: Callable[[float], str]
    y_label: Callable[[float], str]
    is_step: bool = True
    is_log_x: bool = False
    is_time: bool = False
    x_range: tuple[float, float] | None = None
    band: tuple[float, float] | None = None

    def __call__(self, to: Drawing) -> None:
        axes = to.axes
        if self.band is not None:
            axes.axvspan(*self.band, color=GRID, alpha=0.25, linewidth=0)
        for one in self.series:
            xs, ys = thinned(one.xs), thinned(one.values)
            if one.x_band is not None:
                low, high = map(thinned, one.x_band)
                axes.fill_betweenx(ys, low, high, color=one.look.color, alpha=0.18, linewidth=0, zorder=1)
            axes.plot(
                xs,
                ys,
                color=one.look.color,
                linestyle=one.look.dash,
                marker=one.look.marker,
                markersize=5,
                markevery=max(1, len(xs) // 6),
                linewidth=3 if one.is_main else 1.8,
                label=one.name,
                drawstyle="steps-post" if self.is_step else "default",
                zorder=3 if one.is_main else 2,
            )
        if self.is_log_x:
            axes.set_xscale("log")
        if self.x_range is not None:
            axes.set_xlim(*self.x_range)
        axes.set_ylim(bottom=0)
        ticks(to, axes.xaxis, self.x_label, is_log=self.is_log_x, most=4 if to.is_narrow else 8, is_time=self.is_time)
        ticks(to, axes.yaxis, self.y_label, is_log=False, most=6)
        axes.set_xlabel(f"{self.x_axis} (logarithmic)" if self.is_log_x else self.x_axis)
        axes.set_ylabel(self.y_axis)
        axes.grid(alpha=0.5)
        legend(to, len(self.series))


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes of several series for each group: the middle half, the median, the range; logarithmic."""

    groups: Sequence[str]
    series: Sequence[tuple[str, Look, Sequence[Sequence[float]]]]
    x_axis: str
    y_axis: str
    y_label: Callable[[float], str]

    def __call__(self, to: Drawing) -> None:
        axes, wide = to.axes, 0.7 / max(1, len(self.series))
        for number, (name, look, groups) in enumerate(self.series):
            shift = (number - (len(self.series) - 1) / 2) * wide
            found = axes.boxplot(
                [list(group) for group in groups],
                positions=[at + shift for at in range(len(groups))],
                widths=wide * 0.8,
                whis=(0, 100),
                showfliers=False,
                patch_artist=True,
                manage_ticks=False,
                medianprops={"color": GRID, "linewidth": 2},
            )
            for box in found["boxes"]:
                box.set(facecolor=look.color, hatch=look.hatch, edgecolor=GRID)
            for line in (*found["whiskers"], *found["caps"]):
                line.set(color=look.color)
            axes.bar([0], [0], color=look.color, hatch=look.hatch, edgecolor=GRID, label=name)
        axes.set_yscale("log")
        axes.set_xticks(range(len(self.groups)), list(self.groups))
        axes.set_xlim(-0.6, len(self.groups) - 0.4)
        ticks(to, axes.yaxis, self.y_label, is_log=True, most=6)
        axes.set_xlabel(self.x_axis)
        axes.set_ylabel(f"{self.y_axis} (logarithmic)")
        axes.grid(axis="y", alpha=0.5)
        legend(to, len(self.series))


@dataclass(frozen=True, slots=True)
class Points:
    """Points of series in a plane of two shares, with the diagonal and a square that is of interest."""

    series: Sequence[Series]
    x_axis: str
    y_axis: str
    label: Callable[[float], str]
    square: tuple[float, float] | None = None
    most: float = field(default=1.05)

    def __call__(self, to: Drawing) -> None:
        axes = to.axes
        axes.plot([0, self.most], [0, self.most], color=GRID, linestyle=":", linewidth=1.2)
        if self.square is not None:
            low, high = self.square
            axes.fill([low, high, high, low], [low, low, high, high], color=GRID, alpha=0.25)
        each = max(1, POINTS_MAX // max(1, len(self.series)))
        for one in self.series:
            axes.plot(
                thinned(one.xs, each),
                thinned(one.values, each),
                linestyle="",
                marker=one.look.marker,
                markersize=5,
                color=one.look.color,
                alpha=0.7,
                label=one.name,
                markeredgewidth=0,
            )
        axes.set_xlim(0, self.most)
        axes.set_ylim(0, self.most)
        for axis in (axes.xaxis, axes.yaxis):
            ticks(to, axis, self.label, is_log=False, most=5)
        axes.set_xlabel(self.x_axis)
        axes.set_ylabel(self.y_axis)
        axes.grid(alpha=0.5)
        legend(to, len(self.series))


def _fill(to: Drawing, look: Look, boxes: Sequence[tuple[float, float, float]], thick: float, name: str) -> None:
    """Bars as one shape, from start to end at a height each: many elements would make the page large."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    corners = [
        Path(
            [(start, at - thick / 2), (end, at - thick / 2), (end, at + thick / 2), (start, at + thick / 2), (0, 0)],
            CODES,
        )
        for start, end, at in boxes
        if end > start
    ]
    shape = Path.make_compound_path(*corners) if corners else Path([(0, 0)])
    to.axes.add_artist(
        PathPatch(
            shape,
            facecolor=look.color,
            hatch=look.hatch,
            edgecolor=HATCH,
            linewidth=0,
            label=name,
            clip_on=False,
            transform=to.axes.transData,
        )
    )


def legend(to: Drawing, entries: int) -> None:
    """Above the drawing, never over it."""
    handles, labels = to.axes.get_legend_handles_labels()
    labels = [shortened(label, 30 if to.is_narrow else 60) for label in labels]
    longest = max(map(len, labels), default=1)
    columns = max(1, min(entries, (46 if to.is_narrow else 96) // (longest + 7)))
    to.figure.legend(handles, labels, loc="outside upper left", ncols=columns, handlelength=3)


def thinned(values: Sequence[float], most: int = POINTS_MAX) -> list[float]:
    """Return at most about `most` of the values, evenly, with the last."""
    step = math.ceil(len(values) / most)
    found = list(values[::step]) if step > 1 else list(values)
    return [*found, values[-1]] if step > 1 else found


def ticks(
    to: Drawing, axis: Axis, label: Callable[[float], str], *, is_log: bool, most: int, is_time: bool = False
) -> None:
    """Few enough ticks that their texts do not meet; seconds at round times where `is_time`."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = axis.get_view_interval()
    if is_log and is_time:
        shown = [(at, text) for at, text in _TIMES if low <= at <= high]
        step = max(1, math.ceil(len(shown) / most))
        axis.set_ticks([at for at, _ in shown[::step]], [text for _, text in shown[::step]])
        axis.set_minor_locator(NullLocator())
        return
    locator: Any
    if is_log:
        locator = LogLocator(numticks=most)
    elif is_time:
        locator = FixedLocator(round_times(high, most))
    else:
        locator = MaxNLocator(nbins=most)
    axis.set_major_locator(locator)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: label(value)))


def round_times(horizon_s: float, most: int) -> list[float]:
    """Return round instants from zero to the horizon, in one unit of time; at most `most` and the zero."""
    unit = next((each for each in (86_400, 3600, 60, 1) if horizon_s >= 2 * each), 1)
    span = horizon_s / unit
    size = 10.0 ** math.floor(math.log10(span / most)) if span > 0 else 1.0
    step = next(size * factor for factor in (1, 2, 5, 10, 20) if span / (size * factor) <= most)
    return [number * step * unit for number in range(int(span / step + 1e-9) + 1)]

"""Replacements as one SVG: a column for each, the replicas by state over the cores in use, both in steps of 10 ms.

Each column has a time axis of its own: one system is over before another has begun to fetch. The same values make the
same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from tierfetch.pages import LOOKS, REST, Look

from ..curves.draw import STYLE, save
from .states import STEP_S, State

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Value = TypeVar("Value")

COLUMN_INCHES: Final = (5.2, 4.6)
HEIGHTS: Final = (3, 1.4)
_LOOKS: Final[Mapping[str, Look]] = {
    state.value: REST if state is State.NOT_SEEN else look for state, look in zip(State, LOOKS, strict=False)
}
_PALE: Final = 0.55
"""How opaque the last state is, which all end in: the others stand out."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A column: its title, and the values of each step, replicas by state and cores by process."""

    title: str
    replicas: Mapping[str, Sequence[float]]
    cores: Mapping[str, Sequence[float]]


def draw(path: Path, pictures: Sequence[Picture], note: str) -> None:
    """Write the picture. ModuleNotFoundError without matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    width, height = COLUMN_INCHES
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(len(pictures) * width, height + 0.8), layout="constrained")
        fields = figure.subplots(2, len(pictures), squeeze=False, height_ratios=HEIGHTS, sharex="col")
        for picture, above, below in zip(pictures, *fields, strict=True):
            _draw_states(above, picture)
            _draw_cores(below, picture)
        _legend(figure, fields[0])
        figure.suptitle(note)
        save(figure, path)


def _draw_states(field: Axes, picture: Picture) -> None:
    """One state over the other, the one that all end in below."""
    order = [state.value for state in reversed(State) if state.value in picture.replicas]
    floor = [0.0] * max(map(len, picture.replicas.values()))
    for name in order:
        top = [low + count for low, count in zip(floor, picture.replicas[name], strict=True)]
        edges, merged = merged_steps(list(zip(floor, top, strict=True)))
        lows, highs = [low for low, _ in merged], [high for _, high in merged]
        look = _LOOKS[name]
        alpha = _PALE if name == State.IN_ISR.value else 1.0
        field.stairs(highs, edges, baseline=lows, fill=True, color=look.color, alpha=alpha, label=name)
        floor = top
    field.set_title(picture.title)
    field.set_ylabel("partitions")
    field.set_ylim(0, max(floor))
    field.set_xlim(0, len(floor) * STEP_S)


def _draw_cores(field: Axes, picture: Picture) -> None:
    for (name, values), look in zip(picture.cores.items(), LOOKS, strict=False):
        edges, merged = merged_steps(values)
        field.stairs(merged, edges, baseline=None, color=look.color, label=name, linewidth=0.9)
    field.set_ylabel("cores in use")
    field.set_ylim(bottom=0)
    field.set_xlabel("seconds from the start of the process")
    field.grid(alpha=0.3)
    field.legend(ncols=len(picture.cores), loc="upper right")


def merged_steps(values: Sequence[Value]) -> tuple[list[float], list[Value]]:
    """Return the edges of steps and their values, equal neighbours as one: it looks the same, and takes less room."""
    starts = [number for number in range(len(values)) if number == 0 or values[number] != values[number - 1]]
    edges = [number * STEP_S for number in (*starts, len(values))]
    return edges, [values[number] for number in starts]


def _legend(figure: Figure, fields: Sequence[Axes]) -> None:
    """One for all columns, of the states in their order."""
    found = {}
    for field in fields:
        handles, labels = field.get_legend_handles_labels()
        found.update(dict(zip(labels, handles, strict=True)))
    names = [state.value for state in State if state.value in found]
    figure.legend([found[name] for name in names], names, loc="outside lower center", ncols=2 * len(fields))

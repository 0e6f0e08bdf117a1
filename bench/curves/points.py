"""The points of the curves, and the file that has them: a line of JSON for each, so that a run can be continued. Pure.

| a line of the file | what it is for a point that is planned |
|---|---|
| another point, or other settings | not looked at |
| ours, of another commit | not looked at: measured again |
| figures, or the reason why there are none | done: the point is not measured again |
| no JSON, or without one of the fields | an error that names the line: nothing is measured |

Systems take turns at each point, the smallest counts first: what is interrupted has whole curves up to some count.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from tierfetch.protocol import OperatorError

from ..systems import KAFKA

PARTITIONS: Final = "partitions"
CLIENTS: Final = "clients"
AXES: Final = (PARTITIONS, CLIENTS)


class BadLineError(OperatorError):
    """A line of the file is not one that was written here."""


@dataclass(frozen=True, slots=True)
class Point:
    """What is measured once."""

    axis: str
    count: int
    system: str
    round: int = 0

    def __str__(self) -> str:
        what = self.axis if self.count > 1 else self.axis.removesuffix("s")
        return f"{self.count:,} {what}, {self.system}, round {self.round + 1}"


@dataclass(frozen=True, slots=True)
class Settings:
    """What every point of a curve has to have in common."""

    size_mb: int
    requests: int


@dataclass(frozen=True, slots=True)
class Line:
    """A point with its figures by quantity, and with the reason why some are missing, if so."""

    point: Point
    settings: Settings
    commit: str
    machine: str
    load: float
    unix_time_s: int
    figures: Mapping[str, float] = field(default_factory=dict)
    failure: str | None = None

    def text(self) -> str:
        """Return the line without its end."""
        return json.dumps(asdict(self), sort_keys=True)


def line_of(text: str) -> Line:
    """Return what a line says. BadLineError if it is none."""
    try:
        found = json.loads(text)
        return Line(**{**found, "point": Point(**found["point"]), "settings": Settings(**found["settings"])})
    except (ValueError, TypeError, KeyError) as error:
        raise BadLineError(f"not a point of a curve: {text[:80]!r} ({error})") from error


def planned(axes: Sequence[str], counts: Sequence[int], systems: Sequence[str], rounds: int) -> Iterator[Point]:
    """Yield the points in the order in which they are measured; each round begins with another system."""
    for number in range(rounds):
        first = number % len(systems)
        for axis in axes:
            for count in sorted(set(counts)):
                for system in (*systems[first:], *systems[:first]):
                    yield Point(axis, count, system, number)


def is_of(line: Line, settings: Settings, commit: str) -> bool:
    """Return whether a line belongs to the curves of these settings and this commit."""
    return line.settings == settings and (line.point.system == KAFKA.name or line.commit == commit)


def missing(points: Iterable[Point], lines: Iterable[Line]) -> list[Point]:
    """Return the points that have no line."""
    done = {line.point for line in lines}
    return [point for point in points if point not in done]


Curve = Mapping[int, float]
"""The median of the rounds by count; nan where the point was measured, and gave nothing."""


def curves(lines: Iterable[Line], axis: str) -> dict[str, dict[str, Curve]]:
    """Return the curves of an axis, by quantity and system, each by rising counts."""
    values: dict[str, dict[str, dict[int, list[float]]]] = {}
    attempted: dict[str, set[int]] = {}
    for line in lines:
        if line.point.axis == axis:
            attempted.setdefault(line.point.system, set()).add(line.point.count)
            for quantity, value in line.figures.items():
                found = values.setdefault(quantity, {}).setdefault(line.point.system, {})
                found.setdefault(line.point.count, []).append(value)
    return {
        quantity: {
            system: {
                count: statistics.median(of_system[count]) if count in of_system else math.nan
                for count in sorted(attempted[system])
            }
            for system, of_system in by_system.items()
        }
        for quantity, by_system in values.items()
    }

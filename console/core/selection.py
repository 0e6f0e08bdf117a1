"""Which rows a page shows: text to look for, a class of partitions, a page number.

A page has at most `PAGE_ROWS` rows, so a cluster of 10,000 partitions costs a page no more than a small one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, Generic, TypeVar

from ...light_dataclass import dataclass
from .replicas import Disk
from .state import Overview, Partition

T = TypeVar("T")

PAGE_ROWS: Final = 50
TEXT_MAX: Final = 249
"""The longest name of a topic; group ids that are longer are found by their beginning."""
PAGE_MAX: Final = 1_000_000


class Only(StrEnum):
    """A class of partitions."""

    ALL = "all"
    HURT = "hurt"
    THIN = "thin"
    MOVING = "moving"


_CLASSES: Final = {each.value: each for each in Only}


@dataclass(frozen=True, slots=True)
class Query:
    """What a reader asked for. `topic`: exactly this one; `text`: names that contain it. Pages count from 1."""

    text: str = ""
    topic: str = ""
    only: Only = Only.ALL
    page: int = 1


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """The rows of one page, which exists, and the count of all rows."""

    rows: tuple[T, ...]
    number: int
    pages: int
    total: int


def query_of(parameters: Mapping[str, str]) -> Query:
    """Return what a URL asks for; what it has no sense in is left out."""
    only = parameters.get("only", "")
    page = parameters.get("page", "")
    return Query(
        text=parameters.get("q", "").strip()[:TEXT_MAX],
        topic=parameters.get("topic", "")[:TEXT_MAX],
        only=_CLASSES.get(only, Only.ALL),
        page=min(int(page), PAGE_MAX) if page.isascii() and page.isdigit() and len(page) < 10 else 1,
    )


def paged(rows: Sequence[T], number: int) -> Page[T]:
    """Return a page of these rows; the last one for a number that is too high."""
    pages = max(1, -(-len(rows) // PAGE_ROWS))
    number = min(max(1, number), pages)
    return Page(tuple(rows[(number - 1) * PAGE_ROWS : number * PAGE_ROWS]), number, pages, len(rows))


def selected(overview: Overview, disks: Mapping[int, Disk], query: Query) -> list[Partition]:
    """Return the partitions that the reader asked for, in their order."""
    is_wanted = _class_of(overview, disks, query.only)
    text = query.text.casefold()
    return [
        part
        for part in overview.partitions
        if (not query.topic or part.topic == query.topic) and text in part.name.casefold() and is_wanted(part)
    ]


def _class_of(overview: Overview, disks: Mapping[int, Disk], only: Only) -> Callable[[Partition], bool]:
    if only is Only.HURT:
        return lambda part: part.is_hurt
    if only is Only.MOVING:
        moving = overview.adding.keys()
        return lambda part: part.key in moving
    if only is Only.THIN:
        thin = {
            key
            for disk in disks.values()
            for key, held in disk.items()
            if held.warm_in_ms is not None or held.warming_bytes_left is not None
        }
        return lambda part: part.key in thin
    return lambda _: True

"""Mutants that change nothing anybody could see, marked by hand in `equivalent.txt`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .generate import Mutant

FILE: Final = Path(__file__).with_name("equivalent.txt")


@dataclass(frozen=True, slots=True)
class Mark:
    """A mutant of a function with this digest is equivalent, and why."""

    id: str
    digest: str
    reason: str


def parse_marks(text: str) -> list[Mark]:
    """Return the marks of a file. Raise ValueError, with the number of its line, for one without a reason."""
    marks: list[Mark] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        head, _, reason = line.partition(": ")
        words = head.split()
        if len(words) != 2 or not reason.strip():
            raise ValueError(f"line {number} is not `id digest: reason`: {line}")
        marks.append(Mark(words[0], words[1], reason.strip()))
    return marks


def marked(marks: Iterable[Mark], mutants: Iterable[Mutant]) -> tuple[set[str], list[Mark]]:
    """Return the ids of the mutants that are marked, and the marks that hold no longer: their function changed."""
    digests = {mutant.id: mutant.digest for mutant in mutants}
    chosen = list(marks)
    holding = {mark.id for mark in chosen if digests.get(mark.id) == mark.digest}
    return holding, [mark for mark in chosen if mark.id not in holding]

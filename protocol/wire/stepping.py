"""Reading and writing in steps: a generator that yields where other work may have its turn, and returns its result.

`run_to_end(steps)` is the same without other work in between. Whoever walks over an array asks its reader or writer
`is_step_over()` at each element, and yields if it is.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]


def run_to_end(steps: Steps[T]) -> T:
    """Return what the steps return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result

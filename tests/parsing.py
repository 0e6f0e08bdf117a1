"""A parser that no garbage collection interrupts.

CPython 3.11 counts the recursion of the AST's constructor, and what a collection finalizes meanwhile counts with it:
`ast.parse` then ends in "SystemError: AST constructor recursion depth mismatch". Hypothesis parses lambdas and the
names of what it prints, pytest its asserts; each test may be hit, and those with much garbage are.
"""

from __future__ import annotations

import ast
import gc
from functools import wraps
from typing import Any

_parse = ast.parse


@wraps(_parse)
def _parse_undisturbed(*arguments: Any, **named: Any) -> Any:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return _parse(*arguments, **named)
    finally:
        if was_enabled:
            gc.enable()


def keep_collections_out() -> None:
    """Put the undisturbed parser in the place of `ast.parse`, for all of this process."""
    ast.parse = _parse_undisturbed

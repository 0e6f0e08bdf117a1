"""A folder's `__init__` that imports a name when it is asked for.

A folder is entered by its `__init__` (`tests/test_doors.py`). Python runs that file for every module below it, so what
it imports is paid by everybody who wants one format or one decision. Where this is much, the `__init__` imports its
names for type checkers alone, and this finds them at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_door(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of `package`: `modules` says in which of its modules each name is. It raises
    AttributeError for any other name.
    """

    def __getattr__(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f".{modules[name]}", package), name)

    return __getattr__

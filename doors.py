"""A folder's `__init__` that imports a name when it is asked for.

A folder is entered by its `__init__` (`tests/test_doors.py`). Python runs that file for every module below it, so what
it imports is paid by everybody who wants one format or one decision. Where this is much, the `__init__` imports its
names for type checkers alone, and this finds them at run time.

Imports make some 300,000 objects that stay, and little garbage. Python's collector would look through all of them again
and again meanwhile, so it rests while a name is found (docs/benchmarks.md has what that saves).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import resolve_name
from types import ModuleType


def lazy_door(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of `package`: `modules` says in which of its modules each name is. It raises
    AttributeError for any other name.
    """

    def __getattr__(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(imported(f".{modules[name]}", package), name)

    return __getattr__


def imported(module: str, package: str) -> ModuleType:
    """Import a module, and look for no garbage meanwhile. What was young before is old after it: freezing and thawing
    moves it there without a look.
    """
    name = resolve_name(module, package)
    if name in sys.modules or not gc.isenabled():
        return import_module(name)
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.enable()
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()

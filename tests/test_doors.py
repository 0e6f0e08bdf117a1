"""Doors that import on demand: each name they export is where they look for it."""

from __future__ import annotations

from importlib import import_module

import pytest

from .test_tidy import ROOT, sources

ON_DEMAND = [
    ".".join(("tierfetch", *path.relative_to(ROOT).parts[:-1]))
    for path in sources(tests=False)
    if path.name == "__init__.py" and "lazy_door(" in path.read_text()
]


@pytest.mark.parametrize("package", ON_DEMAND)
def test_a_door_has_every_name_that_it_exports(package: str) -> None:
    door = import_module(package)
    assert [name for name in door.__all__ if getattr(door, name, None) is None] == []


@pytest.mark.parametrize("package", ON_DEMAND)
def test_a_door_has_no_other_name(package: str) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'UnknownName'"):
        getattr(import_module(package), "UnknownName")  # noqa: B009  the name is not one that a type checker knows

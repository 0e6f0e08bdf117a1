"""A door imports a name when it is asked for, and the garbage collector rests meanwhile."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tierfetch.doors import lazy_door


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], object]:
    package = tmp_path / "house_with_a_door"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "room.py").write_text("import gc\ncollects = gc.isenabled()\n")
    (package / "ruin.py").write_text("raise RuntimeError('no floor')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("", ".room", ".ruin"):
        monkeypatch.delitem(sys.modules, f"{package.name}{name}", raising=False)
    return lazy_door(package.name, {"collects": "room", "floor": "ruin"})


@pytest.mark.parametrize("is_enabled", [True, False])
def test_no_garbage_is_looked_for_while_a_name_is_imported(door: Callable[[str], object], is_enabled: bool) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        assert door("collects") is False
        assert gc.isenabled() is is_enabled
        with pytest.raises(RuntimeError, match="no floor"):
            door("floor")
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_another_name_is_an_attribute_error(door: Callable[[str], object]) -> None:
    with pytest.raises(AttributeError, match="module 'house_with_a_door' has no attribute 'window'"):
        door("window")

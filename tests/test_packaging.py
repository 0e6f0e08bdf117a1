"""The explicit package list of pyproject.toml equals what is on the disk."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOT_SHIPPED = {"tests", "bench", "build", "dist", "docs"}


def packages_on_disk() -> set[str]:
    found = {"tierfetch", "tierfetch.testing"}
    for init in ROOT.glob("*/**/__init__.py"):
        parts = init.parent.relative_to(ROOT).parts
        if parts[0] not in NOT_SHIPPED and not parts[0].startswith("."):
            found.add(".".join(("tierfetch", *parts)))
    return found


def test_package_list_equals_disk() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["setuptools"]["packages"]) == packages_on_disk()


def test_every_package_says_what_it_is() -> None:
    for name in packages_on_disk() - {"tierfetch"}:
        init = ROOT.joinpath(*name.split(".")[1:]) / "__init__.py"
        assert init.read_text().startswith('"""'), f"{init} has no docstring"

"""A folder is entered by its door: the `__init__` of the folder, or of a folder in it, that exports the name.

Tests of a folder may reach into it, so this holds for the product alone.
"""

from __future__ import annotations

import ast
from configparser import ConfigParser
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tierfetch.protocol.messages import MESSAGES

from .test_tidy import ROOT, imported_from, parsed, sources

DOORS = (
    "broker",
    "cli",
    "console",
    "controller",
    "fetcher",
    "log",
    "model",
    "pages",
    "pipeline",
    "planning",
    "plugins",
    "protocol",
    "quorum",
    "remote",
    "rlm",
    "security",
    "sim",
    "testing",
)
"""Folders that other folders enter by a door alone."""


def package_of(path: Path) -> tuple[str, ...]:
    return path.relative_to(ROOT).parts[:-1]


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: parsed(path) for path in sources(tests=False)}


@cache
def doors() -> dict[tuple[str, ...], ast.Module]:
    """Return the `__init__` of every package."""
    return {package_of(path): tree for path, tree in trees().items() if path.name == "__init__.py"}


ON_DEMAND = {
    package_of(path) for path in sources(tests=False) if path.name == "__init__.py" and "lazy_door(" in path.read_text()
}


def assigned(tree: ast.Module, name: str) -> list[str]:
    """Return the list of strings that a module assigns to a name, an empty one if it does not."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            value: list[str] = ast.literal_eval(node.value)
            return value
    return []


MESSAGE_FAMILIES = {module for module, _, _ in MESSAGES.values()}
"""Modules that are doors of their own: each is generated, and holds what others need and nothing else."""


def is_exported(module: tuple[str, ...], name: str) -> bool:
    is_family = module == ("protocol", "messages") and name in MESSAGE_FAMILIES
    is_of_a_family = module[:-1] == ("protocol", "messages") and module[-1] in MESSAGE_FAMILIES
    return is_family or is_of_a_family or is_of_a_door(module, name)


def is_of_a_door(module: tuple[str, ...], name: str) -> bool:
    return module in doors() and name in assigned(doors()[module], "__all__")


def test_other_folders_enter_a_room_by_its_door() -> None:
    past: set[str] = set()
    for path, tree in trees().items():
        home = package_of(path)[:1]
        for module, name in imported_from(path, tree):
            is_elsewhere = module[:1] != home and module[:1] in {(door,) for door in DOORS}
            if is_elsewhere and home != ("bench",) and not is_exported(module, name):
                past.add(".".join((*module, name)))
    assert past == set(), "export them in the `__init__` of their room, and import them from there"


def pure_modules() -> list[str]:
    """Return the patterns of the modules that `lint-imports` keeps pure."""
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    return contracts["importlinter:contract:cores"]["source_modules"].split()


def is_pure(module: tuple[str, ...]) -> bool:
    """Return whether a module is among them: `tierfetch.**.core` is everything below a `core`."""
    named = [tuple(pattern.split(".")[1:]) for pattern in pure_modules() if "*" not in pattern]
    return "core" in module or any(module[: len(name)] == name for name in named)


def test_what_is_pure_is_read_from_the_contract() -> None:
    assert "tierfetch.**.core" in pure_modules()
    modules = [("log", "core", "index"), ("controller", "image", "delta"), ("log", "disk", "port"), ("quorum", "node")]
    assert [is_pure(module) for module in modules] == [True, True, False, False]


def homes_on_demand(package: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the module of each name that a door imports when it is asked for."""
    (for_type_checkers,) = [node for node in doors()[package].body if ast.unparse(node).startswith("if TYPE_CHECKING")]
    return {
        alias.name: (*package, *(node.module or "").split("."))
        for node in ast.walk(for_type_checkers)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_a_core_takes_from_a_door_on_demand_only_what_is_pure_by_itself() -> None:
    """`lint-imports` does not see what such a name leads to: the module that has it must be under the same contract."""
    taken = {
        f"{path.relative_to(ROOT)}: {'.'.join((*module, name))}"
        for path, tree in trees().items()
        if is_pure(path.relative_to(ROOT).with_suffix("").parts)
        for module, name in imported_from(path, tree)
        if module in ON_DEMAND and not is_pure(homes_on_demand(module).get(name, ("core",)))
    }
    assert taken == set()


def imported(package: tuple[str, ...]) -> ModuleType:
    return import_module(".".join(("tierfetch", *package)))


@pytest.mark.parametrize("package", sorted(ON_DEMAND), ids=".".join)
def test_a_door_has_every_name_that_it_exports(package: tuple[str, ...]) -> None:
    """No name is a module: one that is called like what it exports would take its place once it is imported."""
    door = imported(package)
    missing = [name for name in door.__all__ if getattr(door, name, None) is None]
    hidden = [name for name in door.__all__ if isinstance(getattr(door, name), ModuleType)]
    assert (missing, hidden) == ([], [])


@pytest.mark.parametrize("package", sorted(ON_DEMAND), ids=".".join)
def test_a_door_has_no_other_name(package: tuple[str, ...]) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'UnknownName'"):
        getattr(imported(package), "UnknownName")  # noqa: B009  the name is not one that a type checker knows

"""All mutants of a source: each has an id that edits elsewhere do not change. Pure.

    log/replica/flusher.py::Flusher.is_due::boundary::2     the third place in that function for that operator

A mutant is made inside of functions alone: what a module does while it is imported is the same for all tests. `digest`
is of its function's text without comments and layout: a verdict holds as long as both are the same.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from .operators import OPERATORS, Edit, Place

UNSEEN: Final = ("__repr__", "__str__")
"""Functions for people alone."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Defaults = Mapping[str, Set[str]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake. `statement_line` is where the statement begins that it changes: whether it is reached is known of
    statements alone.
    """

    file: str
    function: str
    operator: str
    ordinal: int
    line: int
    statement_line: int
    digest: str

    @property
    def id(self) -> str:
        return f"{self.file}::{self.function}::{self.operator}::{self.ordinal}"


@dataclass(frozen=True, slots=True)
class _Site:
    mutant: Mutant
    edit: Edit
    function: Function


def mutants_of(file: str, source: str, defaults: Defaults | None = None) -> list[Mutant]:
    """Return all mutants of a file, in the order of its functions. `defaults`: see `fields_with_defaults`."""
    return [site.mutant for site in _sites(file, ast.parse(source), defaults or {})]


def mutated(source: str, mutant: Mutant, defaults: Defaults | None = None) -> ast.Module:
    """Return the tree of the file with the mutant in it. Raise LookupError if the file has it no longer."""
    tree = ast.parse(source)
    _site_of(tree, mutant, defaults or {}).edit.apply()
    return ast.fix_missing_locations(tree)


def diff_of(source: str, mutant: Mutant, defaults: Defaults | None = None) -> list[str]:
    """Return what it changes, as the changed lines of a diff: of the statements, not of their layout."""
    tree = ast.parse(source)
    site = _site_of(tree, mutant, defaults or {})
    before = ast.unparse(site.function).splitlines()
    site.edit.apply()
    after = ast.unparse(ast.fix_missing_locations(site.function)).splitlines()
    lines = difflib.unified_diff(before, after, n=1, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _site_of(tree: ast.Module, mutant: Mutant, defaults: Defaults) -> _Site:
    for site in _sites(mutant.file, tree, defaults, only=mutant.function):
        if site.mutant.id == mutant.id:
            return site
    raise LookupError(f"{mutant.id} is no longer there")


def _sites(file: str, tree: ast.Module, defaults: Defaults, only: str | None = None) -> Iterator[_Site]:
    for name, function in functions_of(tree):
        if function.name in UNSEEN or only not in (None, name):
            continue
        digest = _digest(function)
        counts = Counter[str]()
        for place, statement in _places(function, defaults):
            for operator, edits in OPERATORS.items():
                for edit in edits(place):
                    line = getattr(place.node, "lineno", statement.lineno)
                    mutant = Mutant(file, name, operator, counts[operator], line, statement.lineno, digest)
                    counts[operator] += 1
                    yield _Site(mutant, edit, function)


def functions_of(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Yield the functions and methods with their names, those of one name numbered; not those inside of others, which
    belong to them.
    """
    seen = Counter[str]()

    def inside(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Function]]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from inside(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, Function):
                name = f"{prefix}{node.name}"
                seen[name] += 1
                yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), node
            elif isinstance(node, ast.If | ast.Try):
                yield from inside([*node.body, *node.orelse], prefix)

    yield from inside(tree.body, "")


def _places(function: Function, defaults: Defaults) -> Iterator[tuple[Place, ast.stmt]]:
    """Yield what can be changed, each with its statement: no declarations, no annotations, no assertions."""

    def inside(owner: ast.AST, statement: ast.stmt | None) -> Iterator[tuple[Place, ast.stmt]]:
        for name, value in ast.iter_fields(owner):
            if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(owner, ast.Call):
                continue
            for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if not isinstance(node, ast.AST) or isinstance(node, ast.Assert) or _is_docstring(node):
                    continue
                own = node if isinstance(node, ast.stmt) else statement
                if isinstance(node, ast.ExceptHandler | ast.match_case):
                    own = node.body[0]
                if own is not None:
                    yield Place(node, owner, name, index, function, defaults), own
                yield from inside(node, own)

    yield from inside(function, None)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def fields_with_defaults(trees: Mapping[str, ast.Module]) -> dict[str, Set[str]]:
    """Return the fields of the classes of some files that a constructor may leave out, by the name of the class."""
    found: dict[str, Set[str]] = {}
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                fields = {
                    each.target.id
                    for each in node.body
                    if isinstance(each, ast.AnnAssign) and each.value is not None and isinstance(each.target, ast.Name)
                }
                for each in node.body:
                    if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                        fields |= _optional(each.args)
                if fields:
                    found[node.name] = fields | found.get(node.name, set())
    return found


def _optional(arguments: ast.arguments) -> set[str]:
    named = [*arguments.posonlyargs, *arguments.args]
    optional = named[len(named) - len(arguments.defaults) :] if arguments.defaults else []
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {each.arg for each in optional} | {each.arg for each, default in pairs if default is not None}


@lru_cache(maxsize=1024)
def statement_lines(source: str) -> Mapping[str, tuple[int, ...]]:
    """Return the lines on which the statements of each function begin, in the order of its tree."""
    return {
        name: tuple(
            node.lineno
            for node in ast.walk(function)
            if isinstance(node, ast.stmt) and node is not function and not _is_docstring(node)
        )
        for name, function in functions_of(ast.parse(source))
    }


@lru_cache(maxsize=1024)
def digests(source: str) -> Mapping[str, str]:
    """Return the digest of each function."""
    return {name: _digest(function) for name, function in functions_of(ast.parse(source))}


def moved_lines(before: str, after: str) -> dict[int, int]:
    """Return where the statements of a source begin in a later one, if their function has the same text there."""
    lines, now = statement_lines(after), digests(after)
    same = [name for name, digest in digests(before).items() if now.get(name) == digest]
    pairs = (zip(statement_lines(before)[name], lines[name], strict=True) for name in same)
    return {line: later for each in pairs for line, later in each}


def _digest(function: Function) -> str:
    return hashlib.sha256(ast.unparse(function).encode()).hexdigest()[:16]

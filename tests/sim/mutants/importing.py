"""An import hook: modules of the product are loaded from a syntax tree that was changed. No file is written.

| mode     | what the tree gets                                                                                    |
|----------|-------------------------------------------------------------------------------------------------------|
| mutated  | one edit in one module                                                                                |
| recorded | in every module of some folders, before each statement of a function, a byte set for its line    |

It has to be installed before the modules are imported, so in a process that has imported none of them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

PACKAGE: Final = "tierfetch"
RECORD: Final = "_lines_that_ran"

Rewrite = Callable[[str, str], ast.Module]
"""From the name of a file, below the package, and its source to the tree that is loaded."""


def module_of(file: str) -> str:
    """Return the name of the module in a file below the package."""
    parts = Path(file).with_suffix("").parts
    return ".".join((PACKAGE, *(parts[:-1] if parts[-1] == "__init__" else parts)))


class _Loader(SourceFileLoader):
    def __init__(
        self, name: str, path: str, file: str, rewrite: Rewrite, prepare: Callable[[ModuleType], None]
    ) -> None:
        super().__init__(name, path)
        self._file, self._rewrite, self._prepare = file, rewrite, prepare

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code = compile(self._rewrite(self._file, Path(path).read_text()), path, "exec", dont_inherit=True)
        assert isinstance(code, CodeType), "a module was compiled"
        return code

    def exec_module(self, module: ModuleType) -> None:
        self._prepare(module)
        super().exec_module(module)


class _Finder(MetaPathFinder):
    def __init__(self, files: Mapping[str, str], rewrite: Rewrite, prepare: Callable[[ModuleType], None]) -> None:
        self._files, self._rewrite, self._prepare = files, rewrite, prepare

    def find_spec(self, fullname: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        file = self._files.get(fullname)
        spec = PathFinder.find_spec(fullname, path) if file is not None else None
        if file is not None and spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, file, self._rewrite, self._prepare)
        return spec


@contextmanager
def rewritten(
    files: list[str], rewrite: Rewrite, prepare: Callable[[ModuleType], None] = lambda module: None
) -> Iterator[None]:
    """Load the modules of these files from trees that `rewrite` made. Raise RuntimeError if one was imported before."""
    by_module = {module_of(file): file for file in files}
    if early := sorted(by_module.keys() & sys.modules.keys()):
        raise RuntimeError(f"imported before they could be changed: {', '.join(early[:5])}")
    finder = _Finder(by_module, rewrite, prepare)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class Record:
    """Which lines ran, since it was last taken, by file."""

    def __init__(self) -> None:
        self._lines: dict[str, bytearray] = {}
        self._files: dict[str, str] = {}

    @contextmanager
    def recording(self, files: list[str]) -> Iterator[None]:
        self._files = {module_of(file): file for file in files}
        with rewritten(files, self._rewrite, self._prepare):
            yield

    def _rewrite(self, file: str, source: str) -> ast.Module:
        return recorded(source)

    def _prepare(self, module: ModuleType) -> None:
        """Give a module its bytes, before its code runs."""
        file = self._files[module.__name__]
        path = module.__spec__.origin if module.__spec__ is not None else None
        assert path is not None, "it has a file"
        self._lines[file] = bytearray(Path(path).read_text().count("\n") + 2)
        setattr(module, RECORD, self._lines[file])

    def take(self) -> dict[str, list[int]]:
        """Return the lines that ran, by file, and forget them."""
        taken: dict[str, list[int]] = {}
        for file, lines in self._lines.items():
            if 1 in lines:
                taken[file] = [number for number, is_set in enumerate(lines) if is_set]
                lines[:] = bytes(len(lines))
        return taken


def recorded(source: str) -> ast.Module:
    """Return the tree of a source, with a byte set before each statement of a function."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for each in ast.walk(node):
                _record_blocks(each)
    return ast.fix_missing_locations(tree)


def _record_blocks(node: ast.AST) -> None:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and not isinstance(node, ast.ClassDef):
            setattr(node, name, [each for statement in block for each in _with_record(statement)])


def _with_record(statement: ast.stmt) -> list[ast.stmt]:
    is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    if is_docstring or hasattr(statement, RECORD) or isinstance(statement, ast.Global | ast.Nonlocal):
        return [statement]
    before = ast.parse(f"{RECORD}[{statement.lineno}] = 1").body[0]
    for each in ast.walk(before):
        ast.copy_location(each, statement)
    for each in (before, statement):
        setattr(each, RECORD, True)  # a function in a function is walked twice
    return [before, statement]

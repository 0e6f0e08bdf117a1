"""Style rules as a test: size of files and functions, no leftovers, nothing that names a machine."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(work|root|home)/\w")


def parsed(text: str) -> ast.Module:
    """Without a garbage collection in between: what it finalizes would count as recursion of the parser's
    (CPython 3.11: "AST constructor recursion depth mismatch").
    """
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()


def sources(*, tests: bool) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [ROOT / name for name in listed if (ROOT / name).exists() and (tests or not name.startswith("tests/"))]


def functions(path: Path) -> list[tuple[str, int]]:
    tree = parsed(path.read_text())
    return [
        (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


@pytest.mark.parametrize("path", sources(tests=False), ids=lambda path: str(path.relative_to(ROOT)))
def test_file_is_tidy(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= FILE_LINES_MAX, f"over {FILE_LINES_MAX} lines: split it by concern"
    long = [f"{name} has {lines} lines" for name, lines in functions(path) if lines > FUNCTION_LINES_MAX]
    assert not long, long
    assert not LEFTOVERS.search(text), "leftover marker: do it now or write an issue"
    assert not text.strip() or ast.get_docstring(parsed(text)), "a module begins by saying what it is"


def test_no_machine_paths() -> None:
    offenders = [
        str(path.relative_to(ROOT))
        for path in sources(tests=True)
        if path != Path(__file__) and MACHINE_PATHS.search(path.read_text())
    ]
    assert not offenders

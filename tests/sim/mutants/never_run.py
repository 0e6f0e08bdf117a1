"""Which functions of the product no seed of the simulator runs, as a list by module (docs/not-simulated.md).

    python -m tierfetch.tests.sim.mutants.never_run --seeds 200      records lines, and writes the list

What a seed reaches is recorded as for mutants (`coverage`). A function is run if a line of its body is: its `def` and
its docstring run with the import. Protocols' methods and overloads, whose bodies are `...`, have nothing to run.

A test (`test_never_run`) keeps it true without running seeds: what it lists exists, and it is of about as many
functions as there are. What has left the sources is deleted from the page by hand; what is new is in it once it is
written again, which is due when a twentieth of the functions came or went.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .coverage import FOLDERS, Reach, group_of_seeds, recorded, sources_of
from .programs import ROOT

PAGE: Final = ROOT / "docs" / "not-simulated.md"
_MODULE: Final = re.compile(r"^- `([\w/]+\.py)`: (.*)$", re.MULTILINE)
_TOTAL: Final = re.compile(r"Of ([\d,]+) functions")


@dataclass(frozen=True, slots=True)
class Function:
    """A function by its name within its module, and the lines of its body that run when it does."""

    name: str
    lines: frozenset[int]


def functions_of(source: str) -> list[Function]:
    """Return the functions of a module in their order, methods as `Class.method`, those within others as `f.g`."""
    return list(_functions(ast.parse(source), ""))


def _functions(node: ast.AST, prefix: str) -> Iterable[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if lines := _body(child):
                yield Function(prefix + child.name, lines)
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[int]:
    """Return the first lines of its statements, without those of functions and classes within it."""
    lines: set[int] = set()
    statements: list[ast.AST] = [each for each in function.body if not _says_nothing(each)]
    while statements:
        statement = statements.pop()
        if isinstance(statement, ast.stmt):
            lines.add(statement.lineno)
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            statements += ast.iter_child_nodes(statement)
    return frozenset(lines)


def _says_nothing(statement: ast.stmt) -> bool:
    """Whether it is a docstring, or `...`."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def never_run(sources: Mapping[str, str], reaches: Iterable[Reach]) -> dict[str, list[str]]:
    """Return the names of the functions that none of these reached, by module."""
    reached: dict[str, int] = {}
    for reach in reaches:
        for path, bits in reach.lines.items():
            reached[path] = reached.get(path, 0) | bits
    missing = {
        path: [
            each.name
            for each in functions_of(source)
            if not any(reached.get(path, 0) >> line & 1 for line in each.lines)
        ]
        for path, source in sorted(sources.items())
    }
    return {path: names for path, names in missing.items() if names}


def page(sources: Mapping[str, str], missing: Mapping[str, list[str]], seeds: int) -> str:
    """Return the text of the page."""
    total = sum(len(functions_of(source)) for source in sources.values())
    count = sum(map(len, missing.values()))
    folders = ", ".join(f"`{folder}/`" for folder in FOLDERS)
    command = f"python -m tierfetch.tests.sim.mutants.never_run --seeds {seeds}"
    lines = [
        "# What is not in the simulation",
        "",
        f"Of {total:,} functions of {folders},",
        f"{count:,} ({count / total:.0%}) are run by none of the seeds 1 to {seeds} of the",
        "[simulation](simulation.md). They are left to unit tests, real processes and Apache Kafka's own clients. Here "
        "they",
        f"are by module, in the order of the sources. Written by `{command}`.",
    ]
    for folder in FOLDERS:
        modules = {path: names for path, names in missing.items() if path.startswith(f"{folder}/")}
        lines += ["", f"## {folder}/", ""]
        lines += [f"- `{path}`: " + ", ".join(f"`{name}`" for name in names) for path, names in modules.items()]
    return "\n".join(lines) + "\n"


def listed(text: str) -> tuple[int, dict[str, list[str]]]:
    """Return of how many functions a page is, and those that it lists."""
    found = _TOTAL.search(text)
    modules = {path: re.findall(r"`([\w.]+)`", names) for path, names in _MODULE.findall(text)}
    return int(found[1].replace(",", "")) if found else 0, modules


def main() -> None:
    """Record the seeds, or take what was recorded of the same sources before, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="the seeds 1 to this one")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "mutants", help="what was recorded")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    reaches = recorded(group_of_seeds(range(1, given.seeds + 1)), given.directory)
    sources = sources_of()
    PAGE.write_text(page(sources, never_run(sources, reaches), given.seeds))


if __name__ == "__main__":
    main()

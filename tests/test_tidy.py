"""Style rules as a test: size of files and functions, no leftovers, nothing that names a machine."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 60
ROOM_FILES_MAX = 25
ANY_MAX = 230
"""How often the product says `Any`. This number may only fall."""
LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(work|root|home)/\w")


def sources(*, tests: bool) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [ROOT / name for name in listed if (ROOT / name).exists() and (tests or not name.startswith("tests/"))]


@cache
def parsed(path: Path) -> ast.Module:
    """Return the file's tree. The tests of a worker share it: it takes three times as long to parse as to walk."""
    return ast.parse(path.read_text())


def functions(path: Path) -> list[tuple[str, int]]:
    tree = parsed(path)
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
    assert not text.strip() or ast.get_docstring(parsed(path)), "a module begins by saying what it is"


def in_a_core(path: Path) -> bool:
    return "core" in path.relative_to(ROOT).parts[:-1]


@pytest.mark.parametrize(
    "path", [path for path in sources(tests=False) if in_a_core(path)], ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_core_waits_for_nothing(path: Path) -> None:
    waits = [node.lineno for node in ast.walk(parsed(path)) if isinstance(node, ast.AsyncFunctionDef | ast.Await)]
    assert not waits, f"a core is pure, and this one waits in lines {waits}"


def any_lines(path: Path) -> list[int]:
    return [node.lineno for node in ast.walk(parsed(path)) if isinstance(node, ast.Name) and node.id == "Any"]


def test_the_type_any_is_rare_and_in_no_core() -> None:
    counts = {path: len(any_lines(path)) for path in sources(tests=False) if not path.is_relative_to(ROOT / "bench")}
    assert [str(path.relative_to(ROOT)) for path, count in counts.items() if count and in_a_core(path)] == []
    assert sum(counts.values()) <= ANY_MAX, "name the type: a protocol, a type variable, `object`"


def test_no_room_has_more_than_25_files() -> None:
    rooms: dict[str, int] = {}
    for path in sources(tests=False):
        room = str(path.relative_to(ROOT).parent)
        rooms[room] = rooms.get(room, 0) + (path.name != "__init__.py")
    assert not {room: files for room, files in rooms.items() if files > ROOM_FILES_MAX}


def test_no_machine_paths() -> None:
    offenders = [
        str(path.relative_to(ROOT))
        for path in sources(tests=True)
        if path != Path(__file__) and MACHINE_PATHS.search(path.read_text())
    ]
    assert not offenders


REAL_OR_SIMULATED = (
    *("tests/process", "tests/abuse", "tests/interop", "tests/spark", "tests/ci", "tests/sim", "tests/controller"),
    *("tests/testing/test_simulation", "tests/testing/hashed_application"),
)
"""Folders whose tests wait for processes, and folders whose time is the simulation's."""


def guessing_sleeps(tree: ast.Module) -> list[int]:
    """Return the lines of `sleep` of a fixed time, other than between two looks at a condition (in a `while`)."""
    polls = {id(node) for loop in ast.walk(tree) if isinstance(loop, ast.While) for node in ast.walk(loop)}
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"asyncio.sleep", "time.sleep", "sleep"}
        and id(node) not in polls
        and ast.unparse(node.args[0]) != "0"
        and all(name.id.isupper() for name in ast.walk(node.args[0]) if isinstance(name, ast.Name))
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("await asyncio.sleep(0.01)", [1]),
        ("time.sleep(3 * QUICK.interval_ms / 1000)", [1]),
        ("for _ in range(100):\n    await asyncio.sleep(0.0005)", [2]),
        ("await asyncio.sleep(0)", []),
        ("while not holds():\n    await asyncio.sleep(0.01)", []),
        ("await asyncio.sleep(request.max_wait_ms / 1000)", []),
    ],
)
def test_what_counts_as_a_sleep_that_guesses(text: str, lines: list[int]) -> None:
    assert guessing_sleeps(ast.parse(f"{text}\n")) == lines


def test_unit_tests_do_not_guess_how_long_something_takes() -> None:
    """They wait for an event, let the loop turn (`tests/turns.py`), or run on virtual time, where a sleep is exact."""
    offenders = []
    for path in sources(tests=True):
        name = str(path.relative_to(ROOT))
        text = path.read_text()
        is_unit_test = name.startswith("tests/") and not name.startswith(REAL_OR_SIMULATED)
        if is_unit_test and "sleep" in text and "pytestmark = pytest.mark.virtual_time\n" not in text:
            offenders += [f"{name}:{line}" for line in guessing_sleeps(ast.parse(text))]
    assert offenders == []


def imported_from(path: Path, tree: ast.Module) -> list[tuple[tuple[str, ...], str]]:
    """Return the modules of this package that a file imports from, as parts of their names, each with a name."""
    package = path.relative_to(ROOT).parts[:-1]
    imports: list[tuple[tuple[str, ...], str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = tuple((node.module or "").split(".")) if node.module else ()
            if node.level:
                module = (*package[: len(package) - node.level + 1], *module)
            elif module[:1] == ("tierfetch",):
                module = module[1:]
            imports += [(module, alias.name) for alias in node.names]
    return imports


SPLINTER_LINES = 60
SPLINTERS_WITH_A_REASON = {
    "broker/listener_reload.py": "a task of its own beside the composition",
    "broker/quotas/metrics.py": "metrics families stand apart from what they measure",
    "broker/share/coordinated.py": "requests, apart from the port that a test implements too",
    "cli/model/remote_sizes.py": "pure, apart from the command that asks a cluster",
    "model/tiering.py": "a formula of its own, with the reasons for it",
    "model/warming.py": "a formula of its own, with the reasons for it",
    "pipeline/core/unlisted_aborts.py": "a proof of its own, for segments that lost their transaction index",
    "pipeline/core/varints.py": "vectorized arithmetic, apart from the format that it reads",
    "pipeline/layouts/kafka.py": "one layout a file",
    "pipeline/reading/skipped.py": "what a query gets in place of what could not be read",
    "pipeline/reading/tail.py": "imported only for a table with a tail, for what it imports takes long",
    "protocol/net/admission.py": "limits as values and decisions, apart from the sockets",
    "quorum/core/high_watermark.py": "the rule that Raft's safety rests on, with a test and planted bugs of its own",
    "rlm/core/retention.py": "KIP-405's retention by size and time, apart from the plan that asks for it",
    "sim/faults/quorum_scenes.py": "faults stand apart from the scenarios that play them",
    "testing/cluster/moto.py": "imported only for a bucket, for moto is optional",
}


def is_splinter(path: Path, importers: set[Path]) -> bool:
    """Return whether a short file has one importer, and none of the reasons that hold for many: a core is kept apart
    from the shell that asks it, a handler of one family of requests from the table that names it, and what a door
    exports is for many.
    """
    is_short = path.name != "__init__.py" and path.read_text().count("\n") < SPLINTER_LINES
    if not is_short or len(importers) != 1:
        return False
    (importer,) = importers
    is_asked_by_a_shell = in_a_core(path) and not in_a_core(importer)
    is_handler = path.parent.name == "handlers" and importer.name in ("table.py", "node.py")
    is_exported = importer.name == "__init__.py"
    return not (is_asked_by_a_shell or is_handler or is_exported)


def test_short_files_with_one_importer_have_a_reason() -> None:
    """Merge it into its importer, or into the file whose concern it shares. The list of reasons only gets shorter."""
    modules = {path.relative_to(ROOT).with_suffix("").parts: path for path in sources(tests=False)}
    importers: dict[Path, set[Path]] = {path: set() for path in modules.values()}
    for path in modules.values():
        for module, name in imported_from(path, parsed(path)):
            for found in {modules.get(module), modules.get((*module, name))} - {None, path}:
                importers[found].add(path)
    splinters = {
        str(path.relative_to(ROOT))
        for path, known in importers.items()
        if path.relative_to(ROOT).parts[0] != "bench" and is_splinter(path, known)
    }
    assert splinters == set(SPLINTERS_WITH_A_REASON)

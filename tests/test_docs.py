"""Documentation as a test: every path and module it names exists, tables fit the eye, docstrings are sentences."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from pathlib import Path

import pytest

from tierfetch.plugin_registry import KINDS

from .test_tidy import ROOT, parsed, sources

CELL_CHARACTERS_MAX = 150
SHORT_PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *(f"docs/{page}.md" for page in ("ARCHITECTURE", "WORDS", "data-path", "divergence", "planning", "simulation")),
]
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]

PATH = re.compile(r"(?<![\w./<*-])((?:[a-z_]+/)+\w+\.(?:py|md|svg|json|toml|yaml))\b")
FILE_NAME = re.compile(r"(?<![\w/*.-])(\w+\.py)\b")
DOTTED = re.compile(r"(?<![\w.-])tierfetch((?:\.[A-Za-z_]\w*)+)")
SHORT_DOTTED = re.compile(r"`(?:fetcher|model|pipeline|planning|plugins|rlm|sim|testing)(?:\.(?!py\b)[a-z_]\w*)+[`(]")
"""Modules as the text names them inside the package; of folders whose names do not begin Kafka's keys, too."""
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
NOT_MODULES = {*(kind.group.removeprefix("tierfetch") for kind in KINDS), ".version"}
"""Names with a dot that are no modules: the entry-point groups, and a feature level."""

FRAGMENT = re.compile(r"(Of|By|For|With|Those)\b")
FRAGMENTS_MAX = {"sim": 3}
"""How many docstrings of each folder still are fragments without a subject or a verb. These numbers may only fall."""
FRAGMENTS_SLACK = 10
"""How far a folder may be better than its number before the number must be lowered."""


AVOIDED_MAX = {
    r"told|tells?": 63,
    r"behind": 73,
    r"anew|afresh": 3,
    r"no more(?! than)|any ?more": 8,
    r"whoever|nobody|somebody|anybody": 109,
    r"(?:go|goes|going|went) on": 19,
    r"(?:is|are) to": 24,
    r"lies?": 75,
    r"gone": 39,
    r"lately": 3,
    r"hears?|heard": 37,
    r"wants?": 32,
    r"faults? of ours|bugs? of ours": 1,
    r"filth|rot|rotten|unrest|deeds|hangs together|governed": 22,
}
"""How often each word of "Words to avoid" (docs/WORDS.md) still stands in comments, docstrings, messages and pages.
These numbers may only fall: write the other word, and lower the number when a text is rewritten. They stand three above
the counts at most, so that branches can be merged."""
GENERATED = {"docs/commands.md", "docs/config-keys.md", "docs/apis.md", "docs/planted-bugs.md", "docs/mutants.md"}
"""Pages whose words are those of the code, which is counted itself."""
AVOIDED_IN = {ROOT / page for page in {*PAGES} - {"docs/WORDS.md", *GENERATED}}


def prose(source: str) -> Iterator[str]:
    """Return the comments and strings of a module, f-strings without what they format."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", None)):
            yield token.string


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Return the docstrings of modules, classes, functions, and the strings below attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


@cache
def docstrings_by_file() -> dict[Path, list[str]]:
    """Return the docstrings of every file of the product and of `bench/`."""
    return {path: list(docstrings(parsed(path))) for path in sources(tests=False)}


@cache
def texts() -> dict[Path, str]:
    """Return every text that speaks of the code: the pages, and the docstrings by file."""
    pages = {ROOT / page: (ROOT / page).read_text() for page in PAGES}
    return pages | {path: "\n".join(found) for path, found in docstrings_by_file().items()}


def is_there(dotted: str) -> bool:
    """Return whether `.remote.storage.Name` is a module, or a name that occurs in the longest module of its path."""
    parts = dotted.split(".")[1:]
    for length in range(len(parts), -1, -1):
        folder = ROOT.joinpath(*parts[:length])
        for file in (folder.with_suffix(".py"), folder / "__init__.py"):
            if length and file.exists():
                return all(re.search(rf"\b{name}\b", file.read_text()) for name in parts[length:])
    return False


def table_cells(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("|"):
            yield from (cell.strip() for cell in line.strip("|").replace("\\|", "").split("|"))


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as Markdown renderers derive it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_path_exists() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {named}"
        for path, text in texts().items()
        for named in PATH.findall(text)
        if not ((ROOT / named).exists() or (path.parent / named).exists())
    ]
    assert not missing


FILES_OF_A_READER = {"test_orders.py", "test_policy.py", "whole_if_small.py"}
"""Files that README has a reader write; tests/process/test_readme.py writes them."""


def test_every_python_file_that_a_page_names_exists() -> None:
    known = {path.name for path in sources(tests=True)} | FILES_OF_A_READER
    missing = [(page, name) for page in PAGES for name in FILE_NAME.findall(texts()[ROOT / page]) if name not in known]
    assert not missing


def test_every_dotted_name_exists() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: tierfetch{dotted}"
        for path, text in texts().items()
        for dotted in DOTTED.findall(text)
        if dotted not in NOT_MODULES and not is_there(dotted)
    ]
    assert not missing


def test_every_module_named_from_its_folder_exists() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {dotted}"
        for path, text in texts().items()
        for dotted in SHORT_DOTTED.findall(text)
        if not is_there("." + dotted.strip("`("))
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    here = ROOT / page
    for target, fragment in LINK.findall(here.read_text()):
        file = here.parent / target if target else here
        assert file.exists(), f"{page}: {target}"
        if fragment:
            assert fragment in map(anchor, HEADING.findall(file.read_text())), f"{page}: {target}#{fragment}"


@pytest.mark.parametrize("page", SHORT_PAGES)
def test_cells_of_tables_are_short(page: str) -> None:
    long = [cell for cell in table_cells((ROOT / page).read_text()) if len(cell) > CELL_CHARACTERS_MAX]
    assert not long, f"over {CELL_CHARACTERS_MAX} characters: put it below the table, or on a page of its own"


def map_of(folder: Path) -> str:
    return ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""


def names_in(text: str) -> set[str]:
    """Return the names that a map explains: the first word of a line, or a name in backticks."""
    listed = {line.split()[0].removesuffix(".py") for line in text.splitlines() if line.strip()}
    return listed | set(re.findall(r"`(\w+)`", text))


def folders() -> list[Path]:
    """Return the folders with a map: every package of the product and of `bench/`, but for the root."""
    return sorted({path.parent for path in sources(tests=False) if path.name == "__init__.py"} - {ROOT})


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_map_names_every_module(folder: Path) -> None:
    missing = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"} - names_in(map_of(folder))
    assert not missing, f"{folder.name}/__init__.py says what is in the folder: one sentence for each module"


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_map_names_nothing_that_is_not_there(folder: Path) -> None:
    first_words = [line.split()[0] for line in map_of(folder).splitlines() if re.match(r"[a-z_]+/? {2,}\S", line)]
    gone = [word for word in first_words if not ((folder / word).is_dir() or (folder / f"{word}.py").exists())]
    assert not gone


def test_the_root_names_every_folder() -> None:
    shipped = {folder.relative_to(ROOT).parts[0] for folder in folders()} - {"bench"}
    assert shipped <= names_in(map_of(ROOT))


def test_docstrings_are_sentences() -> None:
    counts: Counter[str] = Counter()
    for path, found in docstrings_by_file().items():
        counts[path.relative_to(ROOT).parts[0]] += sum(1 for text in found if FRAGMENT.match(text))
    worse = {folder: count for folder, count in counts.items() if count > FRAGMENTS_MAX.get(folder, 0)}
    assert not worse, "a docstring is a sentence with a subject or a verb, not 'Of ...': see docs/WORDS.md"
    better = {
        folder: counts[folder] for folder, most in FRAGMENTS_MAX.items() if counts[folder] < most - FRAGMENTS_SLACK
    }
    assert not better, "lower FRAGMENTS_MAX to these"


def test_words_to_avoid_become_fewer() -> None:
    texts_with_words = [(ROOT / page).read_text() for page in AVOIDED_IN]
    texts_with_words += ["\n".join(prose(path.read_text())) for path in sources(tests=False)]
    counts = {
        words: sum(len(re.findall(rf"\b(?:{words})\b", text, re.IGNORECASE)) for text in texts_with_words)
        for words in AVOIDED_MAX
    }
    worse = {words: (count, AVOIDED_MAX[words]) for words, count in counts.items() if count > AVOIDED_MAX[words]}
    assert not worse, "docs/WORDS.md has the word to write in place of each of these"


QUOTED = re.compile(r'"([^"]{8,})"')


def test_every_log_line_that_the_operations_page_quotes_is_logged() -> None:
    """A quotation may break off anywhere, and keeps the placeholders of the line."""
    said = {
        node.value
        for path in sources(tests=False)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    quoted = QUOTED.findall(" ".join((ROOT / "docs/operations.md").read_text().split()))
    assert len(quoted) > 10
    assert [line for line in quoted if not any(line in each for each in said)] == []


def test_every_metric_of_the_operations_page_is_on_the_page_of_metrics() -> None:
    known = (ROOT / "docs/metrics.md").read_text()
    named = set(re.findall(r"tierfetch_[a-z_]+", (ROOT / "docs/operations.md").read_text()))
    assert {name for name in named if name not in known} == set()


def drawn_layers() -> list[set[str]]:
    """Return the folders of each row of the picture, the top one first."""
    rows: dict[int, set[str]] = {}
    picture = (ROOT / "docs/architecture.svg").read_text()
    for box_y, folder in re.findall(
        r'<rect x="[\d.]+" y="(\d+)"[^>]*height="50"[^>]*/>\s*<text class="n"[^>]*>(\w+)/', picture
    ):
        rows.setdefault(int(box_y), set()).add(folder)
    return [rows[y] for y in sorted(rows)]


def test_the_picture_of_the_folders_shows_the_layers_that_are_checked() -> None:
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    layers = contracts["importlinter:contract:layers"]["layers"].strip().splitlines()
    assert drawn_layers() == [set(re.findall(r"tierfetch\.(\w+)", layer)) for layer in layers]

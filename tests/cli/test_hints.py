"""A command between backticks in a message is there to be copied: it exists, with its options and all that it needs."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

import tierfetch
from tierfetch.cli.admin.reassign_journal import default_path, to_type
from tierfetch.cli.main import cli

ROOT: Final = Path(tierfetch.__file__).parent
FOLDERS: Final = ("broker", "cli", "console", "controller", "log", "pipeline", "planning", "quorum", "remote", "rlm")
HINT: Final = re.compile(r"`tierfetch ([^`]+)`")
VALUE: Final = "VALUE"
"""In the place of what a message fills in."""
MENTIONED: Final = {
    "reassign execute": "a plan was not begun by it",
    "model capture": "a file is what it wrote",
    "dump-log": "logs are for it",
}
"""What is named without being a step to take."""


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module with the lines where they begin, but for docstrings."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            parts = [part.value if isinstance(part, ast.Constant) else VALUE for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def hints() -> Iterator[tuple[str, str]]:
    for folder in FOLDERS:
        for path in sorted(set((ROOT / folder).rglob("*.py")) - set((ROOT / "cli" / "reference").iterdir())):  # pages
            for line, text in messages(ast.parse(path.read_text())):
                for found in HINT.findall(text):
                    yield f"{path.relative_to(ROOT)}:{line}", found


def wrong_with(hint: str) -> str | None:
    """Return why a hint cannot be copied; None if it can."""
    words = shlex.split(hint)
    command: click.Command = cli
    while words and isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            return f"no command {words[0]}"
        command, words = found, words[1:]
    options = {option: each for each in command.params if isinstance(each, click.Option) for option in each.opts}
    given, arguments = set(), []
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            arguments.append(word)
            continue
        if word not in options:
            return f"no option {word}"
        given.add(word)
        if not options[word].is_flag:
            if not words:
                return f"{word} has no value"
            words.pop(0)
    missing = [name for name, each in options.items() if each.required and not given.intersection(each.opts)]
    needed = [each.name for each in command.params if isinstance(each, click.Argument) and each.required]
    missing += [str(name) for name in needed[len(arguments) :]]
    return f"without {', '.join(missing)}" if missing else None


def test_every_hint_can_be_copied() -> None:
    found = [(place, hint) for place, hint in hints() if VALUE not in hint.split()[:2] and hint not in MENTIONED]
    assert len(found) >= 5
    assert {place: f"`tierfetch {hint}`: {wrong}" for place, hint in found if (wrong := wrong_with(hint))} == {}


@pytest.mark.parametrize(
    ("hint", "wrong"),
    [
        ("topics list", None),
        ("reassign resume plan.json", None),
        ("reassign resume", "without plan_file"),
        ("configs alter --broker ID --remove KEY", None),
        ("configs alter --broker ID --rmove KEY", "no option --rmove"),
        ("topic list", "no command topic"),
        ("profile add NAME", "without --bootstrap"),
    ],
)
def test_the_check_sees_what_cannot_be_copied(hint: str, wrong: str | None) -> None:
    assert wrong_with(hint) == wrong


def test_a_plan_and_a_journal_with_spaces_can_be_copied() -> None:
    plan = Path("my plan.json")
    assert to_type("resume", plan) == to_type("resume", plan, default_path(plan))
    for verb in ("execute", "resume"):
        assert wrong_with(to_type(verb, plan, Path("/a b")).removeprefix("tierfetch ")) is None
    assert shlex.split(to_type("resume", plan, Path("/a b"))) == [
        *("tierfetch", "reassign", "resume", "my plan.json", "--journal", "/a b")
    ]

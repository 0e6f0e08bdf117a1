"""What `--help` teaches: each command begins with a verb, and shows itself at work once."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tierfetch.cli.main import cli
from tierfetch.tests.command_tree import commands


def paragraphs(path: list[str]) -> str:
    """Return the help of a command without its usage line and its options."""
    output = CliRunner().invoke(cli, [*path, "--help"], terminal_width=120).output
    return output.split("\n\n", 1)[1].split("\nOptions:")[0]


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_help_has_an_example(path: list[str]) -> None:
    assert f"  tierfetch {' '.join(path)}" in paragraphs(path), "one line that a reader can copy"


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_examples_keep_their_lines(path: list[str]) -> None:
    output = CliRunner().invoke(cli, [*path, "--help"]).output
    assert "\\b" not in output, "click's mark for a block, in a raw docstring"


@pytest.mark.parametrize("path", commands(runnable=True), ids=" ".join)
def test_every_option_says_what_it_is_for(path: list[str]) -> None:
    lines = CliRunner().invoke(cli, [*path, "--help"], terminal_width=200).output.split("\nOptions:\n")[1].splitlines()
    bare = [line for line in lines if line.startswith("  -") and len(line.split("  ")) < 3]
    following = [lines[lines.index(line) + 1 :][:1] for line in bare]
    assert not [line for line, after in zip(bare, following, strict=True) if not after or after[0].startswith("  -")]

"""Data-driven tests: a text file with commands, and below each what it prints.

    # a comment
    command word key=value
    ----
    what the command prints, up to the next empty line

A test calls `check(path, run, rewrite=...)`, with `run(words, options) -> text`. `pytest --rewrite` writes what is
printed now into the files: commit such a change only if you understand what caused it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

SEPARATOR = "----"

Run = Callable[[list[str], dict[str, str]], Awaitable[str]]


@dataclass(frozen=True)
class Step:
    """`lead`: comments and empty lines before the command, as they are."""

    lead: tuple[str, ...]
    command: str
    expected: str

    def words(self) -> list[str]:
        return [word for word in self.command.split() if "=" not in word]

    def options(self) -> dict[str, str]:
        pairs = (word.split("=", 1) for word in self.command.split() if "=" in word)
        return {name: value for name, value in pairs}


def parse(text: str) -> list[Step]:
    steps: list[Step] = []
    lead: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if not line.strip() or line.startswith("#"):
            lead.append(line)
            continue
        separator = next(lines, "")
        assert separator == SEPARATOR, f"{line!r} is followed by {separator!r}, not by {SEPARATOR}"
        expected: list[str] = []
        for printed in lines:
            if not printed.strip():
                break
            expected.append(printed)
        steps.append(Step(tuple(lead), line, "\n".join(expected)))
        lead = []
    return steps


def render(steps: list[tuple[Step, str]]) -> str:
    blocks = []
    for step, printed in steps:
        lead = "".join(f"{line}\n" for line in step.lead)
        blocks.append(f"{lead}{step.command}\n{SEPARATOR}\n{printed}\n")
    return "\n".join(blocks)


async def check(path: Path, run: Run, *, rewrite: bool) -> None:
    """Run the file's commands in order; compare, or rewrite."""
    steps = parse(path.read_text())
    printed = [(step, (await run(step.words(), step.options())).rstrip()) for step in steps]
    if rewrite:
        path.write_text(render(printed))
        return
    for step, text in printed:
        assert text == step.expected, f"{path.name}: {step.command}\n{text}"

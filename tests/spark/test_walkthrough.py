"""docs/spark.md is executed: its Python in order in one namespace, its commands too, and what they print is compared.

    ```python     runs; what it prints is compared with the ```text block that follows, if one does
    ```bash       lines that begin with `tierfetch` run, with the same comparison; others are for the reader

In an expected text `...` stands for anything, within a line or as a line of its own for any lines.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tierfetch.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "spark.md"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code, where it begins, and what it has to print (None: nobody cares)."""

    language: str
    code: str
    line: int
    expected: str | None


def blocks(text: str) -> Iterator[Block]:
    found = list(_FENCE.finditer(text))
    for index, match in enumerate(found):
        if match[1] not in ("python", "bash"):
            continue
        following = found[index + 1] if index + 1 < len(found) else None
        expected = following[2] if following is not None and following[1] == "text" else None
        yield Block(match[1], match[2], text[: match.start()].count("\n") + 1, expected)


def run_python(code: str, namespace: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(PAGE), "exec"), namespace)
    return printed.getvalue()


def run_commands(code: str) -> str:
    printed = []
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["tierfetch"]:
            result = CliRunner().invoke(cli, words[1:])
            assert result.exception is None or isinstance(result.exception, SystemExit), result.output
            printed.append(result.stdout)
    return "".join(printed)


def pattern(expected: str) -> re.Pattern[str]:
    lines = [r"(?:.*\n)*?" if line.strip() == "..." else _line(line) for line in expected.rstrip("\n").split("\n")]
    return re.compile("".join(lines))


def _line(line: str) -> str:
    return r".*?".join(re.escape(part.rstrip()) for part in line.split("...")) + r"[^\S\n]*\n"


def test_P1_the_walk_through_prints_what_it_says(spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    namespace: dict[str, Any] = {"__name__": "walkthrough"}
    ran = 0
    for block in blocks(PAGE.read_text()):
        where = f"docs/spark.md line {block.line}"
        printed = run_python(block.code, namespace) if block.language == "python" else run_commands(block.code)
        if block.expected is not None:
            assert pattern(block.expected).fullmatch(printed), f"{where} printed:\n{printed}"
        ran += 1
    assert ran > 10

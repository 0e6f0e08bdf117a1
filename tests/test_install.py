"""`make install` says what it is at and how long it took. Python and uv are programs that note how they are called."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .test_tidy import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")

FAKE = """#!/bin/sh
echo "$(basename "$0") $*" >> calls
case "$*" in
  "-m venv "*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  *"-m pip install -q --disable-pip-version-check uv") cp "$0" .venv/bin/uv ;;
esac
test ! -e fails || test "$(basename "$0")" != uv
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("pyproject.toml", "constraints.txt", "__init__.py"):
        (tmp_path / name).touch()
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "python3").write_text(FAKE)
    (tmp_path / "python3").chmod(0o755)
    return tmp_path


def install(checkout: Path) -> list[str]:
    """Run it without a uv of the machine, and return the lines that it prints."""
    tools = "/usr/bin:/bin"
    command = ["make", "--no-print-directory", "install", "PYTHON=./python3", "UV=.venv/bin/uv"]
    environment = {"PATH": tools, "HOME": os.environ.get("HOME", "/"), "UV_DEFAULT_INDEX": "https://index.example"}
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_each_step_says_what_it_is_and_the_end_how_long_it_took(checkout: Path) -> None:
    *steps, end = install(checkout)
    assert [step.partition(",")[0] for step in steps] == [
        "1/3 a virtual environment in .venv",
        "2/3 uv",
        "3/3 packages (a minute at most once they are in the cache of downloads)",
    ]
    assert re.match(r"installed in \d+ s; ", end)
    assert (checkout / ".types/tierfetch").resolve() == checkout.resolve()


def test_what_is_there_is_not_made_again(checkout: Path) -> None:
    install(checkout)
    assert install(checkout) == ["make: Nothing to be done for 'install'."]
    (checkout / "pyproject.toml").write_text("# with another package")
    os.utime(checkout / ".venv/.installed", (0, 0))
    steps = install(checkout)
    assert [step[:3] for step in steps] == ["3/3", "ins"]


def test_pip_does_it_where_uv_cannot_and_says_so(checkout: Path) -> None:
    (checkout / "fails").touch()
    assert "uv could not: pip does it, which takes minutes" in install(checkout)
    last = (checkout / "calls").read_text().splitlines()[-1]
    assert last.startswith("python -m pip install --disable-pip-version-check --progress-bar on")
    assert last.endswith("--group dev -e .[demo,docs]")

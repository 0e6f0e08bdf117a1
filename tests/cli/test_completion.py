"""Shell completion is click's own: what docs/controller.md says in one line works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIERFETCH = Path(sys.executable).parent / "tierfetch"


def completed(*words: str, last: str = "") -> list[str]:
    """Return what a shell would offer after these words."""
    line = " ".join(["tierfetch", *words, last])
    variables = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) + 1), "_TIERFETCH_COMPLETE": "bash_complete"}
    result = subprocess.run(
        [TIERFETCH], env={**os.environ, **variables}, capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stderr == ""
    return [line.partition(",")[2] for line in result.stdout.splitlines()]


def test_commands_and_options_are_completed() -> None:
    assert completed(last="prof") == ["profile"]
    assert completed("topics", last="al") == ["alter"]
    assert "--dry-run" in completed("topics", "alter", "t", last="--")
    assert completed("brokers", "wait", "3", last="--wa") == ["--warm"]


def test_a_completion_asks_no_cluster_and_reads_no_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "tierfetch").mkdir()
    (tmp_path / "tierfetch" / "profiles.json").write_text("{")
    assert "--json" in completed("topics", "list", last="--")
    assert "--json" in completed("topics", "delete", "t", last="--")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_line_of_the_page_installs_it() -> None:
    (line,) = re.findall(r"`(eval [^`]*)`", (ROOT / "docs" / "controller.md").read_text())
    environment = {**os.environ, "PATH": f"{TIERFETCH.parent}{os.pathsep}{os.environ['PATH']}"}
    shown = subprocess.run(
        ["bash", "--norc", "-c", f"{line}; complete -p tierfetch"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "_tierfetch_completion tierfetch" in shown.stdout

"""What is stopped can clean up; what ends by itself, or before it is ready, says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tierfetch.bench.lab import child
from tierfetch.bench.lab.child import CHILD, exit_code, started

SLEEPING = """
import sys, time
print("begun", flush=True)
try:
    time.sleep(600)
finally:
    print("cleaned up")
"""


def test_the_exit_code_and_what_was_said(tmp_path: Path) -> None:
    program = "import os, sys; print(os.environ['NAMED']); sys.exit(7)"
    assert exit_code([sys.executable, "-c", program], tmp_path / "output", 60.0, {"NAMED": "so"}) == 7
    assert (tmp_path / "output").read_text() == "so\n"


def test_what_takes_too_long_is_interrupted_and_cleans_up(tmp_path: Path) -> None:
    output = tmp_path / "output"
    assert exit_code([sys.executable, "-c", SLEEPING], output, 5.0) is None
    assert output.read_text().startswith("begun\ncleaned up\n")


def test_what_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "STOP_S", 0.1)
    deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)"
    assert exit_code([sys.executable, "-c", deaf], tmp_path / "output", 2.0) is None


def test_a_block_has_what_is_ready_and_ends_it(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with started(
        "x", [sys.executable, "-c", SLEEPING], output, lambda: "begun" in output.read_text(), OSError
    ) as found:
        process = found[CHILD]
        assert process.poll() is None
    assert process.poll() is not None


def test_what_ends_before_it_is_ready_is_an_error_with_what_it_said(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import sys; sys.exit('no such port')"]
    with (
        pytest.raises(OSError, match="the server ended: no such port"),
        started("the server", program, tmp_path / "output", lambda: False, OSError),
    ):
        raise AssertionError("it never was ready")

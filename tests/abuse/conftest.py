"""The honest client of a test, and what it and its node went through. Every test here is marked `abuse` and `slow`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

HONEST: Final = "tierfetch.tests.abuse.honest"
WAIT_S_MAX: Final = 5.0
"""Generous, for a loaded machine; on a quiet one it stays below 1 s, and unit tests count slices."""
RESIDENT_BYTES_MAX: Final = 400 * 1024 * 1024
START_TIMEOUT_S: Final = 30.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.abuse)
            item.add_marker(pytest.mark.slow)


@dataclass
class Honest:
    """A running honest client."""

    path: Path
    pid: int
    """Of the node."""
    read: int = 0

    def outcomes(self) -> list[tuple[str, float, str]]:
        """What has ended since the last call."""
        lines = self.path.read_text()[self.read :]
        whole = lines[: lines.rfind("\n") + 1]
        self.read += len(whole)
        return [
            (name, float(took), outcome) for name, took, outcome in (each.split(" ", 2) for each in whole.splitlines())
        ]

    def resident_bytes(self) -> int:
        """The most memory that the node has had so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])

    def wait_for_each(self, kinds: int) -> list[tuple[str, float, str]]:
        """Wait until an operation of each kind has begun and ended; return what has ended."""
        ended: list[tuple[str, float, str]] = []
        counts: dict[str, int] = {}
        deadline_s = time.monotonic() + START_TIMEOUT_S + 60
        while sum(count >= 2 for count in counts.values()) < kinds:
            assert time.monotonic() < deadline_s, f"the honest client stands still: {ended[-3:]}"
            time.sleep(0.05)
            new = self.outcomes()
            ended += new
            for name, _, _ in new:
                counts[name] = counts.get(name, 0) + 1
        return ended


@contextmanager
def honest_client(port: int, topic: str, pid: int, base: Path) -> Iterator[Honest]:
    path = base / f"honest-{port}.txt"
    path.touch()
    client = subprocess.Popen([sys.executable, "-m", HONEST, str(port), topic, str(path)], env=os.environ)
    try:
        yield Honest(path, pid)
    finally:
        client.kill()
        client.wait()


def judge(honest: Honest, kinds: int, name: str) -> None:
    """Nothing failed, nothing waited for long, and the node stayed small."""
    ended = honest.wait_for_each(kinds)
    longest = {kind: max(took for each, took, _ in ended if each == kind) for kind in {each for each, _, _ in ended}}
    resident = honest.resident_bytes()
    shown = ", ".join(f"{kind} {took:.2f} s" for kind, took in sorted(longest.items()))
    sys.stdout.write(f"\n{name}: longest wait: {shown}; {len(ended)} operations; {resident >> 20} MiB at most\n")
    assert [outcome for _, _, outcome in ended if outcome != "ok"] == []
    assert max(longest.values()) < WAIT_S_MAX
    assert resident < RESIDENT_BYTES_MAX

"""A node under attack, with an honest client beside it: whether it serves, stays small, and says nothing of itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tierfetch.cli.local.nodes import LocalNodes

HONEST: Final = "tierfetch.tests.abuse.honest"
ONLY_PINGS: Final = "-"
"""In place of a topic."""
KINDS: Final = 3
"""Pings, small records, large records."""
WAIT_S_MAX: Final = 5.0
"""Generous, for a loaded machine; on a quiet one it stays below 1 s, and unit tests count slices."""
RESIDENT_BYTES_MAX: Final = 400 * 1024 * 1024
START_TIMEOUT_S: Final = 30.0
COMPLAINT: Final = re.compile(r"^.*(?:Traceback|[Ii]nternal error).*$", re.MULTILINE)


@dataclass
class Honest:
    """A running honest client."""

    path: Path
    kinds: int
    """How many kinds of operations it has."""
    read: int = 0

    def outcomes(self) -> list[tuple[str, float, str]]:
        """Return what has ended since the last call."""
        lines = self.path.read_text()[self.read :]
        whole = lines[: lines.rfind("\n") + 1]
        self.read += len(whole)
        return [
            (name, float(took), outcome) for name, took, outcome in (each.split(" ", 2) for each in whole.splitlines())
        ]

    def wait_for_each(self) -> list[tuple[str, float, str]]:
        """Wait until an operation of each kind has begun and ended; return what has ended."""
        ended: list[tuple[str, float, str]] = []
        counts: dict[str, int] = {}
        deadline_s = time.monotonic() + START_TIMEOUT_S + 60
        while sum(count >= 2 for count in counts.values()) < self.kinds:
            assert time.monotonic() < deadline_s, f"the honest client stands still: {ended[-3:]}"
            time.sleep(0.05)
            new = self.outcomes()
            ended += new
            for name, _, _ in new:
                counts[name] = counts.get(name, 0) + 1
        return ended


@contextmanager
def honest_client(port: int, topic: str, base: Path) -> Iterator[Honest]:
    path = base / f"honest-{port}.txt"
    path.touch()
    client = subprocess.Popen([sys.executable, "-m", HONEST, str(port), topic, str(path)], env=os.environ)
    try:
        yield Honest(path, 1 if topic == ONLY_PINGS else KINDS)
    finally:
        client.kill()
        client.wait()


@dataclass
class NewLog:
    """What a node has logged since the last look: a test is judged by what it brought about, not by the one before."""

    path: Path
    read: int = 0

    def check(self) -> None:
        """Assert that nothing new in it is a complaint of the node about itself."""
        with self.path.open("rb") as log:
            log.seek(self.read)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]
        self.read += len(whole)
        text = whole.decode("utf-8", "replace")
        found = COMPLAINT.search(text)
        assert found is None, text[max(0, found.start() - 500) : found.end() + 5000]


@dataclass
class Watched:
    """A node, and the honest client beside it."""

    nodes: LocalNodes
    node: int
    honest: Honest
    log: NewLog = field(init=False)

    def __post_init__(self) -> None:
        self.log = NewLog(self.nodes.log_file(self.node))

    def check(self, name: str) -> None:
        """Assert that nothing failed, nothing waited for long, and the node runs, stayed small and did not complain."""
        ended = self.honest.wait_for_each()
        self.log.check()
        assert self.nodes.process(self.node).poll() is None, f"it has ended: {self.nodes.log_tail(self.node)}"
        kinds = {each for each, _, _ in ended}
        longest = {kind: max(took for each, took, _ in ended if each == kind) for kind in kinds}
        resident = self._resident_bytes()
        shown = ", ".join(f"{kind} {took:.2f} s" for kind, took in sorted(longest.items()))
        sys.stdout.write(f"\n{name}: longest wait: {shown}; {len(ended)} operations; {resident >> 20} MiB at most\n")
        assert [outcome for _, _, outcome in ended if outcome != "ok"] == []
        assert max(longest.values()) < WAIT_S_MAX
        assert resident < RESIDENT_BYTES_MAX

    def _resident_bytes(self) -> int:
        """Return the most memory that the node has had so far."""
        status = Path(f"/proc/{self.nodes.process(self.node).pid}/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])


@contextmanager
def watched_node(nodes: LocalNodes, node: int, topic: str, base: Path) -> Iterator[Watched]:
    with honest_client(nodes.port(node), topic, base) as honest:
        yield Watched(nodes, node, honest)

"""Election after the leader's death: three controller processes, the leader killed with SIGKILL, again and again.

Measured from the kill until a survivor says that it leads, by its own log lines (millisecond stamps of one clock). Two
cases: "killed", where the survivors notice that the leader's connections were closed and its port no longer listens;
and "frozen" (SIGSTOP), where its sockets stay open and only the fetch timeout shows it. For the second the bound is the
fetch timeout plus pre-vote, vote and their fsyncs.
"""

from __future__ import annotations

import datetime
import re
import signal
import time
from pathlib import Path
from typing import Final

from tierfetch.cli.local import LocalQuorum, poll

from .measure import Results
from .systems import System

ELECTIONS: Final = 50
SILENT_ELECTIONS: Final = 10
LEADER_TIMEOUT_S: Final = 20.0
CAUGHT_UP_TIMEOUT_S: Final = 20.0
_LEADS = re.compile(r"^(\S+ \S+) INFO \S+: replica (\d+): candidate -> leader, epoch (\d+)", re.MULTILINE)


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    """`runs` is not looked at: the median of 50 is what is asked for."""
    del total_mb, runs
    if system.name != "tierfetch":
        return
    with LocalQuorum(base) as quorum:
        _wait_leader(quorum, 0)
        for _ in range(ELECTIONS):
            results.add(
                "election", "leader killed", system.name, "kill to new leader", _once(quorum, freeze=False), "s"
            )
        for _ in range(SILENT_ELECTIONS):
            results.add(
                "election", "leader frozen", system.name, "freeze to new leader", _once(quorum, freeze=True), "s"
            )


def _once(quorum: LocalQuorum, *, freeze: bool) -> float:
    """Seconds from the leader's death to its successor."""
    _wait_caught_up(quorum)
    node, epoch, _ = _newest(quorum)
    began = time.time()
    if freeze:
        quorum.process(node).send_signal(signal.SIGSTOP)
    else:
        quorum.kill(node)
    took = _wait_leader(quorum, epoch) - began
    if freeze:
        quorum.kill(node)
    quorum.start(node)
    quorum.wait_serving(node)
    return took


def _newest(quorum: LocalQuorum) -> tuple[int, int, float]:
    """(node, epoch, Unix time) of the latest election in the logs; epoch 0 before the first."""
    found = [
        (int(match[3]), int(match[2]), _unix_time(match[1]))
        for node in quorum.nodes
        for match in _LEADS.finditer(quorum.log_file(node).read_text(errors="replace"))
    ]
    epoch, node, at = max(found, default=(0, 0, 0.0))
    return node, epoch, at


def _unix_time(text: str) -> float:
    return datetime.datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()


def _wait_leader(quorum: LocalQuorum, above_epoch: int) -> float:
    """When a leader of a later epoch said so."""
    for _ in poll(LEADER_TIMEOUT_S, f"a leader after epoch {above_epoch}"):
        _, epoch, at = _newest(quorum)
        if epoch > above_epoch:
            return at
    raise AssertionError("poll raises")


def _wait_caught_up(quorum: LocalQuorum) -> None:
    """All three follow one leader, and have what it has: otherwise a restarted voter could not win."""
    for _ in poll(CAUGHT_UP_TIMEOUT_S, "three voters that are in step", interval_s=0.1):
        status = quorum.status()
        if status["MaxFollowerLag"] == 0:
            return

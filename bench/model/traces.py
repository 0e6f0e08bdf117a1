"""What brokers say of one run: lines of their logs, and tierfetch's metrics. Reading is pure, fetching is not.

    instant         tierfetch                                       Apache Kafka
    --------------  ----------------------------------------------  ---------------------------------------------------
    up              "asking the controllers"                        "Starting SharedServer"
    replayed        "controller ... is active in epoch"             "The loader finished catching up"
    asked           tierfetch_replica_first_fetch_timestamp_...     "Added fetcher to broker ... TOPIC-N ->"
    settled         "TOPIC-N-ID: replication starts at"             "Truncating partition TOPIC-N with"
    rebuilt         -                                               "Updated the epoch cache from remote tier till ..."
    in the ISR      the leader: "TOPIC-N-ID: ISR [1] -> [1, 2]"      "[Partition TOPIC-N broker=1] ISR updated to 1,2"
    tier, throttle, append   tierfetch_replica_wait_seconds_total   -

A line that is not there, or is worded otherwise in another version, leaves its instant unknown. Metrics of a replica
begin again with a leader epoch: those of a replica whose leader has left once it had come are of what came after.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from tierfetch.cli.demo.scenario import Metrics, read_metrics
from tierfetch.cli.local import LocalCluster
from tierfetch.model import System

from .breakdown import Trace
from .lab import Lab

STAMP_CHARACTERS: Final = 23
UP: Final[Mapping[System, str]] = {"tierfetch": "asking the controllers", "kafka": "Starting SharedServer"}
REPLAYED: Final[Mapping[System, str]] = {
    "tierfetch": "is active in epoch",
    "kafka": "The loader finished catching up",
}
_ISR: Final[Mapping[System, re.Pattern[str]]] = {
    "tierfetch": re.compile(
        r"leadership: (?P<topic>\S+)-(?P<number>\d+)-[\w-]{22}: ISR \[.*\] -> \[(?P<isr>[\d, ]+)\]"
    ),
    "kafka": re.compile(r"\[Partition (?P<topic>\S+)-(?P<number>\d+) broker=\d+\] ISR updated to (?P<isr>[\d,]+)"),
}
_CHANGE: Final[Mapping[System, bytes]] = {"tierfetch": b"] -> [", "kafka": b"ISR updated to "}
_FIRST: Final = "tierfetch_replica_first_fetch_timestamp_seconds"
_STARTS: Final[Mapping[System, str]] = {
    "tierfetch": r"replica_fetcher: (?P<topic>\S+)-(?P<number>\d+)-[\w-]{22}: replication starts at",
    "kafka": r"Truncating partition (?P<topic>\S+)-(?P<number>\d+) with",
}
"""Where a replica continues is settled."""
_REBUILT: Final = re.compile(
    r"Updated the epoch cache from remote tier till offset: \d+ with size: \d+ for"
    r" Topic: (?P<topic>\S+); Partition: (?P<number>\d+);"
)
_WAITED: Final = "tierfetch_replica_wait_seconds_total"


@dataclass(slots=True)
class Said:
    """What one broker said: instants in unix seconds, by partition where they are of one."""

    up_s: float | None = None
    replayed_s: float | None = None
    asked_s: dict[int, float] = field(default_factory=dict)
    settled_s: dict[int, float] = field(default_factory=dict)
    rebuilt_s: dict[int, float] = field(default_factory=dict)
    """When Apache Kafka's had its leader epochs from the tier, the last time; its producer state follows at once."""
    joined_s: dict[tuple[int, int], float] = field(default_factory=dict)
    """When a broker was in the ISR again, by partition and broker; the last time."""
    waited_s: dict[tuple[int, str], float] = field(default_factory=dict)
    """Seconds, by partition and reason."""


def read_lines(system: System, topic: str, lines: Iterable[str]) -> Said:
    """Return what lines of a log say of a start, and of this topic."""
    said = Said()
    in_sync: dict[int, frozenset[int]] = {}
    for line in lines:
        at_s = _stamp(line)
        if at_s is None:
            continue
        if said.up_s is None and UP[system] in line:
            said.up_s = at_s
        elif said.replayed_s is None and REPLAYED[system] in line:
            said.replayed_s = at_s
        elif (found := _ISR[system].search(line)) is not None and found["topic"] == topic:
            number = int(found["number"])
            isr = frozenset(map(int, found["isr"].replace(" ", "").split(",")))
            for broker in isr - in_sync.get(number, frozenset()):
                said.joined_s[number, broker] = at_s
            in_sync[number] = isr
        else:
            _note_replica(said, system, topic, line, at_s)
    return said


def _note_replica(said: Said, system: System, topic: str, line: str, at_s: float) -> None:
    """Note what a line says of one replica that the broker follows, or of those that a fetcher was given."""
    if (found := re.search(_STARTS[system], line)) is not None and found["topic"] == topic:
        said.settled_s.setdefault(int(found["number"]), at_s)
    elif (found := _REBUILT.search(line)) is not None and found["topic"] == topic:
        said.rebuilt_s[int(found["number"])] = at_s
    elif system == "kafka" and "Added fetcher to broker" in line:
        for number in re.findall(rf"(?<![\w.-]){re.escape(topic)}-(\d+) ->", line):
            said.asked_s.setdefault(int(number), at_s)


def _stamp(line: str) -> float | None:
    try:
        text = line[:STAMP_CHARACTERS].replace(",", ".")
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f").astimezone().timestamp()
    except ValueError:
        return None


def add_metrics(said: Said, topic: str, metrics: Metrics) -> None:
    """Add what the broker's metrics say of the replicas that it follows."""
    for name, labels, value in metrics.samples:
        if labels.get("topic") != topic:
            continue
        if name == _FIRST:
            said.asked_s[int(labels["partition"])] = value
        elif name == _WAITED:
            said.waited_s[int(labels["partition"]), labels["reason"]] = value


def trace_of(
    said: Said, number: int, *, joined_s: float, ordered_s: float | None = None, asked_s: float | None = None
) -> Trace:
    """Return what is known of one replica on the broker that said it; `asked_s`: of the first one that counts."""
    own_s = said.asked_s.get(number)
    is_of_later = own_s is not None and own_s > joined_s

    def waited_s(reason: str) -> float | None:
        return None if is_of_later else said.waited_s.get((number, reason))

    return Trace(
        up_s=said.up_s,
        replayed_s=said.replayed_s,
        ordered_s=ordered_s,
        asked_s=(None if is_of_later else own_s) if asked_s is None else asked_s,
        settled_s=said.settled_s.get(number),
        joined_s=joined_s,
        tier_s=waited_s("tier"),
        throttle_s=waited_s("throttle"),
        append_s=waited_s("append"),
    )


class Logs:
    """The logs of a lab's brokers from now on."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._from = {node: _size(lab.cluster.log_file(node)) for node in lab.broker_ids}
        self._counted = dict(self._from)

    def said(self, node: int, topic: str) -> Said:
        """Return what this broker has said since, its metrics too where it has some."""
        with self._lab.cluster.log_file(node).open("rb") as log:
            log.seek(self._from[node])
            said = read_lines(self._lab.system, topic, log.read().decode(errors="replace").splitlines())
        cluster = self._lab.cluster
        if isinstance(cluster, LocalCluster):
            add_metrics(said, topic, read_metrics(cluster.metrics_url(node)))
        return said

    def changes_of_isrs(self, node: int) -> int:
        """Return how many changes of ISRs this broker has logged since the last call. Nothing is parsed."""
        with self._lab.cluster.log_file(node).open("rb") as log:
            log.seek(self._counted[node])
            lines, end, _ = log.read().rpartition(b"\n")
        self._counted[node] += len(lines) + len(end)
        return lines.count(_CHANGE[self._lab.system])


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0

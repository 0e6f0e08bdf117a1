"""What happened in a run, to whom and for how long: read from the lines of its trace and the history of its clients.

| lines                                          | become                                                        |
|------------------------------------------------|---------------------------------------------------------------|
| starts, is up, pauses, resumes, crash, is down | the states of a node, one after the other                     |
| begin ... for ... ms                           | a fault, as long as it was drawn                              |
| __cluster_metadata-0 ... leader leader=        | who leads the quorum, until it goes down or another one leads |
| topic-0 PartitionRegistration(...)             | leader, epoch and ISR of a partition, until the next one      |

Lines of any other form say nothing here. Times are virtual seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Final

from ...light_dataclass import dataclass
from ..judges.core.history import History

_LINE: Final = re.compile(r"\s*(\d+\.\d+) (\S+)\s+(.*)")
_FAULT: Final = re.compile(r"begin +\d+ ms +(.*) for (\d+) ms$")
_QUORUM: Final = re.compile(r"__cluster_metadata-0 epoch=(\d+) (\S+) ")
_PARTITION: Final = re.compile(
    r"(\S+-\d+) PartitionRegistration\(leader=(-?\d+), leader_epoch=(\d+),.* isr=\(([\d, ]*)\)"
)
OVER: Final = "all over"
NO_LEADER: Final = -1


class State(StrEnum):
    """What a node's process does."""

    DOWN = "down"
    STARTING = "starting"
    UP = "up"
    PAUSED = "paused"


_STATES: Final = (
    ("starts, run", State.STARTING),
    ("is up", State.UP),
    ("pauses", State.PAUSED),
    ("resumes", State.UP),
    ("process crash", State.DOWN),
    ("machine crash", State.DOWN),
    ("is down", State.DOWN),
    ("failed:", State.DOWN),
)


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted from one moment to another."""

    begin_s: float
    end_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Led:
    """A partition under one leader (`NO_LEADER` without) in one epoch, with one ISR."""

    begin_s: float
    end_s: float
    leader: int
    epoch: int
    isr: tuple[int, ...]


@dataclass(slots=True)
class Timeline:
    """See the module's docstring. `acknowledged` and `read` are (moment, records)."""

    end_s: float
    nodes: dict[str, list[Span]] = field(default_factory=dict)
    faults: list[Span] = field(default_factory=list)
    quorum: dict[str, list[Span]] = field(default_factory=dict)
    partitions: dict[str, list[Led]] = field(default_factory=dict)
    calm_s: float | None = None
    """When the faults are over; None if the run ended before."""
    acknowledged: list[tuple[float, int]] = field(default_factory=list)
    read: list[tuple[float, int]] = field(default_factory=list)


def timeline_of(lines: Iterable[str], end_s: float, history: History) -> Timeline:
    """Return what the lines of a run say, and what its clients were answered."""
    found = Timeline(end_s)
    states: dict[str, list[tuple[float, State]]] = {}
    leads: list[tuple[float, str, int]] = []
    changes: dict[str, list[Led]] = {}
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        at_s, host, text = float(match[1]), match[2], match[3]
        if host == "faults":
            _note_fault(found, at_s, text)
        elif host == "metadata":
            _note_partition(changes, at_s, text)
        elif (quorum := _QUORUM.match(text)) is not None and quorum[2] == "leader":
            leads.append((at_s, host, int(quorum[1])))
        else:
            for beginning, state in _STATES:
                if text.startswith(beginning):
                    states.setdefault(host, []).append((at_s, state))
    found.nodes = {host: _spans(states[host], end_s) for host in sorted(states, key=_place)}
    found.partitions = {name: _until_the_next(changes[name], end_s) for name in sorted(changes)}
    _note_quorum(found, leads)
    found.acknowledged = [
        (send.completed_ms / 1000, len(send.values)) for send in history.sends if send.is_acknowledged_by_all
    ]
    found.read = [(poll.completed_ms / 1000, len(poll.records)) for poll in history.polls if poll.records]
    return found


def _note_fault(found: Timeline, at_s: float, text: str) -> None:
    if text.startswith(OVER):
        found.calm_s = at_s
    elif (fault := _FAULT.match(text)) is not None:
        found.faults.append(Span(at_s, at_s + int(fault[2]) / 1000, fault[1]))


def _note_partition(changes: dict[str, list[Led]], at_s: float, text: str) -> None:
    change = _PARTITION.match(text)
    if change is not None:
        isr = tuple(int(member) for member in change[4].replace(",", " ").split())
        changes.setdefault(change[1], []).append(Led(at_s, at_s, int(change[2]), int(change[3]), isr))


def _note_quorum(found: Timeline, leads: Sequence[tuple[float, str, int]]) -> None:
    """A node leads until another one does, or its process is not there any longer."""
    ends = [*[at_s for at_s, _, _ in leads], found.end_s][1:]
    for (at_s, host, epoch), next_s in zip(leads, ends, strict=True):
        downs = [span.begin_s for span in found.nodes.get(host, []) if span.text == State.DOWN and span.begin_s > at_s]
        found.quorum.setdefault(host, []).append(Span(at_s, min([next_s, *downs]), f"epoch {epoch}"))


def _spans(changes: Sequence[tuple[float, State]], end_s: float) -> list[Span]:
    ends = [at_s for at_s, _ in changes[1:]] + [end_s]
    return [Span(at_s, until_s, str(state)) for (at_s, state), until_s in zip(changes, ends, strict=True)]


def _until_the_next(changes: Sequence[Led], end_s: float) -> list[Led]:
    ends = [change.begin_s for change in changes[1:]] + [end_s]
    return [
        Led(each.begin_s, until_s, each.leader, each.epoch, each.isr)
        for each, until_s in zip(changes, ends, strict=True)
    ]


def _place(host: str) -> tuple[bool, str]:
    """Controllers first, then the rest, by name."""
    return not host.startswith("controller"), host

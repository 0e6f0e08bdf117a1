"""Who votes in the quorum (KIP-853), by the history of voter sets of each replica. Pure.

| invariant          | violated when                                                                                  |
|--------------------|------------------------------------------------------------------------------------------------|
| one line of voters | two replicas have different voters committed at one offset, or one goes back to earlier ones    |
| one voter at a time | a committed set differs from the one before it by more than one voter                          |
| committed first    | a leader appends another set while the one before it is not committed                          |
| voters of the log  | a replica goes by a set whose record is no longer in its log                                   |
| caught up voter    | a voter is added whose disk lacks what was committed when its addition was asked for; of one   |
|                    | that joins by itself: what was a fetch timeout ago                                             |
| removed leader     | a replica leads although a set without it is committed, and it knows that                      |

A set that a snapshot states is of all the log below it: its offset is that of the last record there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import Final

from .....quorum import ReplicaKey, VotersAt, VoterSet
from ..events import Observed, QuorumCommitted, VoterAddAnswered, VoterAddAsked, VotersMoved
from ..partition import InvariantViolationError

CLOCK_SLACK_S: Final = 0.1
"""Deadlines are in whole milliseconds, and fire a little later."""


class VotersJudge:
    """`holds` says whether the disk of a node has everything below an offset. `fetch_timeout_s`: how long a replica
    that adds itself counts as level after it was.
    """

    def __init__(
        self, holds: Callable[[int, int], bool], now_s: Callable[[], float], *, fetch_timeout_s: float
    ) -> None:
        self._holds = holds
        self._now_s = now_s
        self._fetch_timeout_s = fetch_timeout_s
        self._line: list[tuple[int, VoterSet]] = []
        """The committed sets, by offset; equal ones in a row are one."""
        self._last: dict[str, VotersMoved] = {}
        self._commits: list[tuple[float, int]] = [(0.0, 0)]
        """When everything below which offset was committed."""
        self._asked: dict[int, int] = {}
        """What was committed when it was asked for first, by requests that may still be carried out, by voter."""
        self.changes = 0
        """The number of committed changes of who votes."""

    @property
    def voter_ids(self) -> list[int]:
        """The ids of the newest committed set."""
        return _ids(self._line[-1][1]) if self._line else []

    def on(self, event: Observed) -> None:
        match event:
            case QuorumCommitted(end_offset):
                if end_offset > self._commits[-1][1]:
                    self._commits.append((self._now_s(), end_offset))
            case VoterAddAsked(voter):
                self._asked.setdefault(voter, self._commits[-1][1])
            case VoterAddAnswered(voter):
                self._asked.pop(voter, None)
            case VotersMoved():
                self._moved(event)

    def _moved(self, now: VotersMoved) -> None:
        """InvariantViolationError."""
        latest = now.entries[-1]
        if latest.offset >= now.end_offset:
            detail = f"{now.host} goes by {_text(latest)}, its log ends at {now.end_offset}"
            raise InvariantViolationError("voters of the log", detail)
        before = self._last.get(now.host)
        if before is not None and now.leads and (before.run, before.epoch) == (now.run, now.epoch) and before.leads:
            self._check_appended(before.entries[-1], now)
        self._last[now.host] = now
        for entry in now.entries:
            if entry.offset < now.high_watermark and entry.voters.nodes:
                self._committed(now.host, entry)
        is_gone = not latest.voters.contains(now.key) and latest.offset < now.high_watermark
        if now.leads and is_gone:
            detail = f"{now.host} leads epoch {now.epoch}, committed is {_text(latest)}"
            raise InvariantViolationError("removed leader", detail)

    def _check_appended(self, before: VotersAt, now: VotersMoved) -> None:
        latest = now.entries[-1]
        if latest.voters == before.voters:
            return
        if before.offset >= now.high_watermark:
            detail = f"{now.host} appends {_text(latest)}; {now.high_watermark} is committed, not {_text(before)}"
            raise InvariantViolationError("committed first", detail)
        known = {node.id for node in before.voters}
        for node in latest.voters:
            if node.id not in known:
                self._check_added(now.host, latest, node.id)

    def _check_added(self, host: str, entry: VotersAt, voter: int) -> None:
        needed = self._asked.pop(voter, None)
        if needed is None:
            needed = self._committed_at(self._now_s() - self._fetch_timeout_s - CLOCK_SLACK_S)
        if not self._holds(voter, needed):
            detail = f"{host} appends {_text(entry)}, {voter} has less than {needed} on its disk"
            raise InvariantViolationError("caught up voter", detail)

    def _committed_at(self, at_s: float) -> int:
        return self._commits[max(bisect_right(self._commits, at_s, key=itemgetter(0)), 1) - 1][1]

    def _committed(self, host: str, entry: VotersAt) -> None:
        """A replica has this set committed. InvariantViolationError."""
        below = bisect_right(self._line, entry.offset, key=itemgetter(0))
        known = self._line[below - 1] if below else None
        if known is not None and _keys(known[1]) == _keys(entry.voters):
            return
        if known is not None and (below < len(self._line) or known[0] == entry.offset):
            detail = f"{host} has {_text(entry)} committed, others {_ids(known[1])} since {known[0]}"
            raise InvariantViolationError("one line of voters", detail)
        if known is not None:
            self.changes += 1
            self._check_step(host, known[1], entry)
        self._line.insert(below, (entry.offset, entry.voters))

    @staticmethod
    def _check_step(host: str, before: VoterSet, entry: VotersAt) -> None:
        changed = {node.id for node in before} ^ {node.id for node in entry.voters}
        if len(changed) > 1:
            detail = f"{host} has {_text(entry)} committed after {_ids(before)}"
            raise InvariantViolationError("one voter at a time", detail)


def _keys(voters: VoterSet) -> list[ReplicaKey]:
    return [node.key for node in voters]


def _ids(voters: VoterSet) -> list[int]:
    return [node.id for node in voters]


def _text(entry: VotersAt) -> str:
    return f"voters {_ids(entry.voters)} at {entry.offset}"

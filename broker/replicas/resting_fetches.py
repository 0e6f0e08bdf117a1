"""The fetch sessions in which a led partition rests: another look at it would find nothing new until it moves.

    rest --> moved: the log's offsets, the ISR, the registration, or the end of the leadership
         --> ended by the session: it is closed, or its fetcher says something of the partition

Whatever a look at each request would answer, and whatever it would do, happens nevertheless. A follower that continues
to fetch at the end of a log that does not move is caught up each time; its position is noted when the rest is over, as
of the session's last request, before anything is decided from it.
"""

from __future__ import annotations

from ...fetcher.core import LeaderReplicas
from ...protocol.fetch import AskedPartition, LeaderSession


class RestingFetches:
    """The fetches that rest on one leadership."""

    def __init__(self, replicas: LeaderReplicas) -> None:
        self._replicas = replicas
        self._resting: dict[_Resting, None] = {}

    def __len__(self) -> int:
        return len(self._resting)

    def add(self, session: LeaderSession, asked: AskedPartition, replica_id: int) -> None:
        """`replica_id` is the follower whose session it is, -1 a consumer."""
        resting = _Resting(self, session, asked, replica_id)
        if session.rest(asked, resting.end):
            self._resting[resting] = None

    def wake(self) -> None:
        """The partition has moved, or is about to: every session looks at it again."""
        if not self._resting:
            return
        resting, self._resting = self._resting, {}
        # All positions first: what a woken session decides depends on every follower.
        for fetch in resting:
            self._note_position(fetch)
        for fetch in resting:
            fetch.session.wake(fetch.asked)

    def note_positions(self) -> None:
        """Note the positions of all followers that rest, as of their last requests."""
        for each in self._resting:
            self._note_position(each)

    def end(self, resting: _Resting) -> None:
        self._note_position(resting)
        del self._resting[resting]

    def _note_position(self, resting: _Resting) -> None:
        if resting.replica_id >= 0:
            self._replicas.note_caught_up(resting.replica_id, resting.session.used_ms)


class _Resting:
    """One partition of one session; equal to itself only."""

    __slots__ = ("_among", "asked", "replica_id", "session")

    def __init__(self, among: RestingFetches, session: LeaderSession, asked: AskedPartition, replica_id: int) -> None:
        self._among = among
        self.session = session
        self.asked = asked
        self.replica_id = replica_id

    def end(self) -> None:
        self._among.end(self)

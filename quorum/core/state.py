"""The nouns of the quorum: who a replica is, which states it can be in, and what it must never forget.

States and the transitions between them are a literal table; `RaftCore` asserts each transition against it. Being a
voter is an attribute, not a state: an observer is only ever unattached or a follower.

    state         knows                                      leaves it when
    ------------  -----------------------------------------  -------------------------------------------------------
    UNATTACHED    an epoch, perhaps its vote, no leader      a leader shows itself; the election timeout passes
    PROSPECTIVE   an epoch, perhaps a leader it doubts       pre-votes of a majority; refused or out of time; a leader
    CANDIDATE     its own vote for itself                    votes of a majority; out of time; a higher epoch; a leader
    LEADER        every replica's position                   a higher epoch; no majority in touch; asked to go; removed
    FOLLOWER      its leader                                 the leader falls silent or resigns; a higher epoch
    RESIGNED      that it led this epoch                     the election timeout passes; a higher epoch
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol
from uuid import UUID

from ...protocol import uuid_to_text, value

NO_DIRECTORY_ID = UUID(int=0)
"""A directory id that is not known (kraft.version 0, or an old file)."""


EPOCH_MAX = 2**31 - 1
"""The highest epoch on the wire. No vote is granted in it, and no leader followed: no epoch could come after it."""


class Chance(Protocol):
    """The only randomness of a core; `random.Random` is one."""

    def randrange(self, start: int, stop: int) -> int:
        """An integer of [start, stop)."""


class RaftState(Enum):
    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


LEGAL_TRANSITIONS: dict[RaftState, frozenset[RaftState]] = {
    RaftState.UNATTACHED: frozenset({RaftState.UNATTACHED, RaftState.PROSPECTIVE, RaftState.FOLLOWER}),
    RaftState.PROSPECTIVE: frozenset(
        {RaftState.UNATTACHED, RaftState.PROSPECTIVE, RaftState.CANDIDATE, RaftState.FOLLOWER}
    ),
    RaftState.CANDIDATE: frozenset({RaftState.UNATTACHED, RaftState.PROSPECTIVE, RaftState.LEADER, RaftState.FOLLOWER}),
    RaftState.LEADER: frozenset({RaftState.UNATTACHED, RaftState.RESIGNED, RaftState.FOLLOWER}),
    RaftState.FOLLOWER: frozenset({RaftState.UNATTACHED, RaftState.PROSPECTIVE, RaftState.FOLLOWER}),
    RaftState.RESIGNED: frozenset({RaftState.UNATTACHED, RaftState.FOLLOWER}),
}
"""From each state, where to. A leader or a resigned leader becomes a follower only of a higher epoch; unattached to
unattached takes a higher epoch, or the vote given in this one."""


@value(order=True)
class ReplicaKey:
    """A replica is its node id *and* the directory that holds its log (KIP-853): a wiped disk is another replica."""

    id: int
    directory_id: UUID = NO_DIRECTORY_ID

    def __hash__(self) -> int:
        """Replicas of one id are few, and the hash of a UUID is dear."""
        return self.id

    @property
    def has_directory(self) -> bool:
        """Whether its directory id is known."""
        return self.directory_id.int != 0

    def __str__(self) -> str:
        if not self.has_directory:
            return str(self.id)
        return f"{self.id}:{uuid_to_text(self.directory_id)}"


@value
class Endpoint:
    """One listener of a node, by its name."""

    name: str
    host: str
    port: int


@value(order=True)
class OffsetAndEpoch:
    """The id of a snapshot, or a position: `offset` is exclusive, `epoch` that of the last record before it."""

    offset: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.offset}@{self.epoch}"


@value
class LeaderAndEpoch:
    """`leader_id` is None while the epoch has no known leader."""

    leader_id: int | None
    epoch: int


@value
class ElectionState:
    """What `quorum-state` holds: written, and on disk, before anything leaves that depends on it.

    `voted_key`: the candidate that got this replica's vote in `epoch`, itself included; None if none did.
    """

    epoch: int
    leader_id: int | None = None
    voted_key: ReplicaKey | None = None


EMPTY_LOG = OffsetAndEpoch(0, 0)
"""Where a log begins that no snapshot precedes."""
INITIAL_ELECTION = ElectionState(0)
"""The state of a replica that never took part in an election."""

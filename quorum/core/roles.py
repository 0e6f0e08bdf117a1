"""What a replica keeps only while it is in one state. A transition drops the old role and makes a new one.

Plain data, read and changed by `election` (unattached, prospective, candidate), `follower`, `leader`,
`membership`, `resignation`. Deadlines are on the core's clock, in ms.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field
from typing import ClassVar
from uuid import UUID

from ...light_dataclass import dataclass
from .effects import ControlBatch, DataBatch, SnapshotChunkAppend
from .messages import (
    AddVoterRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpgradeKRaftVersionRequest,
)
from .state import NO_DIRECTORY_ID, OffsetAndEpoch, RaftState, ReplicaKey
from .voters import VoterNode, VoterSet

IN_FLIGHT = -1
"""In place of a time to send at: an answer is awaited."""
NO_PEER = -1
"""In place of a peer: no request was sent."""


@dataclass(slots=True)
class Probation:
    """The state of an unproven voter (`proof`), which outlives its roles.

    `epochs` are those that other voters have reported since the start; `ask_at_ms` says when to ask one (again).
    `is_excluded` means that a leader's static voters do not include this replica.
    """

    epochs: dict[int, int] = field(default_factory=dict)
    ask_at_ms: dict[int, int] = field(default_factory=dict)
    is_excluded: bool = False


@dataclass(slots=True)
class Unattached:
    """`fetch`: sent to a random voter to find out who leads."""

    state: ClassVar[RaftState] = RaftState.UNATTACHED
    election_deadline_ms: int
    fetch_at_ms: int
    fetch: FetchRequest | None = None


@dataclass(slots=True)
class Poll:
    """Votes, or pre-votes, asked for. `send_at_ms`: by voter; one that answered is not in it.

    `unreachable`: those that the last request did not reach; they are asked again.
    """

    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)
    unreachable: set[int] = field(default_factory=set)
    send_at_ms: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Prospective:
    state: ClassVar[RaftState] = RaftState.PROSPECTIVE
    election_deadline_ms: int
    poll: Poll


@dataclass(slots=True)
class Candidate:
    """`backoff_deadline_ms`: the election is lost, the next one begins then."""

    state: ClassVar[RaftState] = RaftState.CANDIDATE
    election_deadline_ms: int
    poll: Poll
    backoff_deadline_ms: int | None = None


@dataclass(slots=True)
class Download:
    """A snapshot on its way from the leader. `writing`: the chunk that is with the disk. `size`: what the leader said
    with the first chunk, in bytes; None before that.
    """

    snapshot_id: OffsetAndEpoch
    position: int = 0
    size: int | None = None
    writing: SnapshotChunkAppend | None = None


@dataclass(slots=True)
class Follower:
    """`is_leader_suspect`: it resigned, its sockets closed, or it was silent for too long: others may have a pre-vote.

    `leader_high_watermark` waits for the records to be flushed here. `request`: the one under way, to `target_id`.
    `target_id` is `NO_PEER` before the first. `has_reported`: the leader of a static quorum knows what this voter is.
    """

    state: ClassVar[RaftState] = RaftState.FOLLOWER
    fetch_deadline_ms: int
    fetch_at_ms: int
    voter_request_at_ms: int
    is_leader_suspect: bool = False
    is_leader_resigned: bool = False
    has_fetched: bool = False
    leader_high_watermark: int = -1
    request: FetchRequest | FetchSnapshotRequest | None = None
    target_id: int = NO_PEER
    voter_request: UpdateVoterRequest | AddVoterRequest | RemoveVoterRequest | None = None
    has_reported: bool = False
    download: Download | None = None


@dataclass(slots=True)
class Identity:
    """What a leader knows of the directory of a static voter (`identity`): the one that its listener has confirmed, the
    one that the listener is asked about, and one that it has denied."""

    confirmed: UUID | None = None
    asked: UUID | None = None
    stranger: UUID | None = None
    stranger_until_ms: int = 0


@dataclass(slots=True)
class ReplicaPosition:
    """What a leader knows of one fetcher. Times are -1 for never; `directory_id` is that of its last Fetch."""

    end_offset: int = -1
    directory_id: UUID = NO_DIRECTORY_ID
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    last_fetch_leader_end_offset: int = -1


@dataclass(slots=True)
class ParkedFetch:
    """A fetch with nothing to answer yet. `known_high_watermark`: a higher one is an answer; to a voter (not
    `is_observer`) a moment later. `ripe_ms`: when it may be answered together with others; not after its deadline."""

    token: object
    request: FetchRequest
    ripe_ms: int
    deadline_ms: int
    known_high_watermark: int
    is_observer: bool


@dataclass(slots=True)
class ParkedFetches:
    """The parked fetches by replica. All must be looked at when `ends` (what is written, the high watermark) have moved
    since the last time, or at `look_at_ms`, which is not later than the first deadline; else only the one that has just
    `arrived`."""

    fetches: dict[ReplicaKey, ParkedFetch] = field(default_factory=dict)
    arrived: ParkedFetch | None = None
    ends: tuple[int, int] = (-1, -1)
    look_at_ms: int | None = None


@dataclass(slots=True)
class VoterChange:
    """The one change of the voter set under way. It waits until `catch_up_end_offset` is at the new voter, then for the
    high watermark to pass `offset`, that of its record."""

    token: object
    request: AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest | UpgradeKRaftVersionRequest
    voters: VoterSet
    deadline_ms: int
    catch_up_end_offset: int = -1
    offset: int = -1
    is_answered: bool = False


@dataclass(slots=True)
class Leader:
    """`epoch_start_offset`: of the LeaderChange record, which is decided once `has_begun`.

    `check_quorum_deadline_ms`: when to check which of `checked_voters` still fetch; None where the leader is the
    majority. `positions`: by the key in the voter set for voters, by their own for observers. `begin_at_ms`: when to
    notify a voter (again) that this epoch began. `pending`: batches that have their offsets, up to `next_offset`, and
    wait for the log. `uncommitted`: (last offset, bytes, token) of appends that wait for the high watermark.
    `reported`: what static voters say of themselves, `identities`: who they are, by id.
    """

    state: ClassVar[RaftState] = RaftState.LEADER
    since_ms: int
    granting_voters: tuple[int, ...]
    epoch_start_offset: int
    next_offset: int
    check_quorum_deadline_ms: int | None = None
    checked_voters: VoterSet | None = None
    has_begun: bool = False
    positions: dict[ReplicaKey, ReplicaPosition] = field(default_factory=dict)
    begin_at_ms: dict[int, int] = field(default_factory=dict)
    begin_failures: dict[int, int] = field(default_factory=dict)
    parked: ParkedFetches = field(default_factory=ParkedFetches)
    pending: list[ControlBatch | DataBatch] = field(default_factory=list)
    pending_since_ms: int = 0
    pending_bytes: int = 0
    uncommitted: deque[tuple[int, int, object]] = field(default_factory=deque)
    uncommitted_bytes: int = 0
    voter_change: VoterChange | None = None
    reported: dict[int, VoterNode] = field(default_factory=dict)
    identities: dict[int, Identity] = field(default_factory=dict)


@dataclass(slots=True)
class Resigned:
    """`end_at_ms`: when to send EndQuorumEpoch to a voter (again); voters that responded are not in it."""

    state: ClassVar[RaftState] = RaftState.RESIGNED
    election_deadline_ms: int
    request: EndQuorumEpochRequest | None
    end_at_ms: dict[int, int]


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned

"""What replicas of the quorum say to each other, as values of ours; mapping to the wire is elsewhere.

A response carries `error`, who the answering replica believes leads (`leader`), and where that leader listens
(`leader_endpoint`, None if not known). `cluster_id` None skips the check of the cluster id.
"""

from __future__ import annotations

from ...fetcher.core import DivergingEpoch
from ...protocol import ErrorCode, value
from .state import Endpoint, LeaderAndEpoch, OffsetAndEpoch, ReplicaKey
from .voters import VoterNode, VotersAt

NO_LEADER = LeaderAndEpoch(None, 0)


@value(kw_only=True)
class VoteRequest:
    """Vote v2. `last`: the candidate's log end and the epoch of its last record.

    `epoch` is the candidacy's, already raised; with `pre_vote` it is the asker's present one. `voter` is whom the asker
    believes to ask; None: not said (v0).
    """

    cluster_id: str | None
    candidate: ReplicaKey
    epoch: int
    last: OffsetAndEpoch
    pre_vote: bool
    voter: ReplicaKey | None = None


@value(kw_only=True)
class VoteResponse:
    error: ErrorCode
    leader: LeaderAndEpoch
    granted: bool = False
    leader_endpoint: Endpoint | None = None


@value(kw_only=True)
class BeginQuorumEpochRequest:
    """BeginQuorumEpoch v1: `leader_id` won `epoch`."""

    cluster_id: str | None
    leader_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...] = ()
    voter: ReplicaKey | None = None


@value(kw_only=True)
class BeginQuorumEpochResponse:
    error: ErrorCode
    leader: LeaderAndEpoch
    leader_endpoint: Endpoint | None = None


@value(kw_only=True)
class EndQuorumEpochRequest:
    """EndQuorumEpoch v1: the leader goes. `preferred_successors`: voters, the one with the longest log first."""

    cluster_id: str | None
    leader_id: int
    epoch: int
    preferred_successors: tuple[ReplicaKey, ...]
    endpoints: tuple[Endpoint, ...] = ()


@value(kw_only=True)
class EndQuorumEpochResponse:
    error: ErrorCode
    leader: LeaderAndEpoch
    leader_endpoint: Endpoint | None = None


@value(kw_only=True)
class FetchRequest:
    """Fetch v13+ of the metadata partition. Everything below `fetch_offset` is flushed at the fetcher: this *is* the
    acknowledgement. `high_watermark`: what the fetcher knows (v18, KIP-1166; -1: not said, never waits for it).
    """

    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_wait_ms: int = 0
    max_bytes: int = 8 * 1024 * 1024
    high_watermark: int = -1


@value
class ReadRange:
    """Outgoing: the shell reads whole batches of [start_offset, end_offset), at least one, about `max_bytes`."""

    start_offset: int
    end_offset: int
    max_bytes: int


@value
class FetchedBatch:
    """Header of one received batch; `last_offset` inclusive."""

    base_offset: int
    last_offset: int
    epoch: int


@value
class FetchedRecords:
    """Incoming: whole, CRC-checked batches in the order of the log.

    `payload` is the shell's own and comes back in `AppendFetched`. `voters`: what the voter set and kraft.version are
    after each control record (Voters, KRaftVersion) among them, by its offset.
    """

    payload: object
    batches: tuple[FetchedBatch, ...]
    voters: tuple[VotersAt, ...] = ()


@value(kw_only=True)
class FetchResponse:
    """At most one of `diverging`, `snapshot_id` and `records` is there. `high_watermark` -1: not known yet."""

    error: ErrorCode
    leader: LeaderAndEpoch
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: DivergingEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None
    records: ReadRange | FetchedRecords | None = None
    leader_endpoint: Endpoint | None = None


@value(kw_only=True)
class FetchSnapshotRequest:
    """FetchSnapshot v1: bytes of the snapshot's file from `position` on."""

    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int = 8 * 1024 * 1024


@value
class SnapshotRange:
    """Outgoing: the shell reads this much of the snapshot's file, and answers SNAPSHOT_NOT_FOUND or
    POSITION_OUT_OF_RANGE itself where it cannot."""

    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


@value
class SnapshotChunk:
    """Incoming: `length` bytes from `position` of a file of `size` bytes; `payload` comes back in the effect."""

    payload: object
    position: int
    length: int
    size: int


@value(kw_only=True)
class FetchSnapshotResponse:
    error: ErrorCode
    leader: LeaderAndEpoch
    snapshot_id: OffsetAndEpoch | None = None
    chunk: SnapshotRange | SnapshotChunk | None = None
    leader_endpoint: Endpoint | None = None


@value
class DescribeQuorumRequest:
    """DescribeQuorum v2."""


@value
class ReplicaProgress:
    """How far one replica is. Times on the core's clock, in ms; -1: never. `log_end_offset` -1: not known."""

    key: ReplicaKey
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@value(kw_only=True)
class DescribeQuorumResponse:
    error: ErrorCode
    leader: LeaderAndEpoch
    high_watermark: int = -1
    voters: tuple[ReplicaProgress, ...] = ()
    observers: tuple[ReplicaProgress, ...] = ()
    nodes: tuple[VoterNode, ...] = ()


@value(kw_only=True)
class AddVoterRequest:
    """AddRaftVoter v1. `voter` carries the kraft.versions that the shell asked it for (ApiVersions) beforehand."""

    cluster_id: str | None
    voter: VoterNode
    timeout_ms: int
    ack_when_committed: bool = True


@value(kw_only=True)
class RemoveVoterRequest:
    """RemoveRaftVoter v0."""

    cluster_id: str | None
    voter: ReplicaKey


@value(kw_only=True)
class UpdateVoterRequest:
    """UpdateRaftVoter v0: a voter reports to its leader where it listens now and which kraft.versions it speaks."""

    cluster_id: str | None
    epoch: int
    voter: VoterNode


@value(kw_only=True)
class UpgradeKRaftVersionRequest:
    """Raise kraft.version (UpdateFeatures, KIP-853). From the state machine that leads `epoch`, never on the wire."""

    epoch: int
    level: int
    validate_only: bool = False


@value(kw_only=True)
class VoterChangeResponse:
    """Answer of all four; `message` is for people."""

    error: ErrorCode
    leader: LeaderAndEpoch
    message: str = ""
    leader_endpoint: Endpoint | None = None


PeerRequest = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | UpdateVoterRequest
    | AddVoterRequest
    | RemoveVoterRequest
)
"""What a core sends."""
Request = PeerRequest | DescribeQuorumRequest | UpgradeKRaftVersionRequest
"""What a core answers."""
PeerResponse = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | VoterChangeResponse
)
Response = PeerResponse | DescribeQuorumResponse

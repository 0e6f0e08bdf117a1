"""Everything that a `RaftCore` requests of its shell. `step` returns them in the order in which they must be *begun*.

Durability is the core's business, not the shell's: an effect is returned only after every `PersistState` decided before
it was confirmed, so the shell may start all effects of one list at once, each kind in its own order:

* `PersistState`: one after the other;
* log effects (`LogEffect`, with `InstallSnapshot`): one after the other, completions reported in order;
* `Send`: at once; one request to a peer must not wait for the answer of another;
* `Reply`: at once; a `ReadRange` or `SnapshotRange` in it is read from disk first;
* the rest: at once, in order.
"""

from __future__ import annotations

from enum import Enum

from ...protocol import value
from .messages import FetchedRecords, PeerRequest, Response
from .state import ElectionState, Endpoint, LeaderAndEpoch, OffsetAndEpoch
from .voters import VoterSet


@value
class PersistState:
    """Write and flush `quorum-state`. Confirmed by `StatePersisted`; until then no later effect is returned.

    `is_proven`: then take the mark of an unproven voter away, durably, before that. (Were it there again after a power
    failure, voters whose logs are no longer empty would wait for each other.)"""

    state: ElectionState
    is_proven: bool = False


@value
class Send:
    """A request to a peer. `peer_id` below 0 is a bootstrap server whose id is not known."""

    peer_id: int
    endpoint: Endpoint | None
    request: PeerRequest


@value
class Reply:
    """The answer to a `RequestReceived`."""

    token: object
    response: Response


@value
class LeaderChangeRecord:
    """Control record type 2: the first record of each epoch."""

    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


@value
class KRaftVersionRecord:
    """Control record type 5."""

    kraft_version: int


@value
class VotersRecord:
    """Control record type 6."""

    voters: VoterSet


ControlRecord = LeaderChangeRecord | KRaftVersionRecord | VotersRecord


@value
class ControlBatch:
    """Records of one control batch."""

    base_offset: int
    records: tuple[ControlRecord, ...]


@value
class DataBatch:
    """Records that become visible together. The shell may put neighbours into one record batch."""

    base_offset: int
    records: tuple[bytes, ...]


@value
class AppendRecords:
    """A leader's append: batches without a gap, all of `epoch`; `end_offset` exclusive. The shell stamps the time."""

    base_offset: int
    end_offset: int
    epoch: int
    batches: tuple[ControlBatch | DataBatch, ...]


@value
class AppendFetched:
    """A follower's append: the bytes as they came. `end_offset` exclusive."""

    base_offset: int
    end_offset: int
    records: FetchedRecords


@value
class Flush:
    """Make everything appended so far (below `end_offset`) durable."""

    end_offset: int


@value
class Truncate:
    """Cut the log at `end_offset`; it need not be durable before the next `Flush`."""

    end_offset: int


@value
class InstallSnapshot:
    """Verify and freeze the downloaded snapshot, then empty the log and begin it at the snapshot's end offset."""

    snapshot_id: OffsetAndEpoch


@value
class SnapshotChunkAppend:
    """Bytes [position, end_position) of a download. At `position` 0 whatever was downloaded before is dropped first.

    `size` is what the leader says that the whole has: the shell refuses the first chunk of one that it has no room for.
    """

    snapshot_id: OffsetAndEpoch
    position: int
    end_position: int
    payload: object
    size: int

    @property
    def is_last(self) -> bool:
        """Whether the download is complete with it."""
        return self.end_position == self.size


LogEffect = AppendRecords | AppendFetched | Flush | Truncate


@value
class HighWatermarkAdvanced:
    """Records below `offset` are committed, and written here: hand them to the state machine."""

    offset: int


@value
class AppendAccepted:
    """The batch has its offsets (inclusive), and is in no replica's log yet."""

    token: object
    base_offset: int
    last_offset: int


@value
class AppendCompleted:
    """The high watermark passed the batch's last record."""

    token: object
    last_offset: int


class AppendError(Enum):
    """Why an append failed."""

    NOT_LEADER = "this replica does not lead"
    WRONG_EPOCH = "this replica leads another epoch"
    BUFFER_FULL = "too many bytes wait for the log or the high watermark"
    WRONG_OFFSET = "another record has the offset that was asked for"
    LEADERSHIP_LOST = "leadership was lost before the records were committed; they may yet be"


@value
class AppendFailed:
    token: object
    error: AppendError


@value
class LeaderChanged:
    """The leader that this replica knows, itself included; reported once for each (leader, epoch)."""

    leader: LeaderAndEpoch


@value
class BecameLeader:
    """Appends are taken from now on. Everything below `epoch_start_offset` was there before; the state machine may act
    as leader once it has applied all of it."""

    epoch: int
    epoch_start_offset: int


@value
class ResignedLeadership:
    """This replica resigned leadership of `epoch`."""

    epoch: int
    reason: str


@value
class VotersChanged:
    """The voter set in effect, committed or not: connections to others are no longer needed."""

    voters: VoterSet
    kraft_version: int


@value
class VoterProven:
    """A replica that began with an empty disk can be relied on: its mark may go, after what was persisted."""


@value
class SetTimer:
    """Fire once at `deadline_ms`, and no other timer; None: none is needed."""

    deadline_ms: int | None


@value
class ShutdownCompleted:
    """Nothing more will come."""


@value
class Fatal:
    """This replica must stop now and no longer touch its disk; the last effect."""

    reason: str


Effect = (
    PersistState
    | Send
    | Reply
    | AppendRecords
    | AppendFetched
    | Flush
    | Truncate
    | InstallSnapshot
    | SnapshotChunkAppend
    | HighWatermarkAdvanced
    | AppendAccepted
    | AppendCompleted
    | AppendFailed
    | LeaderChanged
    | BecameLeader
    | ResignedLeadership
    | VotersChanged
    | VoterProven
    | SetTimer
    | ShutdownCompleted
    | Fatal
)

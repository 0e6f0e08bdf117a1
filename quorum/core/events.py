"""Everything that can happen to a `RaftCore`. The shell hands in one at a time, with the time.

What the shell owes:

* for each `PersistState`: one `StatePersisted`, in order, once the file is flushed;
* for each log effect (`AppendRecords`, `AppendFetched`, `Flush`, `Truncate`): one `LogCompleted`, in order. Effects may
  overlap on disk as long as their completions are reported in order. A failed one is never retried: `LogFailed`;
* for each `InstallSnapshot`: one `SnapshotInstalled` or `SnapshotRejected`, in order with the log's completions;
* for each `Send`: exactly one `ResponseReceived` or `RequestFailed`, within `request_timeout_ms` and what the request
  itself may wait. Only a Fetch that a later one supersedes must go unanswered: the two may be equal, and a late answer
  would be taken for the one that is awaited;
* `TimerFired` at or after the deadline of the last `SetTimer` (early, late or spurious ones do no harm).

The clock of `step` only ever moves forward, and may begin anywhere at or above 0.
"""

from __future__ import annotations

from dataclasses import field

from ...log.core import EpochEntry
from ...protocol import value
from .effects import LogEffect, SnapshotChunkAppend
from .messages import PeerRequest, PeerResponse, Request
from .state import EMPTY_LOG, INITIAL_ELECTION, ElectionState, OffsetAndEpoch
from .voters import VotersAt

Token = object
"""Names one request or append; hashable, the shell's own, comes back in the effect that answers."""


@value(kw_only=True)
class RecoveredState:
    """What was found on disk at start. Everything below `log_end_offset` is flushed.

    `log_start`: the offset at which the log begins and the epoch of the record before it (a snapshot's id, or 0@0).
    `voters`: the sets that the configuration (offset -1), the latest snapshot (its last offset, or -1 for the one that
    formatting wrote) and the log record, in order; at least one. `latest_snapshot` None: there is no snapshot.
    `high_watermark`: a lower bound, such as the latest snapshot's offset. `is_unproven`: it began with an empty disk,
    or without its `quorum-state`, and has not shown yet that nothing is missing (`proof`).
    """

    voters: tuple[VotersAt, ...]
    election: ElectionState = INITIAL_ELECTION
    epochs: tuple[EpochEntry, ...] = ()
    log_start: OffsetAndEpoch = EMPTY_LOG
    log_end_offset: int = 0
    latest_snapshot: OffsetAndEpoch | None = None
    high_watermark: int = 0
    is_unproven: bool = False


@value
class Started:
    """The first event, once."""


@value
class TimerFired:
    """The deadline of the last `SetTimer` has come."""


@value
class RequestReceived:
    """From another replica, or a tool. Answered by `Reply(token, ...)`, perhaps much later."""

    token: Token
    request: Request


@value
class ResponseReceived:
    """`request` is the one of the `Send`."""

    peer_id: int
    request: PeerRequest
    response: PeerResponse


@value
class RequestFailed:
    """No answer to a `Send`: no connection, connection lost, or out of time."""

    peer_id: int
    request: PeerRequest
    reason: str = field(default="", compare=False)


@value
class ConnectionLost:
    """The peer's sockets closed and a new connection was refused: its process is most likely dead.

    The shell probes before it says so; one socket that closed and could be opened again is no news.
    """

    peer_id: int


@value
class Append:
    """One atomic batch of records for the log, to be appended in `epoch` or not at all; with a `base_offset`, there or
    not at all.

    Answered by `AppendAccepted` and later `AppendCompleted`, or by `AppendFailed`.
    """

    token: Token
    epoch: int
    records: tuple[bytes, ...]
    base_offset: int | None = None


@value
class Resign:
    """Give up leadership of `epoch`, handing over to the best successor; nothing happens if it is not held."""

    epoch: int
    reason: str = ""


@value
class Shutdown:
    """Leave the quorum in good order: a leader hands over. `ShutdownCompleted` follows within the request timeout."""


@value
class StatePersisted:
    """The `PersistState` of this state is on disk."""

    state: ElectionState


@value
class LogCompleted:
    """This effect is done: an append is written (and can be read), a flush or truncation is on disk."""

    effect: LogEffect


@value
class LogFailed:
    """The log could not carry out an effect (disk full, I/O error). Always fatal: memory and disk have parted."""

    reason: str


@value
class SnapshotChunkWritten:
    """The chunk is written; a follower's download continues."""

    effect: SnapshotChunkAppend


@value
class SnapshotChunkRefused:
    """The first chunk is not written: the snapshot is larger than is allowed, or than the disk has room for."""

    effect: SnapshotChunkAppend


@value
class SnapshotInstalled:
    """The downloaded snapshot was verified and flushed, the log emptied and moved to it. `voters`: the set in it."""

    snapshot_id: OffsetAndEpoch
    voters: VotersAt


@value
class SnapshotRejected:
    """The downloaded snapshot is not valid (CRC, missing footer); it is removed, log and snapshots are as before."""

    snapshot_id: OffsetAndEpoch
    reason: str


@value
class SnapshotTaken:
    """The state machine froze a snapshot below the high watermark; the log now begins at `log_start`.

    `log_start` is the id of the oldest snapshot kept, or as before where nothing was deleted.
    """

    snapshot_id: OffsetAndEpoch
    log_start: OffsetAndEpoch


Event = (
    Started
    | TimerFired
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | ConnectionLost
    | Append
    | Resign
    | Shutdown
    | StatePersisted
    | LogCompleted
    | LogFailed
    | SnapshotChunkWritten
    | SnapshotChunkRefused
    | SnapshotInstalled
    | SnapshotRejected
    | SnapshotTaken
)

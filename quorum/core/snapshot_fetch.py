"""A follower that is too far behind takes the leader's snapshot (KIP-630): chunks of its file, one after the other.

    step                                       durable afterwards               crash here
    -----------------------------------------  -------------------------------  -------------------------------------
    chunk received -> `SnapshotChunkAppend`    nothing that counts              the download restarts
    `SnapshotChunkRefused`: it is too large    as before; the next Fetch half   -
                                               a fetch timeout later
    last chunk -> `InstallSnapshot`            snapshot, then the empty log     the shell finishes it, or drops it whole
    `SnapshotInstalled`                        both                             -
    `SnapshotRejected`                         as before; the next Fetch half   -
                                               a fetch timeout later

Until the last step the log stays what it is. A change of the leader ends the download, and so does a leader that no
longer has the snapshot, or whose chunks say another size than the first; the next Fetch decides what to do instead.
"""

from __future__ import annotations

from ...protocol import ErrorCode
from .effects import SnapshotChunkAppend
from .events import SnapshotInstalled
from .messages import FetchSnapshotRequest, FetchSnapshotResponse, SnapshotChunk
from .replica import Replica
from .roles import Download, Follower
from .state import OffsetAndEpoch


def note_leader_contact(replica: Replica, role: Follower) -> None:
    """Note a response of the leader. One that resigned may still respond, and stays resigned."""
    role.has_fetched = True
    replica.election_attempts = 0
    if not role.is_leader_resigned:
        role.is_leader_suspect = False
        role.fetch_deadline_ms = replica.fetch_deadline()


def begin_download(replica: Replica, role: Follower, snapshot_id: OffsetAndEpoch) -> None:
    if snapshot_id.offset < replica.high_watermark:
        replica.fatal_reason = (
            f"leader {replica.leader_id} of epoch {replica.epoch} offers snapshot {snapshot_id} below the high "
            f"watermark {replica.high_watermark}: one of the two logs is not of this quorum"
        )
        return
    role.download = Download(snapshot_id)


def poll_download(replica: Replica, role: Follower, download: Download) -> None:
    """Ask for the next chunk."""
    if download.writing is not None or replica.leader_id is None:
        return
    role.request = FetchSnapshotRequest(
        cluster_id=replica.config.cluster_id,
        replica=replica.fetching_key,
        epoch=replica.epoch,
        snapshot_id=download.snapshot_id,
        position=download.position,
        max_bytes=replica.config.fetch_max_bytes,
    )
    replica.send(replica.leader_id, role.request)


def on_fetch_snapshot_response(
    replica: Replica, peer_id: int, request: FetchSnapshotRequest, response: FetchSnapshotResponse
) -> None:
    role = replica.role
    if not isinstance(role, Follower) or role.request != request or role.download is None:
        return
    role.request = None
    if response.error is ErrorCode.inconsistent_cluster_id:
        replica.fatal_reason = f"node {peer_id} belongs to another cluster than {replica.config.cluster_id}"
        return
    if response.error is not ErrorCode.none or response.leader != replica.leader:
        role.download = None
        role.fetch_at_ms = replica.retry_at()
        return
    replica.is_leader_lost = False
    note_leader_contact(replica, role)
    _take_chunk(replica, role, role.download, response)


def on_fetch_snapshot_failed(replica: Replica, request: FetchSnapshotRequest) -> None:
    role = replica.role
    if isinstance(role, Follower) and role.request == request:
        role.request = None
        role.fetch_at_ms = replica.retry_at()


def on_chunk_written(replica: Replica, effect: SnapshotChunkAppend) -> None:
    """Fetch the next chunk, unless the download was abandoned meanwhile."""
    role = replica.role
    if not isinstance(role, Follower) or role.download is None or role.download.writing != effect:
        return
    role.fetch_deadline_ms = replica.fetch_deadline()
    role.download.writing = None
    role.download.position = effect.end_position
    # Only a whole file replaces the log: until then a crash finds the log that this replica acknowledged.
    if effect.is_last:
        replica.install_snapshot(effect.snapshot_id)


def on_chunk_refused(replica: Replica, effect: SnapshotChunkAppend) -> None:
    """Give the download up, and ask again in half a fetch timeout: the leader may have a smaller snapshot by then, or
    the disk more room.
    """
    role = replica.role
    if isinstance(role, Follower) and role.download is not None and role.download.writing == effect:
        end_download(replica)
        role.fetch_at_ms = replica.now_ms + replica.config.fetch_timeout_ms // 2


def on_snapshot_installed(replica: Replica, event: SnapshotInstalled) -> None:
    """Take up the log that begins with the snapshot, whatever state this replica is in by now."""
    # The leader makes snapshots of committed records only, so the high watermark may move to its end at once.
    replica.log.finish_install(event.snapshot_id, is_installed=True)
    replica.replace_voters(event.voters)
    replica.advance_high_watermark(event.snapshot_id.offset)
    end_download(replica)


def on_snapshot_rejected(replica: Replica, snapshot_id: OffsetAndEpoch) -> None:
    """Try again in half a fetch timeout: the snapshot is probably corrupt on the leader, and is fetched in full."""
    replica.log.finish_install(snapshot_id, is_installed=False)
    end_download(replica)
    if isinstance(replica.role, Follower):
        replica.role.fetch_at_ms = replica.now_ms + replica.config.fetch_timeout_ms // 2


def end_download(replica: Replica) -> None:
    role = replica.role
    if isinstance(role, Follower):
        role.download = None
        role.fetch_deadline_ms = replica.fetch_deadline()


def _take_chunk(replica: Replica, role: Follower, download: Download, response: FetchSnapshotResponse) -> None:
    chunk = response.chunk
    is_wanted = (
        isinstance(chunk, SnapshotChunk)
        and response.snapshot_id == download.snapshot_id
        and chunk.position == download.position
        and 0 < chunk.length <= chunk.size - chunk.position
        and download.size in (None, chunk.size)
    )
    if not is_wanted:
        role.download = None
        role.fetch_at_ms = replica.retry_at()
        return
    assert isinstance(chunk, SnapshotChunk)
    end_position = chunk.position + chunk.length
    download.size = chunk.size
    download.writing = SnapshotChunkAppend(
        download.snapshot_id, chunk.position, end_position, chunk.payload, chunk.size
    )
    replica.emit(download.writing)

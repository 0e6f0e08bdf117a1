"""KRaft: one replicated log with elected leaders (KIP-595, KIP-630, KIP-853, KIP-996).

It does not know what its records mean.

core/              decides: `step(event, now) -> effects`. Begin with `core/machine.py`.
wire/              maps the core's messages to Kafka's protocol.
storage/           keeps log, snapshots and votes on disk.
node               is the shell: it performs what the core decides.
log_owner          is the one task that changes the metadata log.
peers              sends requests to other replicas, each with a deadline.
handlers           answers requests from other replicas.
delivery           delivers committed records to their readers, a snapshot first where one is needed.
environment        is the port to the machine that a replica runs on.
listener           declares what is delivered: committed batches, snapshots, changes of the leader.
pending_appends    wakes the callers whose appends are committed.
service            is a replica with its listener.
controller_config  reads the controller's `.properties` file.
metrics            exports the metrics of KIP-595 and KIP-853.

The names below are the room's vocabulary, and cost little to import. Other doors bring sockets, disks or metrics:
`node.open_replica` opens a replica, `service.open_quorum` a replica with its listener; `controller_config` reads the
configuration, `storage.formatting` formats log directories, `environment` is implemented by the machine.
"""

from __future__ import annotations

from .core.errors import (
    BufferFullError,
    NotLeaderError,
    QuorumFailedError,
    QuorumStartError,
    UnexpectedOffsetError,
)
from .core.state import NO_DIRECTORY_ID, Endpoint, LeaderAndEpoch, RaftState, ReplicaKey
from .core.voters import VoterNode, VotersAt, VoterSet
from .listener import CommittedBatch, QuorumListener, SnapshotContent

__all__ = [
    "NO_DIRECTORY_ID",
    "BufferFullError",
    "CommittedBatch",
    "Endpoint",
    "LeaderAndEpoch",
    "NotLeaderError",
    "QuorumFailedError",
    "QuorumListener",
    "QuorumStartError",
    "RaftState",
    "ReplicaKey",
    "SnapshotContent",
    "UnexpectedOffsetError",
    "VoterNode",
    "VoterSet",
    "VotersAt",
]

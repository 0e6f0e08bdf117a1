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

Other folders import what is exported here, in `core` and in `storage`. What brings sockets, disks, metrics or pydantic
is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..doors import lazy_door
from .core.errors import BufferFullError, NotLeaderError, QuorumFailedError, QuorumStartError, UnexpectedOffsetError
from .core.state import NO_DIRECTORY_ID, Endpoint, LeaderAndEpoch, RaftState, ReplicaKey
from .core.voters import VoterNode, VotersAt, VoterSet
from .listener import RECORDS_PER_STEP, CommittedBatch, QuorumListener, SnapshotContent

if TYPE_CHECKING:
    from .controller_config import (
        CONTROLLER_KEYS,
        ControllerConfig,
        QuorumKeys,
        load_controller_config,
        parse_controller_config,
    )
    from .environment import Machine
    from .handlers import QuorumHandlers
    from .node import QuorumNode, open_replica
    from .service import QuorumGate, QuorumService, open_quorum

__all__ = [
    "CONTROLLER_KEYS",
    "NO_DIRECTORY_ID",
    "RECORDS_PER_STEP",
    "BufferFullError",
    "CommittedBatch",
    "ControllerConfig",
    "Endpoint",
    "LeaderAndEpoch",
    "Machine",
    "NotLeaderError",
    "QuorumFailedError",
    "QuorumGate",
    "QuorumHandlers",
    "QuorumKeys",
    "QuorumListener",
    "QuorumNode",
    "QuorumService",
    "QuorumStartError",
    "RaftState",
    "ReplicaKey",
    "SnapshotContent",
    "UnexpectedOffsetError",
    "VoterNode",
    "VoterSet",
    "VotersAt",
    "load_controller_config",
    "open_quorum",
    "open_replica",
    "parse_controller_config",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "CONTROLLER_KEYS": "controller_config",
            "ControllerConfig": "controller_config",
            "Machine": "environment",
            "QuorumGate": "service",
            "QuorumHandlers": "handlers",
            "QuorumKeys": "controller_config",
            "QuorumNode": "node",
            "QuorumService": "service",
            "load_controller_config": "controller_config",
            "open_quorum": "service",
            "open_replica": "node",
            "parse_controller_config": "controller_config",
        },
    )

"""The replicas that a broker hosts: their roles, followers and fetchers, and what fills them.

manager                makes the hosted replicas follow the cluster image. Begin here.
partition              is one hosted replica in its role: leader of one epoch, follower, or neither.
leadership             keeps one leader epoch: followers' positions, the high watermark, ISR changes.
hosted_partitions      looks partitions up for requests, and names the error when one is missing.
fetcher_pool           runs one fetcher for each leader and shard.
followed_partition     shows a hosted partition to a fetcher (`fetcher.ports.FollowerPartition`).
delayed                holds produce and fetch requests until the offsets they wait for move.
resting_fetches        leaves idle partitions out of a fetch session until they have something new.
replication_throttles  applies the replication throttles of the dynamic configs.
thin_replicas          tracks which replicas are thin: they joined the ISR with only what the tier lacked.
warmer                 fills thin replicas from the tier in the background.
damaged_logs           reopens a damaged log, or puts it aside and fetches it again.
failed_logs            takes replicas whose log failed out of the ISR, and back when they can append again.
directory_moves        moves replicas between the log directories of the broker (AlterReplicaLogDirs, KIP-113).
replica_directories    reports where replicas are stored to the controller (AssignReplicasToDirs, KIP-858).
"""

from __future__ import annotations

from .leadership import Leadership
from .partition import Partition

__all__ = [
    "Leadership",
    "Partition",
]

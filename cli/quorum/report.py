"""What DescribeQuorum says, as a table and as JSON; the words are those of `kafka-metadata-quorum`."""

from __future__ import annotations

from typing import TypedDict

from rich.table import Table

from ...protocol import uuid_to_text
from ...protocol.messages.quorum import DescribeQuorumResponsePartitionData, ReplicaState
from ...quorum import NO_DIRECTORY_ID

Row = dict[str, object]
"""Names and values, as JSON has them."""


class ReplicationRow(TypedDict):
    """How far one replica is, in the words of `kafka-metadata-quorum`."""

    NodeId: int
    DirectoryId: str | None
    LogEndOffset: int
    Lag: int
    LastFetchTimestamp: int
    LastCaughtUpTimestamp: int
    Status: str


def status(cluster_id: str, partition: DescribeQuorumResponsePartitionData) -> Row:
    """A summary: the leader, the high watermark, and how far the slowest voter lags."""
    leader_end = _leader(partition).log_end_offset
    followers = [item for item in partition.current_voters if item.replica_id != partition.leader_id]
    newest = max((item.last_caught_up_timestamp for item in partition.current_voters), default=-1)
    return {
        "ClusterId": cluster_id,
        "LeaderId": partition.leader_id,
        "LeaderEpoch": partition.leader_epoch,
        "HighWatermark": partition.high_watermark,
        "MaxFollowerLag": max((leader_end - item.log_end_offset for item in followers), default=0),
        "MaxFollowerLagTimeMs": max((_lag_ms(item, newest) for item in followers), default=0),
        "CurrentVoters": [_replica(item) for item in partition.current_voters],
        "CurrentObservers": [_replica(item) for item in partition.observers],
    }


def replication(partition: DescribeQuorumResponsePartitionData) -> list[ReplicationRow]:
    """A row for each replica, the leader first."""
    leader = _leader(partition)
    kinds = [(leader, "Leader")]
    kinds += [(item, "Follower") for item in partition.current_voters if item is not leader]
    kinds += [(item, "Observer") for item in partition.observers if item is not leader]
    return [
        {
            "NodeId": item.replica_id,
            "DirectoryId": _directory(item),
            "LogEndOffset": item.log_end_offset,
            "Lag": leader.log_end_offset - item.log_end_offset,
            "LastFetchTimestamp": item.last_fetch_timestamp,
            "LastCaughtUpTimestamp": item.last_caught_up_timestamp,
            "Status": kind,
        }
        for item, kind in kinds
    ]


def _leader(partition: DescribeQuorumResponsePartitionData) -> ReplicaState:
    """One that was removed is an observer, and leads until that is committed."""
    replicas = (*partition.current_voters, *partition.observers)
    return next(item for item in replicas if item.replica_id == partition.leader_id)


def replication_table(rows: list[ReplicationRow]) -> Table:
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    return table


def _lag_ms(item: ReplicaState, newest: int) -> int:
    return -1 if item.last_caught_up_timestamp < 0 else max(0, newest - item.last_caught_up_timestamp)


def _replica(item: ReplicaState) -> dict[str, int | str | None]:
    return {"id": item.replica_id, "directoryId": _directory(item)}


def _directory(item: ReplicaState) -> str | None:
    directory_id = item.replica_directory_id
    return None if directory_id is None or directory_id == NO_DIRECTORY_ID else uuid_to_text(directory_id)

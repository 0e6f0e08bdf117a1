"""A stranger that knows the quorum's protocol: it sends each voter each kind of request that names an epoch, with
epochs that no quorum reaches, in the name of another voter.

| what a voter may do with it                            | what shows a mistake                                 |
|--------------------------------------------------------|------------------------------------------------------|
| refuse it                                              | `judges.core.quorum.epochs`: epochs stay bounded     |
| answer it, where it changes nothing (DescribeQuorum)   | a node that stops, a quorum that does not converge   |

It sends no plausible epoch: without authorization a request that is right in all its parts is believed, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from ....protocol import CLUSTER_METADATA_TOPIC, OUTSIDE
from ....protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from ....protocol.messages import Request
from ....protocol.messages.quorum import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
    KRaftVersionFeature,
    UpdateRaftVoterRequest,
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
)
from ....protocol.net import Address, KafkaClient
from ..controllers import CONTROLLER_PORT

HOST: Final = "stranger"
TIMEOUT_S: Final = 1.0
EPOCHS: Final = (2**31 - 2, 2**31 - 1, 5_000_000)
TOPIC: Final = CLUSTER_METADATA_TOPIC
FAR: Final = 2**40
"""An offset above every log's end."""

Forge = Callable[[int, int], Request[Any]]
"""A request in the name of a voter, of an epoch."""


def _vote(voter: int, epoch: int, *, pre_vote: bool) -> VoteRequest:
    partition = VoteRequestPartitionData(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=voter,
        last_offset_epoch=epoch - 1,
        last_offset=FAR,
        pre_vote=pre_vote,
    )
    return VoteRequest(topics=(VoteRequestTopicData(topic_name=TOPIC, partitions=(partition,)),))


def _begin(voter: int, epoch: int) -> BeginQuorumEpochRequest:
    partition = BeginQuorumEpochRequestPartitionData(partition_index=0, leader_id=voter, leader_epoch=epoch)
    return BeginQuorumEpochRequest(
        topics=(BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=(partition,)),)
    )


def _end(voter: int, epoch: int) -> EndQuorumEpochRequest:
    partition = EndQuorumEpochRequestPartitionData(partition_index=0, leader_id=voter, leader_epoch=epoch)
    return EndQuorumEpochRequest(topics=(EndQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=(partition,)),))


def _fetch(voter: int, epoch: int) -> FetchRequest:
    partition = FetchPartition(0, current_leader_epoch=epoch, fetch_offset=FAR, last_fetched_epoch=epoch)
    topics = (FetchTopic((partition,), TOPIC),)
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics, replica_id=voter)


def _fetch_snapshot(voter: int, epoch: int) -> FetchSnapshotRequest:
    snapshot = FetchSnapshotRequestSnapshotId(end_offset=FAR, epoch=epoch)
    partition = FetchSnapshotRequestPartitionSnapshot(
        partition=0, current_leader_epoch=epoch, snapshot_id=snapshot, position=0
    )
    topics = (FetchSnapshotRequestTopicSnapshot(name=TOPIC, partitions=(partition,)),)
    return FetchSnapshotRequest(replica_id=voter, topics=topics)


def _update(voter: int, epoch: int) -> UpdateRaftVoterRequest:
    return UpdateRaftVoterRequest(
        cluster_id=None,
        current_leader_epoch=epoch,
        voter_id=voter,
        voter_directory_id=None,
        listeners=(),
        k_raft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=0),
    )


def _describe(voter: int, epoch: int) -> DescribeQuorumRequest:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    return DescribeQuorumRequest(topics=(DescribeQuorumRequestTopicData(topic_name=TOPIC, partitions=(partition,)),))


FORGERIES: Final[Sequence[Forge]] = (
    lambda voter, epoch: _vote(voter, epoch, pre_vote=False),
    lambda voter, epoch: _vote(voter, epoch, pre_vote=True),
    _begin,
    _end,
    _fetch,
    _fetch_snapshot,
    _update,
    _describe,
)


class QuorumGhost:
    """`haunt` runs on a host of its own. `voters` are ids by host."""

    def __init__(self, voters: Mapping[str, int], rng: Random) -> None:
        self._voters = dict(voters)
        self._rng = rng

    async def haunt(self) -> None:
        """Send each voter each request, in an order of its own."""
        client = KafkaClient(client_id="ghost-of-a-voter", random=self._rng)
        try:
            for host, node_id in self._voters.items():
                others = [each for each in self._voters.values() if each != node_id]
                for forge in self._rng.sample(FORGERIES, len(FORGERIES)):
                    request = forge(self._rng.choice(others), self._rng.choice(EPOCHS))
                    await self._say(client, Address(host, CONTROLLER_PORT), request)
        finally:
            await client.close()

    @staticmethod
    async def _say(client: KafkaClient, address: Address, request: Request[Any]) -> None:
        try:
            await client.send(address, request, timeout_s=TIMEOUT_S)
        except OUTSIDE:
            return

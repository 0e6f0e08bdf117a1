"""What a hostile voter asks the other voters, and what it answers them: any fields, mostly near what the quorum has.

    voter = HostileVoter(node_id, directory_id, cluster_id, ports of the others)
    with HostileNode(its own port) as node:
        voter.answers(node, rng)
        ask(port, voter.drawn(VOTE, rng))

It is trusted by configuration alone: it has the id and the directory of a voter, and listens where that did. Epochs in
its *answers* stay near the others': what the listener of a voter says of a later epoch is believed, as
`quorum.core.requests` has it, and no divergence below what is committed is among them, at which a replica stops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from uuid import UUID

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchTopic
from tierfetch.protocol.messages import quorum as kafka
from tierfetch.protocol.messages.base import Request
from tierfetch.protocol.topics import CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID
from tierfetch.tests.abuse.peers import Answer, Asked, HostileNode, Sent
from tierfetch.tests.abuse.test_leader import EPOCHS, EXTREMES, MIB

MANY: Final = 1_500
"""Elements of an array where there should be one."""
HUGE: Final = 2**31 - 2
"""The last epoch that is possible."""


@dataclass
class HostileVoter:
    """`others` are the ids of the honest voters, `epoch` is the one that they were last seen in."""

    node_id: int
    directory_id: UUID | None
    cluster_id: str
    others: tuple[int, ...]
    port: int
    epoch: int = 0

    # What it asks.

    def drawn(self, api: ApiKey, rng: Random) -> Request[Any]:
        """Return a request of this API."""
        return REQUESTS[api](self, rng)

    def any_id(self, rng: Random) -> int:
        return rng.choice((self.node_id, self.node_id, *self.others, -1, -2, 2**31 - 1, -(2**31)))

    def any_epoch(self, rng: Random) -> int:
        near = [self.epoch + step for step in (-1, 0, 0, 1, 1, 2, 999, 1_001)]
        return rng.choice((*near, HUGE, HUGE + 1, *EPOCHS))

    def any_cluster(self, rng: Random) -> str | None:
        return rng.choice((self.cluster_id, self.cluster_id, self.cluster_id, None, "", "another", "x" * 30_000))

    def any_directory(self, rng: Random) -> UUID | None:
        return rng.choice((self.directory_id, self.directory_id, None, UUID(int=rng.randrange(1, 2**64))))

    def vote(self, rng: Random) -> Request[Any]:
        partition = kafka.VoteRequestPartitionData(
            partition_index=rng.choice((0, 0, 0, 0, -1, 1)),
            replica_epoch=self.any_epoch(rng),
            replica_id=self.any_id(rng),
            replica_directory_id=self.any_directory(rng),
            voter_directory_id=self.any_directory(rng),
            last_offset=rng.choice(EXTREMES),
            last_offset_epoch=self.any_epoch(rng),
            pre_vote=rng.random() < 0.5,
        )
        topic = kafka.VoteRequestTopicData(
            topic_name=any_topic(rng), partitions=(partition,) * rng.choice((1, 1, 1, 1, 0, MANY))
        )
        topics = (topic,) * rng.choice((1, 1, 1, 1, 0, 3))
        return kafka.VoteRequest(cluster_id=self.any_cluster(rng), voter_id=self.any_id(rng), topics=topics)

    def begin(self, rng: Random) -> Request[Any]:
        partition = kafka.BeginQuorumEpochRequestPartitionData(
            partition_index=rng.choice((0, 0, 0, -1)),
            leader_id=self.any_id(rng),
            leader_epoch=self.any_epoch(rng),
            voter_directory_id=self.any_directory(rng),
        )
        topic = kafka.BeginQuorumEpochRequestTopicData(
            topic_name=any_topic(rng), partitions=(partition,) * rng.choice((1, 1, 1, 0, MANY))
        )
        listener = kafka.BeginQuorumEpochRequestLeaderEndpoint(**self.any_listener(rng))
        return kafka.BeginQuorumEpochRequest(
            cluster_id=self.any_cluster(rng),
            topics=(topic,),
            voter_id=self.any_id(rng),
            leader_endpoints=(listener,) * rng.choice((0, 1, 1, MANY)),
        )

    def end(self, rng: Random) -> Request[Any]:
        candidates = tuple(
            kafka.ReplicaInfo(candidate_id=self.any_id(rng), candidate_directory_id=self.any_directory(rng))
            for _ in range(rng.choice((0, 1, 3, 1_000)))
        )
        partition = kafka.EndQuorumEpochRequestPartitionData(
            partition_index=rng.choice((0, 0, 0, -1)),
            leader_id=self.any_id(rng),
            leader_epoch=self.any_epoch(rng),
            preferred_candidates=candidates,
        )
        topic = kafka.EndQuorumEpochRequestTopicData(
            topic_name=any_topic(rng), partitions=(partition,) * rng.choice((1, 1, 1, 0, 20))
        )
        listener = kafka.EndQuorumEpochRequestLeaderEndpoint(**self.any_listener(rng))
        return kafka.EndQuorumEpochRequest(
            cluster_id=self.any_cluster(rng),
            topics=(topic,),
            leader_endpoints=(listener,) * rng.choice((0, 1, MANY)),
        )

    def fetch(self, rng: Random) -> Request[Any]:
        partition = FetchPartition(
            rng.choice((0, 0, 0, 0, -1, 1)),
            current_leader_epoch=self.any_epoch(rng),
            fetch_offset=rng.choice(EXTREMES),
            last_fetched_epoch=self.any_epoch(rng),
            log_start_offset=rng.choice(EXTREMES),
            partition_max_bytes=rng.choice((0, 1, -1, 2**31 - 1)),
            replica_directory_id=self.any_directory(rng),
            high_watermark=rng.choice(EXTREMES),
        )
        topic = FetchTopic((partition,) * rng.choice((1, 1, 1, 0, 2_000)), topic_id=METADATA_TOPIC_ID)
        return FetchRequest(
            cluster_id=self.any_cluster(rng),
            replica_id=self.any_id(rng),
            replica_epoch=rng.choice(EXTREMES),
            max_wait_ms=rng.choice((0, 0, 1, -5)),
            min_bytes=rng.choice((0, 1, -1, 2**31 - 1)),
            max_bytes=rng.choice((0, -1, 2**31 - 1)),
            session_id=rng.choice((0, 0, 5, -1)),
            session_epoch=rng.choice((-1, 0, 0, 1, 2**31 - 1)),
            topics=(topic,) * rng.choice((1, 1, 1, 0, 3)),
        )

    def fetch_snapshot(self, rng: Random) -> Request[Any]:
        snapshot_id = kafka.FetchSnapshotRequestSnapshotId(end_offset=rng.choice(EXTREMES), epoch=self.any_epoch(rng))
        partition = kafka.FetchSnapshotRequestPartitionSnapshot(
            partition=rng.choice((0, 0, 0, -1)),
            current_leader_epoch=self.any_epoch(rng),
            snapshot_id=snapshot_id,
            position=rng.choice(EXTREMES),
            replica_directory_id=self.any_directory(rng),
        )
        topic = kafka.FetchSnapshotRequestTopicSnapshot(
            name=any_topic(rng), partitions=(partition,) * rng.choice((1, 1, 1, 0, MANY))
        )
        return kafka.FetchSnapshotRequest(
            cluster_id=self.any_cluster(rng),
            replica_id=self.any_id(rng),
            max_bytes=rng.choice((0, -1, 2**31 - 1)),
            topics=(topic,),
        )

    def describe(self, rng: Random) -> Request[Any]:
        partition = kafka.DescribeQuorumRequestPartitionData(partition_index=rng.choice((0, 0, -1)))
        topic = kafka.DescribeQuorumRequestTopicData(
            topic_name=any_topic(rng), partitions=(partition,) * rng.choice((1, 0, MANY))
        )
        return kafka.DescribeQuorumRequest(topics=(topic,))

    def update(self, rng: Random) -> Request[Any]:
        low = rng.choice((0, 0, 1, -1, 32_767))
        return kafka.UpdateRaftVoterRequest(
            cluster_id=self.any_cluster(rng),
            current_leader_epoch=self.any_epoch(rng),
            voter_id=rng.choice((self.node_id, self.node_id, -1, 2**31 - 1)),
            voter_directory_id=self.any_directory(rng),
            listeners=(kafka.UpdateRaftVoterRequestListener(**self.any_listener(rng)),) * rng.choice((0, 1, MANY)),
            k_raft_version_feature=kafka.KRaftVersionFeature(
                min_supported_version=low, max_supported_version=rng.choice((low, 1, 32_767))
            ),
        )

    def add(self, rng: Random) -> Request[Any]:
        """Of nodes that do not answer: an open cluster takes in one that does."""
        listener = kafka.AddRaftVoterRequestListener(
            name=rng.choice(("CONTROLLER", "", "x" * 1_000)), host=rng.choice(("127.0.0.1", "", "\0")), port=1
        )
        return kafka.AddRaftVoterRequest(
            cluster_id=self.any_cluster(rng),
            timeout_ms=rng.choice((0, -1, 2**31 - 1)),
            voter_id=rng.choice((7, -1, 2**31 - 1, *self.others)),
            voter_directory_id=self.any_directory(rng),
            listeners=(listener,) * rng.choice((0, 1, 1, MANY)),
        )

    def remove(self, rng: Random) -> Request[Any]:
        """Of voters that there are not: an open cluster lets anyone remove one that there is."""
        return kafka.RemoveRaftVoterRequest(
            cluster_id=self.any_cluster(rng),
            voter_id=rng.choice((7, -1, 2**31 - 1, *self.others)),
            voter_directory_id=UUID(int=rng.randrange(1, 2**64)),
        )

    def any_listener(self, rng: Random) -> dict[str, Any]:
        return {
            "name": rng.choice(("CONTROLLER", "CONTROLLER", "", "x" * 1_000)),
            "host": rng.choice(("127.0.0.1", "127.0.0.1", "", "\0", "no.such.host.invalid")),
            "port": rng.choice((self.port, self.port, 0, 1, 65_535)),
        }

    # What it answers.

    def answers(self, node: HostileNode, rng: Random) -> None:
        """Let the node answer the other voters with drawn fields, or not at all."""
        made: dict[ApiKey, Callable[[Asked], Sent]] = {
            ApiKey.VOTE: lambda asked: self._voted(asked, rng),
            ApiKey.BEGIN_QUORUM_EPOCH: lambda asked: self._begun(asked, rng),
            ApiKey.END_QUORUM_EPOCH: lambda _: kafka.EndQuorumEpochResponse(error_code=any_error(rng), topics=()),
            ApiKey.FETCH: lambda _: None,
        }
        for api, answer in made.items():
            node.answers[api] = self._noted(answer, rng)

    def _noted(self, answer: Callable[[Asked], Sent], rng: Random) -> Answer:
        def answered(asked: Asked) -> Sent:
            epochs = [
                getattr(partition, name)
                for topic in getattr(asked.request, "topics", ())
                for partition in topic.partitions
                for name in ("replica_epoch", "leader_epoch", "current_leader_epoch")
                if hasattr(partition, name)
            ]
            self.epoch = max([self.epoch, *epochs])
            kind = rng.randrange(8)
            if kind == 0:
                return None
            return rng.randbytes(rng.randrange(1, MIB)) if kind == 1 else answer(asked)

        return answered

    def _voted(self, asked: Asked, rng: Random) -> Sent:
        wanted = asked.request.topics[0]
        partition = kafka.VoteResponsePartitionData(
            partition_index=rng.choice((0, 0, 0, -1)),
            error_code=any_error(rng),
            leader_id=rng.choice((-1, -1, self.node_id, *self.others, -5)),
            leader_epoch=self.near_epoch(wanted.partitions[0].replica_epoch, rng),
            vote_granted=rng.random() < 0.5,
        )
        topic = kafka.VoteResponseTopicData(
            topic_name=wanted.topic_name, partitions=(partition,) * rng.choice((1, 1, 0, 1_000))
        )
        return kafka.VoteResponse(topics=(topic,))

    def _begun(self, asked: Asked, rng: Random) -> Sent:
        wanted = asked.request.topics[0]
        partition = kafka.BeginQuorumEpochResponsePartitionData(
            partition_index=0,
            error_code=any_error(rng),
            leader_id=rng.choice((-1, self.node_id, *self.others, -5)),
            leader_epoch=self.near_epoch(wanted.partitions[0].leader_epoch, rng),
        )
        topic = kafka.BeginQuorumEpochResponseTopicData(topic_name=wanted.topic_name, partitions=(partition,))
        return kafka.BeginQuorumEpochResponse(topics=(topic,) * rng.choice((1, 1, 0, 2)))

    @staticmethod
    def near_epoch(epoch: int, rng: Random) -> int:
        return rng.choice((epoch, epoch, epoch + 1, epoch - 1, 0, -1, -(2**31), 2**31 - 1))


REQUESTS: Final[dict[ApiKey, Callable[[HostileVoter, Random], Request[Any]]]] = {
    ApiKey.VOTE: HostileVoter.vote,
    ApiKey.BEGIN_QUORUM_EPOCH: HostileVoter.begin,
    ApiKey.END_QUORUM_EPOCH: HostileVoter.end,
    ApiKey.FETCH: HostileVoter.fetch,
    ApiKey.FETCH_SNAPSHOT: HostileVoter.fetch_snapshot,
    ApiKey.DESCRIBE_QUORUM: HostileVoter.describe,
    ApiKey.UPDATE_RAFT_VOTER: HostileVoter.update,
    ApiKey.ADD_RAFT_VOTER: HostileVoter.add,
    ApiKey.REMOVE_RAFT_VOTER: HostileVoter.remove,
}


def any_topic(rng: Random) -> str:
    return rng.choice((CLUSTER_METADATA_TOPIC,) * 6 + ("", "t", "x" * 30_000))


def any_error(rng: Random) -> ErrorCode:
    """Mostly none. INCONSISTENT_CLUSTER_ID from a voter's listener stops a replica, as it must."""
    others = tuple(set(ErrorCode) - {ErrorCode.inconsistent_cluster_id})
    return ErrorCode.none if rng.random() < 0.6 else rng.choice(sorted(others))

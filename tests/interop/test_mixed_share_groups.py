"""Share groups (KIP-932) whose coordinators are a broker of Apache Kafka and one of ours in turn: members, delivery
counts and start offsets go on exactly.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from uuid import UUID

import pytest

from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.base import Request, ResponseT
from tierfetch.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic
from tierfetch.protocol.messages.groups import FindCoordinatorRequest
from tierfetch.protocol.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    ShareGroupHeartbeatRequest,
)
from tierfetch.protocol.messages.share_records import (
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareFetchRequest,
)
from tierfetch.protocol.messages.share_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateRequestPartitionData,
    ReadStateData,
)
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.protocol.topics import uuid_to_text
from tierfetch.tests.interop.clients import settled
from tierfetch.tests.interop.test_mixed_cluster import JAVA, OURS, VALUES, Mixed, mixed_cluster
from tierfetch.tests.process.test_cluster_command import tierfetch

pytestmark = [pytest.mark.interop, pytest.mark.slow]

OFFSETS, STATE = "__consumer_offsets", "__share_group_state"
GROUP, MEMBER = "g", "m"
COORDINATOR, LEADER = OURS
ACCEPT, RELEASE, REJECT = 1, 2, 3
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
GROUP_KEY, SHARE_KEY = 0, 2
NONE = ErrorCode.none
RETRIED = {
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.not_leader_or_follower,
    ErrorCode.leader_not_available,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.group_id_not_found,
}
State = tuple[int, int, dict[int, tuple[int, int]]]
"""State epoch, start offset, delivery state and count by offset."""


@pytest.fixture
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    configs = {"share_coordinator_state_topic_num_partitions": "1"}
    for mixed in mixed_cluster(tmp_path_factory.mktemp("mixed"), **configs):
        tierfetch(mixed.ours.bootstrap_servers, "features", "set", "share.version", "1")
        yield mixed


@pytest.fixture
async def client() -> AsyncIterator[KafkaClient]:
    client = KafkaClient(client_id="share", random=random.Random(1))
    yield client
    await client.close()


class Sharer:
    """A member of the group, and an operator who looks at what share coordinators keep of it."""

    def __init__(self, mixed: Mixed, client: KafkaClient) -> None:
        self.mixed = mixed
        self.client = client
        self.epoch = 0
        self.session = 0
        self.topic_id = UUID(int=0)
        self.leader_epoch = 0

    async def send(self, address: Address, request: Request[ResponseT]) -> ResponseT:
        return await self.client.send(address, request, timeout_s=10)

    async def until(self, ask: Callable[[], Awaitable[ErrorCode]]) -> None:
        assert await settled(ask, RETRIED) is NONE

    @property
    def leader(self) -> Address:
        return Address("127.0.0.1", self.mixed.ours.port(LEADER))

    async def look_up(self) -> None:
        async def ask() -> ErrorCode:
            request = MetadataRequest(topics=(MetadataRequestTopic(topic_id=None, name="t"),))
            (topic,) = (await self.send(self.leader, request)).topics
            assert topic.topic_id is not None
            self.topic_id, partition = topic.topic_id, topic.partitions[0]
            self.leader_epoch = partition.leader_epoch
            return partition.error_code

        await self.until(ask)

    async def coordinator(self, key: str, key_type: int) -> Address:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
        (found,) = (await self.send(self.leader, request)).coordinators
        if found.error_code is not NONE:
            raise ConnectionError(found.error_code.name)
        return Address(found.host, found.port)

    async def begin_at(self, offset: int) -> None:
        partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
        topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=(partition,))

        async def ask() -> ErrorCode:
            address = await self.coordinator(GROUP, GROUP_KEY)
            answer = await self.send(address, AlterShareGroupOffsetsRequest(group_id=GROUP, topics=(topic,)))
            return answer.error_code or answer.responses[0].partitions[0].error_code

        await self.until(ask)

    async def beat(self) -> None:
        """Stay a member, in the epoch that it knows, and assigned the partition."""
        assigned: set[UUID | None] = set()

        async def ask() -> ErrorCode:
            request = ShareGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=MEMBER,
                member_epoch=self.epoch,
                subscribed_topic_names=None if self.epoch else ("t",),
            )
            answer = await self.send(await self.coordinator(GROUP, GROUP_KEY), request)
            if answer.error_code is NONE:
                assert answer.member_epoch >= self.epoch
                self.epoch = answer.member_epoch
                if answer.assignment is not None:
                    assigned.update(each.topic_id for each in answer.assignment.topic_partitions)
                    return NONE if assigned else ErrorCode.coordinator_not_available
            return answer.error_code

        is_joining = not self.epoch
        await self.until(ask)
        assert assigned == {self.topic_id} or not (assigned or is_joining)

    async def fetch(self, records: int) -> list[tuple[int, int]]:
        """Acquire so many records; return their offsets with their delivery counts."""
        got: list[tuple[int, int]] = []

        async def ask() -> ErrorCode:
            topic = FetchTopic(
                topic_id=self.topic_id, partitions=(FetchPartition(partition_index=0, acknowledgement_batches=()),)
            )
            request = ShareFetchRequest(
                group_id=GROUP,
                member_id=MEMBER,
                share_session_epoch=self.session,
                max_wait_ms=500,
                min_bytes=1,
                max_records=records - len(got),
                batch_size=records,
                share_acquire_mode=1,
                topics=(topic,),
                forgotten_topics_data=(),
            )
            answer = await self.send(self.leader, request)
            if answer.error_code is not NONE:
                return answer.error_code
            self.session += 1
            for each in (partition for topic in answer.responses for partition in topic.partitions):
                if each.error_code is not NONE:
                    return each.error_code
                for run in each.acquired_records:
                    got.extend((offset, run.delivery_count) for offset in range(run.first_offset, run.last_offset + 1))
            return NONE if len(got) >= records else ErrorCode.coordinator_not_available

        await self.until(ask)
        return sorted(got)

    async def acknowledge(self, *runs: tuple[int, int, int]) -> None:
        batches = tuple(
            ShareAcknowledgeRequestAcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=(kind,))
            for first, last, kind in runs
        )
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        topic = AcknowledgeTopic(topic_id=self.topic_id, partitions=(partition,))

        async def ask() -> ErrorCode:
            request = ShareAcknowledgeRequest(
                group_id=GROUP, member_id=MEMBER, share_session_epoch=self.session, topics=(topic,)
            )
            answer = await self.send(self.leader, request)
            assert answer.error_code is NONE
            self.session += 1
            return answer.responses[0].partitions[0].error_code

        await self.until(ask)

    async def state(self) -> State:
        """Return what the share coordinator would give a leader."""
        found: list[State] = []

        async def ask() -> ErrorCode:
            data = ReadShareGroupStateRequestPartitionData(partition=0, leader_epoch=self.leader_epoch)
            topic = ReadStateData(topic_id=self.topic_id, partitions=(data,))
            key = f"{GROUP}:{uuid_to_text(self.topic_id)}:0"
            request = ReadShareGroupStateRequest(group_id=GROUP, topics=(topic,))
            answer = await self.send(await self.coordinator(key, SHARE_KEY), request)
            each = answer.results[0].partitions[0]
            offsets = {
                offset: (batch.delivery_state, batch.delivery_count)
                for batch in each.state_batches
                for offset in range(batch.first_offset, batch.last_offset + 1)
            }
            found[:] = [(each.state_epoch, each.start_offset, offsets)]
            return each.error_code

        await self.until(ask)
        return found[0]

    async def restart_leader(self) -> None:
        """The leader of the partition forgets all, and reads it from the share coordinator."""
        self.mixed.ours.kill(LEADER)
        self.mixed.ours.start(LEADER)
        self.mixed.wait("t", "to be led", lambda part: part.leader == LEADER)
        self.session = 0
        await self.look_up()


def counts(first: int, last: int, count: int) -> list[tuple[int, int]]:
    return [(offset, count) for offset in range(first, last + 1)]


def wait_for_coordinator(mixed: Mixed, broker: int) -> None:
    for topic in (OFFSETS, STATE):
        mixed.wait(topic, f"to be led by broker {broker}", lambda part: part.leader == broker)


async def test_each_coordinator_goes_on_with_the_share_group_of_the_other(mixed: Mixed, client: KafkaClient) -> None:
    mixed.create(OFFSETS, [COORDINATOR, JAVA], cleanup_policy="compact")
    mixed.create(STATE, [COORDINATOR, JAVA], cleanup_policy="delete", retention_ms="-1")
    for topic in (OFFSETS, STATE):
        mixed.wait_in_sync(topic, COORDINATOR, JAVA)
    mixed.create("t", [LEADER])
    mixed.produce("t", VALUES[:40])
    member = Sharer(mixed, client)
    await member.look_up()
    await member.begin_at(0)
    await member.beat()
    assert await member.fetch(10) == counts(0, 9, 1)
    await member.acknowledge((0, 3, ACCEPT), (4, 6, RELEASE), (7, 9, REJECT))
    before = await member.state()
    # The start is written with the next change.
    assert before[1:] == (0, of((0, 3, ACKNOWLEDGED, 1), (4, 6, AVAILABLE, 1), (7, 9, ARCHIVED, 1)))

    mixed.ours.kill(COORDINATOR)
    wait_for_coordinator(mixed, JAVA)
    assert await member.state() == before
    await member.beat()
    await member.restart_leader()
    assert await member.fetch(8) == [*counts(4, 6, 2), *counts(10, 14, 1)]
    await member.acknowledge((4, 6, RELEASE), (10, 14, ACCEPT))
    between = await member.state()
    assert between == (before[0], 4, of((4, 6, AVAILABLE, 2), (7, 9, ARCHIVED, 1), (10, 14, ACKNOWLEDGED, 1)))

    mixed.ours.start(COORDINATOR)
    for topic in (OFFSETS, STATE):
        mixed.wait_in_sync(topic, COORDINATOR, JAVA)
    mixed.java.kill(JAVA)
    wait_for_coordinator(mixed, COORDINATOR)
    assert await member.state() == between
    await member.beat()
    await member.restart_leader()
    assert await member.fetch(5) == [*counts(4, 6, 3), *counts(15, 16, 1)]
    await member.acknowledge((4, 6, ACCEPT), (15, 16, ACCEPT))
    done = ((4, 6, ACKNOWLEDGED, 3), (7, 9, ARCHIVED, 1), (10, 14, ACKNOWLEDGED, 1), (15, 16, ACKNOWLEDGED, 1))
    assert await member.state() == (before[0], 4, of(*done))
    await member.restart_leader()
    assert await member.fetch(2) == counts(17, 18, 1), "nothing that is finished comes again"


def of(*runs: tuple[int, int, int, int]) -> dict[int, tuple[int, int]]:
    """Return delivery state and count by offset."""
    return {offset: (state, count) for first, last, state, count in runs for offset in range(first, last + 1)}

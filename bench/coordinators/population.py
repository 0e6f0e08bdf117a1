"""Many groups in one process, over shared connections: their members join, send heartbeats, and commit offsets.

A wave is a request of each member, as many under way as there are connections. A member takes in what it is assigned at
once, so a group has settled when a wave changes nothing for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Self
from uuid import uuid4

from tierfetch.protocol import ErrorCode, KafkaError
from tierfetch.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from tierfetch.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tierfetch.protocol.messages.share_groups import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tierfetch.protocol.net import Address, KafkaClient

from .raw import BY_NAME_MAX, Coordinator, Topic, new_client

CONNECTIONS: Final = 100
WAVES_MAX: Final = 50
REBALANCE_TIMEOUT_MS: Final = 300_000


class Kind(Enum):
    """The protocol of a population's groups."""

    CONSUMER = "consumer groups"
    SHARE = "share groups"


@dataclass(slots=True)
class Peer:
    """One member."""

    coordinator: Coordinator
    number: int
    member_id: str = field(default_factory=lambda: str(uuid4()))
    epoch: int = 0
    owned: frozenset[int] = frozenset()

    @property
    def group_id(self) -> str:
        return self.coordinator.group_id


class Population:
    """`async with` it; groups are named by their kind and number."""

    def __init__(self, bootstrap: Address, topic: Topic, kind: Kind, groups: int, members_each: int) -> None:
        self._topic = topic
        self._kind = kind
        self._clients: list[KafkaClient] = [new_client() for _ in range(CONNECTIONS)]
        self.peers = [
            Peer(Coordinator(self._clients[(group + number) % CONNECTIONS], bootstrap, f"{kind.value} {group}"), number)
            for group in range(groups)
            for number in range(members_each)
        ]
        self._members_each = members_each

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*[client.close() for client in self._clients])

    async def settle(self) -> int:
        """Let all members join, and send heartbeats until nothing changes; return the number of waves."""
        for wave in range(WAVES_MAX):
            if not any(await self.heartbeats()):
                return wave
        raise TimeoutError(f"{len(self.peers)} members have not settled after {WAVES_MAX} waves")

    async def heartbeats(self) -> list[bool]:
        """Send a heartbeat of each member; return what has changed with it."""
        return await self._wave(self._beat)

    async def commit(self, offset: int) -> None:
        """Commit the offset of each partition once in every group, shared out among its members."""
        await self._wave(lambda peer: self._commit(peer, offset))

    async def _wave(self, work: Callable[[Peer], Awaitable[bool]]) -> list[bool]:
        """Do work for all members, one after the other on each connection."""
        lanes: dict[KafkaClient, list[Peer]] = {}
        for peer in self.peers:
            lanes.setdefault(peer.coordinator.client, []).append(peer)

        async def run(lane: Sequence[Peer]) -> list[bool]:
            return [await work(peer) for peer in lane]

        return [each for done in await asyncio.gather(*map(run, lanes.values())) for each in done]

    async def _beat(self, peer: Peer) -> bool:
        while True:
            answer = await self._ask(peer)
            if answer.error_code is ErrorCode.none:
                break
            if not await peer.coordinator.has_moved(answer.error_code):
                raise KafkaError(answer.error_code, f"{peer.group_id}: {answer.error_message}")
        before = peer.epoch, peer.owned
        peer.epoch = answer.member_epoch
        if answer.assignment is not None:
            assigned = answer.assignment.topic_partitions
            peer.owned = frozenset(number for topic in assigned for number in topic.partitions)
        return before != (peer.epoch, peer.owned)

    async def _ask(self, peer: Peer) -> ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse:
        is_joining = peer.epoch == 0
        names = (self._topic.name,) if is_joining else None
        if self._kind is Kind.SHARE:
            share = ShareGroupHeartbeatRequest(
                group_id=peer.group_id,
                member_id=peer.member_id,
                member_epoch=peer.epoch,
                subscribed_topic_names=names,
            )
            return await peer.coordinator.ask(share)
        owned = ConsumerGroupHeartbeatRequestTopicPartitions(
            topic_id=self._topic.topic_id, partitions=tuple(sorted(peer.owned))
        )
        request = ConsumerGroupHeartbeatRequest(
            group_id=peer.group_id,
            member_id=peer.member_id,
            member_epoch=peer.epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if is_joining else -1,
            subscribed_topic_names=names,
            topic_partitions=(owned,) if peer.owned else (),
        )
        return await peer.coordinator.ask(request)

    async def _commit(self, peer: Peer, offset: int) -> bool:
        numbers = range(peer.number, len(self._topic.leaders), self._members_each)
        partitions = tuple(
            OffsetCommitRequestPartition(partition_index=number, committed_offset=offset, committed_metadata="")
            for number in numbers
        )
        request = OffsetCommitRequest(
            group_id=peer.group_id,
            member_id=peer.member_id,
            generation_id_or_member_epoch=peer.epoch,
            topics=(OffsetCommitRequestTopic(name=self._topic.name, partitions=partitions),),
        )
        answer = await peer.coordinator.ask(request, max_version=BY_NAME_MAX)
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code is not ErrorCode.none:
                    raise KafkaError(partition.error_code, f"{peer.group_id}: the commit of {partition}")
        return False

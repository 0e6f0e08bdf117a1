"""One membership of a group in the consumer protocol (KIP-848), as Kafka's clients have it: heartbeats alone.

    epoch 0 --heartbeat--> epoch, partitions --heartbeats--> other partitions --heartbeat without those that go--> ...

The coordinator assigns. A partition that goes is given up before the next heartbeat says so: the worker is between two
transactions whenever it sends one. After a heartbeat without an answer the next one says everything. A member that is
fenced, or has sent a join or a commit without an answer, begins again under another id: what is still on its way counts
for nothing then. What a member owns, and when it ceases to, is published: `judges.core.clients.ownership`.

Offsets are committed and found as by members of the classic protocol, under the member's epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final
from uuid import UUID

from ....protocol import ErrorCode, TopicPartition
from ....protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponseAssignment,
)
from ...judges.core.events import ClientEvent, MemberAsked, MemberAssigned
from ..client import AttemptFailedError
from ..cluster_options import CONSUMER_SESSION_MS
from .coordinators import FENCED, CoordinatorClient, LaterError, RejoinError
from .members import GroupMember

REBALANCE_MS: Final = 3_000
GROUP_TIMEOUTS_MS: Final = (CONSUMER_SESSION_MS, REBALANCE_MS)
JOINING: Final = 0
LEAVING: Final = -1
NOTHING: Final = frozenset[TopicPartition]()


class ConsumerMember(GroupMember):
    """`partitions` are those of the one topic that the group reads, `topic_id` is that topic's. `member_ids` draws ids.
    `generation` is the member's epoch.
    """

    def __init__(
        self,
        name: str,
        group: str,
        partitions: Sequence[TopicPartition],
        coordinators: CoordinatorClient,
        publish: Callable[[ClientEvent], None],
        *,
        member_ids: Iterator[str],
        topic_id: Callable[[], UUID],
    ) -> None:
        super().__init__(name, group, partitions, coordinators, publish)
        self._member_ids = member_ids
        self._topic_id = topic_id
        self._begin()

    def _begin(self) -> None:
        self.member_id, self.generation = next(self._member_ids), JOINING
        self._owned = self._assigned = self._told = NOTHING
        """What it reads; what the coordinator has assigned; what it has reported as owned to the coordinator."""
        self._is_full = True
        """Whether the next heartbeat says everything."""

    def forget(self) -> None:
        """Be another member from now on, with nothing."""
        self._publish(MemberAsked(self.group, self.member_id, NOTHING))
        self._begin()

    async def join(self) -> tuple[TopicPartition, ...]:
        """Take what is assigned, and give up what no longer is; return what is owned then."""
        self._owned = self._assigned
        await self._beat(is_full=True)
        self._owned = self._assigned
        return tuple(sorted(self._owned))

    async def beat(self) -> None:
        """Stay a member. Raise RejoinError if other partitions are assigned: `join` takes them."""
        await self._beat(is_full=self._is_full)
        if self._assigned != self._owned:
            raise RejoinError(f"{self._name}: {sorted(self._assigned)} instead of {sorted(self._owned)}")

    async def leave(self) -> None:
        self._publish(MemberAsked(self.group, self.member_id, NOTHING))
        await self._ask(self._heartbeat(LEAVING, is_full=False))

    async def _beat(self, *, is_full: bool) -> None:
        asked_ms, owned = self._now_ms(), self._owned
        self._publish(MemberAsked(self.group, self.member_id, owned))
        try:
            answer = await self._ask(self._heartbeat(self.generation, is_full=is_full))
        except AttemptFailedError:
            self._is_full = True
            if self.generation == JOINING:
                self.forget()
            raise
        self._check(answer.error_code, "ConsumerGroupHeartbeat")
        self._is_full, self._told, self.generation = False, owned, answer.member_epoch
        if answer.assignment is not None:
            self._assigned = self._partitions_of(answer.assignment)
        self._publish(MemberAssigned(self.group, self.member_id, self.generation, self._assigned, asked_ms))

    def _partitions_of(self, assignment: ConsumerGroupHeartbeatResponseAssignment) -> frozenset[TopicPartition]:
        return frozenset(
            self._partitions[number] for topic in assignment.topic_partitions for number in topic.partitions
        )

    def _heartbeat(self, epoch: int, *, is_full: bool) -> ConsumerGroupHeartbeatRequest:
        numbers = tuple(sorted(each.partition for each in self._owned))
        owned = (ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=self._topic_id(), partitions=numbers),)
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_MS if is_full else -1,
            subscribed_topic_names=(self._partitions[0].topic,) if is_full else None,
            topic_partitions=(owned if numbers else ()) if is_full or self._owned != self._told else None,
        )

    def _check(self, code: ErrorCode, what: str) -> None:
        if code is ErrorCode.unsupported_version:
            raise LaterError(f"{self._name}: the broker does not know yet that the cluster has such groups")
        if code in FENCED:
            self.forget()
        super()._check(code, what)

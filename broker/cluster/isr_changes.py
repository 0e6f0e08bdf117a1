"""AlterPartition: ISR changes of all partitions that this broker leads, gathered into one request at a time.

While a request is under way changes gather for the next one, so that a broker whose follower dies asks once for all its
partitions. Each caller gets its own answer; a request without one is an OSError for all of them: nobody knows. So is a
internal error, which is logged: no caller waits for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from ...light_dataclass import dataclass
from ...protocol import OUTSIDE, ErrorCode, KafkaError, TopicIdPartition
from ...protocol.messages.brokers import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from .controller_channel import ControllerChannel
from .view import PartitionRegistration

REQUEST_TIMEOUT_S: Final = 30.0
PARTITIONS_PER_REQUEST_MAX: Final = 10_000

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Change:
    partition: TopicIdPartition
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    """Members and their broker epochs."""
    answer: asyncio.Future[AlterPartitionResponsePartitionData]


class IsrChanges:
    """`own_epoch` is the epoch of this broker's registration as it is now."""

    def __init__(self, channel: ControllerChannel, broker_id: int, own_epoch: Callable[[], int]) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._own_epoch = own_epoch
        self._waiting: list[_Change] = []
        self._sending: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def alter(
        self,
        partition: TopicIdPartition,
        *,
        leader_epoch: int,
        partition_epoch: int,
        isr: Sequence[tuple[int, int]],
    ) -> PartitionRegistration:
        """Return what is registered then; `replicas` is empty, which the answer lacks. KafkaError, OSError."""
        answer: asyncio.Future[AlterPartitionResponsePartitionData] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Change(partition, leader_epoch, partition_epoch, tuple(isr), answer))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all(), name="alter-partition")
        found = await answer
        if found.error_code is not ErrorCode.none:
            raise KafkaError(found.error_code, f"ISR {[member for member, _ in isr]} of {partition}")
        return PartitionRegistration(
            leader=found.leader_id,
            leader_epoch=found.leader_epoch,
            partition_epoch=found.partition_epoch,
            replicas=(),
            isr=found.isr,
        )

    async def _send_all(self) -> None:
        while self._waiting:
            changes = self._waiting[:PARTITIONS_PER_REQUEST_MAX]
            del self._waiting[: len(changes)]
            try:
                await self._send(changes)
            except OUTSIDE as error:
                _fail(changes, error)
            except Exception as error:  # noqa: BLE001 - the supervisor of what the callers wait for
                _log.exception(
                    "internal error in the ISR changes of %d partitions: their leaders ask again", len(changes)
                )
                _fail(changes, OSError(f"internal error: {error!r}"))
            except asyncio.CancelledError:
                for change in (*changes, *self._waiting):
                    change.answer.cancel()
                raise

    async def _send(self, changes: Sequence[_Change]) -> None:
        """KafkaError or OSError where there is no answer for each."""
        request = AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._own_epoch(), topics=_topics(changes)
        )
        response = await self._channel.send(request, timeout_s=REQUEST_TIMEOUT_S)
        if response.error_code is not ErrorCode.none:
            raise KafkaError(response.error_code, f"ISR changes of {len(changes)} partitions")
        answers = {
            (topic.topic_id, found.partition_index): found for topic in response.topics for found in topic.partitions
        }
        for change in changes:
            found = answers.get((change.partition.topic_id, change.partition.partition))
            if change.answer.done():
                continue
            if found is None:
                change.answer.set_exception(OSError(f"the controller did not answer for {change.partition}"))
            else:
                change.answer.set_result(found)


def _fail(changes: Sequence[_Change], error: Exception) -> None:
    for change in changes:
        if not change.answer.done():
            change.answer.set_exception(error)


def _topics(changes: Sequence[_Change]) -> tuple[AlterPartitionRequestTopicData, ...]:
    topics: dict[UUID, list[AlterPartitionRequestPartitionData]] = {}
    for change in changes:
        topics.setdefault(change.partition.topic_id, []).append(
            AlterPartitionRequestPartitionData(
                partition_index=change.partition.partition,
                leader_epoch=change.leader_epoch,
                new_isr_with_epochs=tuple(
                    BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in change.isr
                ),
                partition_epoch=change.partition_epoch,
            )
        )
    return tuple(
        AlterPartitionRequestTopicData(topic_id=topic_id, partitions=tuple(partitions))
        for topic_id, partitions in topics.items()
    )

"""DeleteRecords: raise the log start, and answer once every replica of the ISR has followed.

Offset -1 is the high watermark. Records go from the local log and from the tier when retention comes by. None of the
remote log metadata are deleted.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ...protocol import REMOTE_LOG_METADATA_TOPIC, ErrorCode, KafkaError
from ...protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ...protocol.net import RequestContext
from ..replicas.delayed import Wakeup
from ..replicas.hosted_partitions import HostedPartitions

HIGH_WATERMARK: Final = -1
UNKNOWN_LOW_WATERMARK: Final = -1


class DeleteRecordsHandler:
    """Answers for the partitions that this broker leads."""

    def __init__(self, hosted: HostedPartitions) -> None:
        self._hosted = hosted

    async def delete_records(self, _: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        timeout_s = request.timeout_ms / 1000
        async with asyncio.TaskGroup() as group:
            answers = [
                (
                    topic.name,
                    [group.create_task(self._delete(topic.name, each, timeout_s)) for each in topic.partitions],
                )
                for topic in request.topics
            ]
        topics = [
            DeleteRecordsTopicResult(name=name, partitions=tuple(task.result() for task in tasks))
            for name, tasks in answers
        ]
        return DeleteRecordsResponse(topics=tuple(topics))

    async def _delete(
        self, topic: str, wanted: DeleteRecordsPartition, timeout_s: float
    ) -> DeleteRecordsPartitionResult:
        low_watermark, error_code = UNKNOWN_LOW_WATERMARK, ErrorCode.none
        try:
            async with asyncio.timeout(timeout_s):
                low_watermark = await self._delete_before(topic, wanted.partition_index, wanted.offset)
        except KafkaError as error:
            error_code = error.code
        except TimeoutError:
            error_code = ErrorCode.request_timed_out
        except OSError:
            error_code = ErrorCode.kafka_storage_error
        return DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=low_watermark, error_code=error_code
        )

    async def _delete_before(self, topic: str, number: int, offset: int) -> int:
        """The low watermark once it has reached `offset`."""
        if topic == REMOTE_LOG_METADATA_TOPIC:
            # This topic is the only index of the tier: deleted records would orphan objects of every tiered partition.
            raise KafkaError(ErrorCode.policy_violation, f"{topic}: what is in the tier would be forgotten")
        partition = self._hosted.find(topic, number)
        leadership = partition.leader()
        if partition.log.state.config.cleanup_policy == {"compact"}:
            raise KafkaError(ErrorCode.policy_violation, f"{topic}-{number}: cleanup.policy does not allow deletion")
        before = partition.log.state.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= before <= partition.log.state.high_watermark:
            raise KafkaError(
                ErrorCode.offset_out_of_range,
                f"{topic}-{number}: offset {offset}, the high watermark is {partition.log.state.high_watermark}",
            )
        await partition.log.increment_log_start_offset(before)
        # Answered once the ISR has followed: a new leader must not bring the deleted records back.
        while (low_watermark := leadership.low_watermark()) < before:
            if partition.leader() is not leadership:
                raise KafkaError(ErrorCode.not_leader_or_follower, f"{topic}-{number} has a new leader")
            wakeup = Wakeup()
            partition.low_watermark_news.add(wakeup)
            try:
                await wakeup.wait(None)
            finally:
                partition.low_watermark_news.discard(wakeup)
        return low_watermark

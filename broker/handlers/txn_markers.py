"""WriteTxnMarkers: commit and abort markers from the transaction coordinator, appended like records.

Offsets of consumer groups that were committed in the transaction count, or are dropped, once its marker is committed.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ...log.core import AppendOrigin
from ...protocol import ErrorCode, KafkaError
from ...protocol.messages.producers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.net import RequestContext, Slices
from ...protocol.records import ControlType, EndTransactionMarker, build_end_transaction_batch
from ..groups.coordinator import GroupCoordinator
from ..replicas.hosted_partitions import HostedPartitions
from ..replicas.leadership import WallClock
from ..replicas.partition import TransactionAppend

COMMIT_TIMEOUT_S: Final = 30.0
"""The request has no timeout of its own; Kafka takes `request.timeout.ms`."""

MARKER_WEIGHT: Final = 50
"""What the append of a marker costs on the loop, in elements of `pace`."""
MARKERS_FREE: Final = 20
"""The number of markers that are begun at once, as most requests have fewer."""

_Results = dict[str, list[tuple[int, asyncio.Task[ErrorCode]]]]
"""The partitions of each topic, with what becomes of their marker."""


class TransactionMarkerHandler:
    """Answers for the partitions that this broker leads."""

    def __init__(self, hosted: HostedPartitions, groups: GroupCoordinator, now_ms: WallClock) -> None:
        self._hosted = hosted
        self._groups = groups
        self._now_ms = now_ms

    async def write_txn_markers(self, _: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return await self.write(request)

    async def write(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Return what became of each marker once it is committed, or cannot be."""
        wanted = [
            (at, topic.name, number)
            for at, marker in enumerate(request.markers)
            for topic in marker.topics
            for number in topic.partition_indexes
        ]
        written: list[_Results] = [{} for _ in request.markers]
        async with asyncio.TaskGroup() as group:
            async for some in Slices(wanted, weight=MARKER_WEIGHT, free=MARKERS_FREE):
                for at, topic, number in some:
                    task = group.create_task(self._write(topic, number, request.markers[at]))
                    written[at].setdefault(topic, []).append((number, task))
        markers = [
            WritableTxnMarkerResult(producer_id=marker.producer_id, topics=_results(topics))
            for marker, topics in zip(request.markers, written, strict=True)
        ]
        return WriteTxnMarkersResponse(markers=tuple(markers))

    async def _write(self, topic: str, number: int, wanted: WritableTxnMarker) -> ErrorCode:
        marker = EndTransactionMarker(
            ControlType.COMMIT if wanted.transaction_result else ControlType.ABORT, wanted.coordinator_epoch
        )
        batch = build_end_transaction_batch(
            marker,
            base_offset=0,
            timestamp_ms=self._now_ms(),
            producer_id=wanted.producer_id,
            producer_epoch=wanted.producer_epoch,
        )
        try:
            partition = self._hosted.find(topic, number)
            appended = await partition.append(
                memoryview(bytearray(batch)),
                AppendOrigin.COORDINATOR,
                acks_all=True,
                transaction=TransactionAppend(version=wanted.transaction_version),
            )
            committed = partition.committed(appended.last_offset + 1, appended.leader_epoch)
            if committed is not None:
                async with asyncio.timeout(COMMIT_TIMEOUT_S):
                    await committed
        except KafkaError as error:
            return error.code
        except TimeoutError:
            return ErrorCode.request_timed_out
        except OSError:
            return ErrorCode.kafka_storage_error
        # Only after the marker is committed: before, a new leader could still see the transaction open.
        is_committed = marker.type is ControlType.COMMIT
        self._groups.transaction_ended(
            partition.partition.topic_partition, wanted.producer_id, is_committed=is_committed
        )
        return ErrorCode.none


def _results(topics: _Results) -> tuple[WritableTxnMarkerTopicResult, ...]:
    return tuple(
        WritableTxnMarkerTopicResult(
            name=name,
            partitions=tuple(
                WritableTxnMarkerPartitionResult(partition_index=number, error_code=task.result())
                for number, task in written
            ),
        )
        for name, written in sorted(topics.items())
    )

"""WriteTxnMarkers: commit and abort markers from the transaction coordinator, appended like records.

Offsets of consumer groups that were committed in the transaction count, or are dropped, once its marker is committed,
also where that takes longer than the request waits: an administrator's abort may be sent once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, NamedTuple

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
from ...protocol.net import SLICED_ELEMENTS_MIN, RequestContext, Slices, for_each
from ...protocol.records import ControlType, EndTransactionMarker, build_end_transaction_batch
from ..groups.coordinator import GroupCoordinator
from ..replicas.hosted_partitions import HostedPartitions
from ..replicas.leadership import WallClock
from ..replicas.partition import TransactionAppend
from ..transactions.markers import MARKERS_MAX

COMMIT_TIMEOUT_S: Final = 10.0
"""How long a request waits for its slowest marker, whose disk may hang. Its sender waits for `request.timeout.ms`,
which is longer: it learns which ones are committed. None is begun after that: it could end the next transaction.
"""
WRITE_WEIGHT: Final = 50
"""What an append costs on the loop, in elements of `pace`."""

RESULT_WEIGHT: Final = 2
"""What the result of a marker costs on the loop: 17 to 20 us."""

_Answers = dict[int, dict[str, dict[int, ErrorCode]]]
"""The codes by the place of a marker in its request, topic and partition."""


class _Place(NamedTuple):
    """Where one of the request's markers must be written."""

    marker: int
    topic: str
    number: int


class TransactionMarkerHandler:
    """Answers for the partitions that this broker leads."""

    def __init__(self, hosted: HostedPartitions, groups: GroupCoordinator, now_ms: WallClock) -> None:
        self._hosted = hosted
        self._groups = groups
        self._now_ms = now_ms
        self._under_way: set[asyncio.Task[None]] = set()
        """The markers of each request, also of one that is answered already."""

    async def write_txn_markers(self, _: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return await self.write(request)

    async def write(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Return what became of each marker once it is committed, or cannot be; REQUEST_TIMED_OUT after
        `COMMIT_TIMEOUT_S`. What is under way then, or when the caller is cancelled, goes its way.
        """
        answers: _Answers = {}
        places: list[_Place] = []
        async for some in Slices(_places(request), free=SLICED_ELEMENTS_MIN):
            for place in some:
                codes = answers.setdefault(place.marker, {}).setdefault(place.topic, {})
                if place.number not in codes:  # named twice, it is written once
                    codes[place.number] = ErrorCode.request_timed_out
                    places.append(place)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + COMMIT_TIMEOUT_S

        async def write(place: _Place) -> None:
            if loop.time() < deadline_s:
                code = await self._write(place.topic, place.number, request.markers[place.marker])
                answers[place.marker][place.topic][place.number] = code

        # All that our own coordinators send begin at once: none waits for one whose partition is slow.
        written = asyncio.create_task(for_each(places, write, at_once=MARKERS_MAX, weight=WRITE_WEIGHT))
        self._under_way.add(written)
        written.add_done_callback(self._under_way.discard)
        await asyncio.wait([written], timeout=COMMIT_TIMEOUT_S)
        if written.done():
            written.result()
        return WriteTxnMarkersResponse(markers=await _results(request, answers))

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
                await committed
        except KafkaError as error:
            return error.code
        except OSError:
            return ErrorCode.kafka_storage_error
        # Only after the marker is committed: before, a new leader could still see the transaction open.
        self._groups.transaction_ended(
            partition.partition.topic_partition,
            wanted.producer_id,
            is_committed=marker.type is ControlType.COMMIT,
        )
        return ErrorCode.none


def _places(request: WriteTxnMarkersRequest) -> Iterator[_Place]:
    for index, marker in enumerate(request.markers):
        for topic in marker.topics:
            for number in topic.partition_indexes:
                yield _Place(index, topic.name, number)


async def _results(request: WriteTxnMarkersRequest, answers: _Answers) -> tuple[WritableTxnMarkerResult, ...]:
    results: list[WritableTxnMarkerResult] = []
    async for some in Slices(enumerate(request.markers), weight=RESULT_WEIGHT, free=SLICED_ELEMENTS_MIN):
        for index, marker in some:
            by_topic = answers.get(index, {})
            topics: list[WritableTxnMarkerTopicResult] = []
            async for names in Slices(sorted(by_topic), free=SLICED_ELEMENTS_MIN):
                for name in names:
                    topics.append(await _topic_result(name, by_topic[name]))
            results.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=tuple(topics)))
    return tuple(results)


async def _topic_result(name: str, codes: dict[int, ErrorCode]) -> WritableTxnMarkerTopicResult:
    partitions: list[WritableTxnMarkerPartitionResult] = []
    async for some in Slices(codes.items(), free=SLICED_ELEMENTS_MIN):
        partitions += [
            WritableTxnMarkerPartitionResult(partition_index=number, error_code=code) for number, code in some
        ]
    return WritableTxnMarkerTopicResult(name=name, partitions=tuple(partitions))

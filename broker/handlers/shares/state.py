"""What brokers ask a share coordinator, partition by partition (KIP-932): InitializeShareGroupState, Read-, Write- and
DeleteShareGroupState, ReadShareGroupStateSummary.

| a partition | answer |
|---|---|
| while the cluster runs at `share.version` 0 | UNSUPPORTED_VERSION |
| without a group, with a topic id of zero or a negative number | INVALID_REQUEST |
| that the cluster does not have; it may be deleted nevertheless | UNKNOWN_TOPIC_OR_PARTITION |
| that is kept elsewhere, or just being read | NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS |
| that is not initialized | INVALID_REQUEST; a summary with start offset -1; deletion: nothing to do |
| that was deleted in this epoch of its group or in a later one, when it shall begin | FENCED_STATE_EPOCH |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Final, Protocol, TypeVar
from uuid import UUID

from ....protocol import ErrorCode, KafkaError
from ....protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteShareGroupStateResponsePartitionResult,
    DeleteStateResult,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateRequestPartitionData,
    InitializeShareGroupStateResponse,
    InitializeShareGroupStateResponsePartitionResult,
    InitializeStateResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateRequestPartitionData,
    ReadShareGroupStateResponse,
    ReadShareGroupStateResponsePartitionResult,
    ReadShareGroupStateResponseStateBatch,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryRequestPartitionData,
    ReadShareGroupStateSummaryResponse,
    ReadShareGroupStateSummaryResponsePartitionResult,
    ReadStateResult,
    ReadStateSummaryResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateRequestPartitionData,
    WriteShareGroupStateResponse,
    WriteShareGroupStateResponsePartitionResult,
    WriteStateResult,
)
from ....protocol.net import SLICED_ELEMENTS_MIN, RequestContext, Slices, for_each
from ...share_state.active_shard import ActiveShard
from ...share_state.coordinator import ShareCoordinator
from ...share_state.core.batches import NO_OFFSET, Batch
from ...share_state.core.records import UNKNOWN_COUNT, ShareKey
from ...share_state.core.state import Write

PARTITION_WEIGHT: Final = 5
"""What a partition costs on the loop, in elements of `pace`."""
AT_ONCE_MAX: Final = 1_000
"""The partitions of one request that are under way at a time."""


class _Partition(Protocol):
    @property
    def partition(self) -> int: ...


PartitionT = TypeVar("PartitionT", bound=_Partition)
PartitionT_co = TypeVar("PartitionT_co", bound=_Partition, covariant=True)
AnswerT = TypeVar("AnswerT")
ResultT = TypeVar("ResultT")


class _Topic(Protocol[PartitionT_co]):
    @property
    def topic_id(self) -> UUID | None: ...

    @property
    def partitions(self) -> Sequence[PartitionT_co]: ...


def no_share_groups() -> KafkaError:
    """Return what every request for share groups is refused with at level 0."""
    message = "the cluster runs at share.version 0, which has no share groups; raise the feature"
    return KafkaError(ErrorCode.unsupported_version, message)


class ShareStateHandlers:
    """Answers for the share-partitions whose state this broker keeps."""

    def __init__(self, coordinator: ShareCoordinator) -> None:
        self._coordinator = coordinator

    async def initialize(
        self, _: RequestContext, request: InitializeShareGroupStateRequest
    ) -> InitializeShareGroupStateResponse:
        async def initialize(
            each: InitializeShareGroupStateRequestPartitionData, key: ShareKey
        ) -> InitializeShareGroupStateResponsePartitionResult:
            shard = self._shard(key)
            await shard.initialize(key, each.state_epoch, each.start_offset)
            return InitializeShareGroupStateResponsePartitionResult(partition=each.partition)

        results = await _answered(
            self._coordinator,
            request.group_id,
            request.topics,
            initialize,
            lambda each, error: InitializeShareGroupStateResponsePartitionResult(
                partition=each.partition, error_code=error.code, error_message=error.message
            ),
            lambda topic_id, partitions: InitializeStateResult(topic_id=topic_id, partitions=partitions),
        )
        return InitializeShareGroupStateResponse(results=results)

    async def read(self, _: RequestContext, request: ReadShareGroupStateRequest) -> ReadShareGroupStateResponse:
        async def read(
            each: ReadShareGroupStateRequestPartitionData, key: ShareKey
        ) -> ReadShareGroupStateResponsePartitionResult:
            snapshot = (await self._shard(key).read(key, each.leader_epoch)).snapshot
            return ReadShareGroupStateResponsePartitionResult(
                partition=each.partition,
                state_epoch=snapshot.state_epoch,
                start_offset=snapshot.start_offset,
                state_batches=tuple(_told(batch) for batch in snapshot.batches),
            )

        results = await _answered(
            self._coordinator,
            request.group_id,
            request.topics,
            read,
            lambda each, error: ReadShareGroupStateResponsePartitionResult(
                partition=each.partition,
                error_code=error.code,
                error_message=error.message,
                state_epoch=0,
                start_offset=0,
                state_batches=(),
            ),
            lambda topic_id, partitions: ReadStateResult(topic_id=topic_id, partitions=partitions),
        )
        return ReadShareGroupStateResponse(results=results)

    async def write(self, _: RequestContext, request: WriteShareGroupStateRequest) -> WriteShareGroupStateResponse:
        async def write(
            each: WriteShareGroupStateRequestPartitionData, key: ShareKey
        ) -> WriteShareGroupStateResponsePartitionResult:
            await self._shard(key).write(key, _write(each))
            return WriteShareGroupStateResponsePartitionResult(partition=each.partition)

        results = await _answered(
            self._coordinator,
            request.group_id,
            request.topics,
            write,
            lambda each, error: WriteShareGroupStateResponsePartitionResult(
                partition=each.partition, error_code=error.code, error_message=error.message
            ),
            lambda topic_id, partitions: WriteStateResult(topic_id=topic_id, partitions=partitions),
        )
        return WriteShareGroupStateResponse(results=results)

    async def delete(self, _: RequestContext, request: DeleteShareGroupStateRequest) -> DeleteShareGroupStateResponse:
        async def delete(each: _Partition, key: ShareKey) -> DeleteShareGroupStateResponsePartitionResult:
            await self._coordinator.shard_for(str(key)).delete(key, request.state_epoch)
            return DeleteShareGroupStateResponsePartitionResult(partition=each.partition)

        results = await _answered(
            self._coordinator,
            request.group_id,
            request.topics,
            delete,
            lambda each, error: DeleteShareGroupStateResponsePartitionResult(
                partition=each.partition, error_code=error.code, error_message=error.message
            ),
            lambda topic_id, partitions: DeleteStateResult(topic_id=topic_id, partitions=partitions),
        )
        return DeleteShareGroupStateResponse(results=results)

    async def summarize(
        self, _: RequestContext, request: ReadShareGroupStateSummaryRequest
    ) -> ReadShareGroupStateSummaryResponse:
        async def summarize(
            each: ReadShareGroupStateSummaryRequestPartitionData, key: ShareKey
        ) -> ReadShareGroupStateSummaryResponsePartitionResult:
            state = await self._shard(key).summary(key)
            snapshot = None if state is None else state.snapshot
            return ReadShareGroupStateSummaryResponsePartitionResult(
                partition=each.partition,
                state_epoch=0 if snapshot is None else snapshot.state_epoch,
                leader_epoch=0 if snapshot is None else max(snapshot.leader_epoch, 0),
                start_offset=NO_OFFSET if snapshot is None else snapshot.start_offset,
                delivery_complete_count=UNKNOWN_COUNT if snapshot is None else snapshot.delivery_complete_count,
            )

        results = await _answered(
            self._coordinator,
            request.group_id,
            request.topics,
            summarize,
            lambda each, error: ReadShareGroupStateSummaryResponsePartitionResult(
                partition=each.partition,
                error_code=error.code,
                error_message=error.message,
                state_epoch=0,
                leader_epoch=0,
                start_offset=0,
            ),
            lambda topic_id, partitions: ReadStateSummaryResult(topic_id=topic_id, partitions=partitions),
        )
        return ReadShareGroupStateSummaryResponse(results=results)

    def _shard(self, key: ShareKey) -> ActiveShard:
        self._coordinator.check_partition(key)
        return self._coordinator.shard_for(str(key))


async def _answered(
    coordinator: ShareCoordinator,
    group_id: str,
    topics: Sequence[_Topic[PartitionT]],
    answer: Callable[[PartitionT, ShareKey], Awaitable[AnswerT]],
    refuse: Callable[[PartitionT, KafkaError], AnswerT],
    result: Callable[[UUID | None, tuple[AnswerT, ...]], ResultT],
) -> tuple[ResultT, ...]:
    """Answer partition by partition, `AT_ONCE_MAX` at once: each waits for its record."""
    is_enabled = coordinator.is_enabled
    asked = [(topic.topic_id, each) for topic in topics for each in topic.partitions]
    answers: dict[int, AnswerT] = {}

    async def one(place: int) -> None:
        topic_id, each = asked[place]
        try:
            if not is_enabled:
                raise no_share_groups()
            answers[place] = await answer(each, _key(group_id, topic_id, each.partition))
        except KafkaError as error:
            answers[place] = refuse(each, error)

    await for_each(range(len(asked)), one, at_once=AT_ONCE_MAX, weight=PARTITION_WEIGHT)
    given = (answers[place] for place in range(len(asked)))
    results: list[ResultT] = []
    async for some in Slices(topics, free=SLICED_ELEMENTS_MIN):
        results += [result(topic.topic_id, tuple(islice(given, len(topic.partitions)))) for topic in some]
    return tuple(results)


def _key(group_id: str, topic_id: UUID | None, partition: int) -> ShareKey:
    if not group_id or topic_id is None or partition < 0:
        message = (
            f"a group, the id of a topic and a partition from 0 up are needed: {group_id!r}, {topic_id}, {partition}"
        )
        raise KafkaError(ErrorCode.invalid_request, message)
    return ShareKey(group_id, topic_id, partition)


def _write(each: WriteShareGroupStateRequestPartitionData) -> Write:
    return Write(
        state_epoch=each.state_epoch,
        leader_epoch=each.leader_epoch,
        start_offset=each.start_offset,
        delivery_complete_count=each.delivery_complete_count,
        batches=tuple(
            Batch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in each.state_batches
        ),
    )


def _told(batch: Batch) -> ReadShareGroupStateResponseStateBatch:
    return ReadShareGroupStateResponseStateBatch(
        first_offset=batch.first_offset,
        last_offset=batch.last_offset,
        delivery_state=batch.delivery_state,
        delivery_count=batch.delivery_count,
    )

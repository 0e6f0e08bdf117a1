"""OffsetCommit, OffsetFetch, OffsetDelete: how far a group has read.

| request | for one partition | code |
|---|---|---|
| commit | the topic or partition does not exist | UNKNOWN_TOPIC_OR_PARTITION; by id UNKNOWN_TOPIC_ID |
| | metadata above `offset.metadata.max.bytes` | OFFSET_METADATA_TOO_LARGE |
| | the group does not take it | its error, for all partitions |
| fetch | nothing is committed, or for another incarnation of the topic | offset -1, no error |
| | `require_stable`, and a transaction is open that may change it | UNSTABLE_OFFSET_COMMIT |
| delete | the group is subscribed to the topic | GROUP_SUBSCRIBED_TO_TOPIC |

Topics go by name, from version 10 on by id. A group that is not there has no offsets, which is no error. With
`require_stable` a fetch waits for the commits that are on their way into the log, as they may open a transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Final, TypeVar
from uuid import UUID

from ...light_dataclass import dataclass
from ...protocol import ErrorCode, KafkaError, TopicPartition
from ...protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ...protocol.net import SLICED_ELEMENTS_MIN, Portions, RequestContext, Slices, Split, answered_in_pieces
from ..cluster.view import ClusterImage
from ..groups.active_shard import ActiveShard
from ..groups.coordinator import GroupCoordinator, check_group_id
from ..groups.core.events import MemberIdentity
from ..groups.core.records import NO_LEADER_EPOCH, NO_TIMESTAMP, GroupRecord, OffsetKey, OffsetValue
from ..replicas.leadership import WallClock

TOPIC_IDS_SINCE: Final = 10
"""OffsetCommit and OffsetFetch give topics by id from this version on (KIP-848)."""
EPOCHS_SINCE: Final = 9
"""OffsetCommit and OffsetFetch know epochs of members from this version on (KIP-848)."""
TOP_ERROR_SINCE: Final = 2
"""OffsetFetch before this version has no error but those of partitions."""
INVALID_OFFSET: Final = -1
TIMESTAMP_MAX: Final = 2**63 - 1

GROUP_SPLIT: Final = Split("topics", "topics", "partition_indexes", "partitions", asks_only=True)

T = TypeVar("T")


@dataclass(slots=True)
class _Asked:
    """One partition of a request, and what becomes of it."""

    name: str | None
    """None for a topic id that is not known."""
    topic_id: UUID | None
    partition: int
    error: ErrorCode = ErrorCode.none

    @property
    def topic_partition(self) -> TopicPartition:
        assert self.name is not None, self
        return TopicPartition(self.name, self.partition)


def _is_large(group: OffsetFetchRequestGroup) -> bool:
    return sum([1 + len(topic.partition_indexes) for topic in group.topics or ()]) >= SLICED_ELEMENTS_MIN


class OffsetCommitHandlers:
    """Answers for the groups that this broker coordinates."""

    def __init__(self, coordinator: GroupCoordinator, now_ms: WallClock) -> None:
        self._coordinator = coordinator
        self._now_ms = now_ms

    # Commit.

    async def offset_commit(self, context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
        image = self._coordinator.view.image
        asked: list[_Asked] = []
        records: list[GroupRecord] = []
        for topic in request.topics:
            for partition in topic.partitions:
                each = _resolve(image, topic, partition.partition_index, context.api_version)
                each.error = self._judge(image, each, partition)
                asked.append(each)
                if each.error is ErrorCode.none:
                    records.append(self._record(request, each, partition))
        if records:
            partitions = [(each.topic_id, each.partition) for each in asked if each.error is ErrorCode.none]
            error = await self._commit(request, records, partitions, context.api_version)
            for each in asked:
                each.error = each.error or error
        answers = [
            (each, OffsetCommitResponsePartition(partition_index=each.partition, error_code=each.error))
            for each in asked
        ]
        topics = [
            OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
            for name, topic_id, partitions in _by_topic(answers)
        ]
        return OffsetCommitResponse(topics=tuple(topics))

    def _judge(self, image: ClusterImage, asked: _Asked, partition: OffsetCommitRequestPartition) -> ErrorCode:
        if asked.name is None:
            return ErrorCode.unknown_topic_id
        if image.partition(asked.topic_partition) is None:
            return ErrorCode.unknown_topic_or_partition
        too_large = len(partition.committed_metadata or "") > self._coordinator.settings.metadata_bytes_max
        return ErrorCode.offset_metadata_too_large if too_large else ErrorCode.none

    def _record(
        self, request: OffsetCommitRequest, asked: _Asked, partition: OffsetCommitRequestPartition
    ) -> GroupRecord:
        now_ms, retention_ms = self._now_ms(), request.retention_time_ms
        value = OffsetValue(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp_ms=now_ms,
            expire_timestamp_ms=NO_TIMESTAMP if retention_ms < 0 else min(now_ms + retention_ms, TIMESTAMP_MAX),
            topic_id=asked.topic_id,
        )
        return GroupRecord(OffsetKey(request.group_id, asked.topic_partition.topic, asked.partition), value)

    async def _commit(
        self,
        request: OffsetCommitRequest,
        records: list[GroupRecord],
        partitions: list[tuple[UUID | None, int]],
        version: int,
    ) -> ErrorCode:
        who = MemberIdentity(request.member_id, request.group_instance_id)
        try:
            active = self._coordinator.shard_for(request.group_id)
            generation_id = request.generation_id_or_member_epoch
            error = active.shard.judge_commit(
                request.group_id, who, generation_id, active.now, partitions, knows_epochs=version >= EPOCHS_SINCE
            )
            if error is ErrorCode.none:
                await active.write(records)
        except KafkaError as refusal:
            return refusal.code
        return error

    # Fetch.

    async def offset_fetch(self, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
        refused = await self._settled([group.group_id for group in request.groups]) if request.require_stable else {}

        async def fetch(_: RequestContext, group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
            if group.group_id in refused:
                return _fetched_group(group.group_id, [], refused[group.group_id])
            return self._fetch(group, context.api_version, require_stable=request.require_stable)

        groups: list[OffsetFetchResponseGroup] = []
        for asked in request.groups:
            group = asked if asked.topics is not None else await self._naming_all(asked)
            if _is_large(group):
                groups.append(await answered_in_pieces(fetch, GROUP_SPLIT, context, group))
            else:
                groups.append(await fetch(context, group))
        return OffsetFetchResponse(groups=tuple(groups))

    async def _naming_all(self, group: OffsetFetchRequestGroup) -> OffsetFetchRequestGroup:
        """Name every partition that the group has committed an offset of, and that still exists."""
        try:
            held = self._coordinator.shard_for(group.group_id).shard.offsets.get(group.group_id, {})
        except KafkaError:
            return replace(group, topics=())  # `_fetch` answers with the error
        numbers: dict[str, list[int]] = {}
        async for some in Slices(list(held), free=SLICED_ELEMENTS_MIN):
            for partition in some:
                numbers.setdefault(partition.topic, []).append(partition.partition)
        topics = self._coordinator.view.image.topics
        named: list[OffsetFetchRequestTopics] = []
        async for names in Portions(numbers, lambda name: len(numbers[name]), free=SLICED_ELEMENTS_MIN):
            named += [
                OffsetFetchRequestTopics(
                    name=name, topic_id=topics[name].topic_id, partition_indexes=tuple(sorted(numbers[name]))
                )
                for name in names
                if name in topics
            ]
        return replace(group, topics=tuple(named))

    async def _settled(self, group_ids: Iterable[str]) -> dict[str, ErrorCode]:
        """Wait for what is on its way into the logs of groups, of all of them at the same time. Return the errors of
        those where that takes too long.
        """
        waits: dict[ActiveShard, list[str]] = {}
        for group_id in group_ids:
            with suppress(KafkaError):  # `_fetch` asks for the shard again, and answers with the error
                waits.setdefault(self._coordinator.shard_for(group_id), []).append(group_id)
        ended = await asyncio.gather(*(active.settled() for active in waits), return_exceptions=True)
        refused: dict[str, ErrorCode] = {}
        for names, failure in zip(waits.values(), ended, strict=True):
            if isinstance(failure, KafkaError):
                refused |= dict.fromkeys(names, failure.code)
            elif failure is not None:
                raise failure
        return refused

    def _fetch(
        self, wanted: OffsetFetchRequestGroup, version: int, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        image = self._coordinator.view.image
        asked = [
            _resolve(image, topic, number, version)
            for topic in wanted.topics or ()
            for number in topic.partition_indexes
        ]
        try:
            active = self._coordinator.shard_for(wanted.group_id)
            if version >= EPOCHS_SINCE:
                fenced = active.shard.judge_fetch(wanted.group_id, wanted.member_id, wanted.member_epoch)
                if fenced is not ErrorCode.none:
                    raise KafkaError(fenced, f"group {wanted.group_id!r} has no such member in this epoch")
        except KafkaError as error:
            refused = asked if version < TOP_ERROR_SINCE else []
            answers = [(each, _fetched(each.partition, None, error.code)) for each in refused]
            return _fetched_group(wanted.group_id, answers, error.code)
        answers = [(each, self._committed(active, wanted.group_id, each, require_stable)) for each in asked]
        return _fetched_group(wanted.group_id, answers)

    @staticmethod
    def _committed(
        active: ActiveShard, group_id: str, asked: _Asked, require_stable: bool
    ) -> OffsetFetchResponsePartitions:
        if asked.name is None:
            return _fetched(asked.partition, None, ErrorCode.unknown_topic_id)
        if require_stable and active.shard.has_undecided(group_id, asked.topic_partition):
            return _fetched(asked.partition, None, ErrorCode.unstable_offset_commit)
        value = active.shard.offsets.get(group_id, {}).get(asked.topic_partition)
        if value is not None and None not in (value.topic_id, asked.topic_id) and value.topic_id != asked.topic_id:
            value = None
        return _fetched(asked.partition, value, ErrorCode.none)

    # Delete.

    async def offset_delete(self, _: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        asked = [
            _Asked(topic.name, None, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
        ]
        try:
            check_group_id(request.group_id)
            active = self._coordinator.shard_for(request.group_id)
            error = active.shard.judge_offset_delete(request.group_id)
            if error is not ErrorCode.none:
                return OffsetDeleteResponse(error_code=error, topics=())
            await self._delete(active, request.group_id, asked)
        except KafkaError as refusal:
            return OffsetDeleteResponse(error_code=refusal.code, topics=())
        answers = [
            (each, OffsetDeleteResponsePartition(partition_index=each.partition, error_code=each.error))
            for each in asked
        ]
        topics = [
            OffsetDeleteResponseTopic(name=name, partitions=partitions) for name, _, partitions in _by_topic(answers)
        ]
        return OffsetDeleteResponse(topics=tuple(topics))

    async def _delete(self, active: ActiveShard, group_id: str, asked: list[_Asked]) -> None:
        image, offsets = self._coordinator.view.image, active.shard.offsets.get(group_id, {})
        subscribed = active.shard.subscribed_topics(group_id)
        tombstones = []
        for each in asked:
            if image.partition(each.topic_partition) is None:
                each.error = ErrorCode.unknown_topic_or_partition
            elif each.name in subscribed:
                each.error = ErrorCode.group_subscribed_to_topic
            elif each.topic_partition in offsets or active.shard.has_undecided(group_id, each.topic_partition):
                tombstones.append(GroupRecord(OffsetKey(group_id, each.name or "", each.partition), None))
        error = await active.write_tombstones(tombstones)
        if error is not ErrorCode.none:
            raise KafkaError(error, f"the offsets of {group_id!r} were not deleted")


def _resolve(
    image: ClusterImage, topic: OffsetCommitRequestTopic | OffsetFetchRequestTopics, partition: int, version: int
) -> _Asked:
    """Return a partition of a request that names its topic, or gives its id."""
    if version < TOPIC_IDS_SINCE:
        known = image.topics.get(topic.name)
        return _Asked(topic.name, None if known is None else known.topic_id, partition)
    name = None if topic.topic_id is None else image.topic_names.get(topic.topic_id)
    return _Asked(name, topic.topic_id, partition)


def _fetched(partition: int, value: OffsetValue | None, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=INVALID_OFFSET if value is None else value.offset,
        committed_leader_epoch=NO_LEADER_EPOCH if value is None else value.leader_epoch,
        metadata="" if value is None else value.metadata,
        error_code=error,
    )


def _fetched_group(
    group_id: str,
    answers: Iterable[tuple[_Asked, OffsetFetchResponsePartitions]],
    error: ErrorCode = ErrorCode.none,
) -> OffsetFetchResponseGroup:
    topics = [
        OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions)
        for name, topic_id, partitions in _by_topic(answers)
    ]
    return OffsetFetchResponseGroup(group_id=group_id, topics=tuple(topics), error_code=error)


def _by_topic(answers: Iterable[tuple[_Asked, T]]) -> Iterator[tuple[str, UUID | None, tuple[T, ...]]]:
    """Yield name, id and answers of each topic, in the order of the request."""
    for (name, topic_id), of_topic in groupby(answers, key=lambda pair: (pair[0].name, pair[0].topic_id)):
        yield name or "", topic_id, tuple(answer for _, answer in of_topic)

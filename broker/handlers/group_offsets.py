"""OffsetCommit, OffsetFetch, OffsetDelete: how far a group has read.

| request | for one partition | code |
|---|---|---|
| commit | the topic or partition does not exist | UNKNOWN_TOPIC_OR_PARTITION; by id UNKNOWN_TOPIC_ID |
| | metadata above `offset.metadata.max.bytes` | OFFSET_METADATA_TOO_LARGE |
| | the group does not take it | its error, for all partitions |
| fetch | nothing is committed, or for another incarnation of the topic | offset -1, no error |
| | `require_stable`, and a transaction is open | UNSTABLE_OFFSET_COMMIT |
| delete | the group is subscribed to the topic | GROUP_SUBSCRIBED_TO_TOPIC |

Topics go by name, from version 10 on by id. A group that is not there has no offsets, which is no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.net.dispatch import RequestContext
from ...protocol.topics import TopicPartition
from ...protocol.wire.entities import milliseconds
from ..cluster.view import ClusterImage
from ..groups.active_shard import ActiveShard
from ..groups.coordinator import GroupCoordinator, check_group_id
from ..groups.core.events import UNKNOWN_MEMBER_ID, MemberIdentity
from ..groups.core.records import NO_LEADER_EPOCH, NO_TIMESTAMP, GroupRecord, OffsetKey, OffsetValue
from ..replicas.partition import WallClock
from . import Plain

GROUPS_SINCE: Final = 8
"""OffsetFetch asks for several groups from this version on (KIP-709)."""
TOP_ERROR_SINCE: Final = 2
INVALID_OFFSET: Final = -1


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


class OffsetCommitHandlers:
    """Answers for the groups that this broker coordinates."""

    def __init__(self, coordinator: GroupCoordinator, now_ms: WallClock) -> None:
        self._coordinator = coordinator
        self._now_ms = now_ms

    # Commit.

    async def offset_commit(self, _: RequestContext, request: Any) -> Plain:
        image = self._coordinator.view.image
        asked: list[_Asked] = []
        records: list[GroupRecord] = []
        for topic in request.topics:
            for partition in topic.partitions:
                each = _resolve(image, topic, partition.partition_index)
                each.error = self._judge(image, each, partition)
                asked.append(each)
                if each.error is ErrorCode.none:
                    records.append(self._record(request, each, partition))
        if records:
            error = await self._commit(request, records)
            for each in asked:
                each.error = each.error or error
        return {"topics": _by_topic(asked)}

    def _judge(self, image: ClusterImage, asked: _Asked, partition: Any) -> ErrorCode:
        if asked.name is None:
            return ErrorCode.unknown_topic_id
        if image.partition(asked.topic_partition) is None:
            return ErrorCode.unknown_topic_or_partition
        too_large = len(partition.committed_metadata or "") > self._coordinator.settings.metadata_bytes_max
        return ErrorCode.offset_metadata_too_large if too_large else ErrorCode.none

    def _record(self, request: Any, asked: _Asked, partition: Any) -> GroupRecord:
        now_ms = self._now_ms()
        retention_ms = milliseconds(request.retention_time) if hasattr(request, "retention_time") else -1
        value = OffsetValue(
            offset=partition.committed_offset,
            leader_epoch=getattr(partition, "committed_leader_epoch", NO_LEADER_EPOCH),
            metadata=partition.committed_metadata or "",
            commit_timestamp_ms=now_ms,
            expire_timestamp_ms=NO_TIMESTAMP if retention_ms < 0 else now_ms + retention_ms,
            topic_id=asked.topic_id,
        )
        return GroupRecord(OffsetKey(request.group_id, asked.topic_partition.topic, asked.partition), value)

    async def _commit(self, request: Any, records: list[GroupRecord]) -> ErrorCode:
        who = MemberIdentity(request.member_id or UNKNOWN_MEMBER_ID, getattr(request, "group_instance_id", None))
        try:
            active = self._coordinator.shard_for(request.group_id)
            generation_id = request.generation_id_or_member_epoch
            error = active.shard.judge_commit(request.group_id, who, generation_id, active.now)
            if error is ErrorCode.none:
                await active.write(records)
        except KafkaError as refusal:
            return refusal.code
        return error

    # Fetch.

    async def offset_fetch(self, context: RequestContext, request: Any) -> Plain:
        require_stable = getattr(request, "require_stable", False)
        if context.api_version >= GROUPS_SINCE:
            groups = [self._fetch(group.group_id, group.topics, require_stable) for group in request.groups]
            return {"groups": groups}
        fetched = self._fetch(request.group_id, request.topics, require_stable)
        error = fetched["error_code"]
        topics = fetched["topics"]
        if error is not ErrorCode.none and context.api_version < TOP_ERROR_SINCE:
            topics = [
                {
                    "name": topic.name,
                    "partitions": [_fetched(number, None, error) for number in topic.partition_indexes],
                }
                for topic in request.topics or ()
            ]
        return {"topics": topics, "error_code": error}

    def _fetch(self, group_id: str, topics: Iterable[Any] | None, require_stable: bool) -> Plain:
        try:
            active = self._coordinator.shard_for(group_id)
        except KafkaError as error:
            return {"group_id": group_id, "topics": [], "error_code": error.code}
        image = self._coordinator.view.image
        if topics is None:
            names = {partition.topic for partition in active.shard.offsets.get(group_id, {})}
            asked = [
                _Asked(partition.topic, image.topics[partition.topic].topic_id, partition.partition)
                for partition in sorted(active.shard.offsets.get(group_id, {}))
                if partition.topic in names & image.topics.keys()
            ]
        else:
            asked = [_resolve(image, topic, number) for topic in topics for number in topic.partition_indexes]
        answers = [(each, self._committed(active, group_id, each, require_stable)) for each in asked]
        return {"group_id": group_id, "topics": _grouped(answers), "error_code": ErrorCode.none}

    @staticmethod
    def _committed(active: ActiveShard, group_id: str, asked: _Asked, require_stable: bool) -> Plain:
        if asked.name is None:
            return _fetched(asked.partition, None, ErrorCode.unknown_topic_id)
        if require_stable and active.shard.has_undecided(group_id, asked.topic_partition):
            return _fetched(asked.partition, None, ErrorCode.unstable_offset_commit)
        value = active.shard.offsets.get(group_id, {}).get(asked.topic_partition)
        if value is not None and None not in (value.topic_id, asked.topic_id) and value.topic_id != asked.topic_id:
            value = None
        return _fetched(asked.partition, value, ErrorCode.none)

    # Delete.

    async def offset_delete(self, _: RequestContext, request: Any) -> Plain:
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
                return {"error_code": error, "topics": []}
            await self._delete(active, request.group_id, asked)
        except KafkaError as refusal:
            return {"error_code": refusal.code, "topics": []}
        topics = [{"name": topic["name"], "partitions": topic["partitions"]} for topic in _by_topic(asked)]
        return {"error_code": ErrorCode.none, "topics": topics}

    async def _delete(self, active: ActiveShard, group_id: str, asked: list[_Asked]) -> None:
        image, offsets = self._coordinator.view.image, active.shard.offsets.get(group_id, {})
        subscribed = active.shard.groups[group_id].subscribed_topics() or frozenset()
        tombstones = []
        for each in asked:
            if image.partition(each.topic_partition) is None:
                each.error = ErrorCode.unknown_topic_or_partition
            elif each.name in subscribed:
                each.error = ErrorCode.group_subscribed_to_topic
            elif each.topic_partition in offsets:
                tombstones.append(GroupRecord(OffsetKey(group_id, each.name or "", each.partition), None))
        if tombstones:
            await active.write(tombstones)


def _resolve(image: ClusterImage, topic: Any, partition: int) -> _Asked:
    """A partition of a request that names its topic, or gives its id."""
    if hasattr(topic, "name"):
        known = image.topics.get(topic.name)
        return _Asked(topic.name, None if known is None else known.topic_id, partition)
    name = None if topic.topic_id is None else image.topic_names.get(topic.topic_id)
    return _Asked(name, topic.topic_id, partition)


def _fetched(partition: int, value: OffsetValue | None, error: ErrorCode) -> Plain:
    return {
        "partition_index": partition,
        "committed_offset": INVALID_OFFSET if value is None else value.offset,
        "committed_leader_epoch": NO_LEADER_EPOCH if value is None else value.leader_epoch,
        "metadata": "" if value is None else value.metadata,
        "error_code": error,
    }


def _by_topic(asked: list[_Asked]) -> list[Plain]:
    return _grouped((each, {"partition_index": each.partition, "error_code": each.error}) for each in asked)


def _grouped(answers: Iterable[tuple[_Asked, Plain]]) -> list[Plain]:
    """By topic, in the order of the request."""

    def topics() -> Iterator[Mapping[str, Any]]:
        for (name, topic_id), of_topic in groupby(answers, key=lambda pair: (pair[0].name, pair[0].topic_id)):
            yield {"name": name or "", "topic_id": topic_id, "partitions": [answer for _, answer in of_topic]}

    return list(topics())

"""Bugs of the remote log manager and its metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch
from uuid import UUID

from tierfetch.broker import metadata_topic
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata
from tierfetch.rlm import copier, partition_task
from tierfetch.rlm.copier import SegmentCopier
from tierfetch.rlm.core import plan
from tierfetch.rlm.expiry import RemoteSegmentDeleter
from tierfetch.rlm.partition_task import PartitionTask
from tierfetch.rlm.pending_deletions import PendingDeletions
from tierfetch.rlm.reader import RemoteLogReader, RemoteRead
from tierfetch.rlm.runs import Runs
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted


@planted(
    "local segments go before their upload is finished",
    file="rlm/core/plan.py",
    scenario="cluster",
    faults=(FaultKind.STORE_OUTAGE, FaultKind.STORE_ERRORS),
    local_retention_ms=(500,),
)
def deleted_before_uploaded() -> Iterator[None]:
    with patch.object(plan, "_proven", lambda view, wanted: ([], list(wanted))):
        yield


@planted(
    "tiering of a partition stops once another broker has led it",
    file="rlm/partition_task.py",
    scenario="cluster",
    faults=(FaultKind.MOVE_LEADER,),
    local_retention_ms=(500,),
)
def tiering_stops_after_a_leader_change() -> Iterator[None]:
    original = PartitionTask._copy_next
    first: dict[tuple[int, TopicIdPartition], PartitionTask] = {}

    async def copy_next(self: PartitionTask) -> bool:
        """A copy that was under way when this broker led before is taken for one that is under way still."""
        if first.setdefault((id(self._services), self.partition), self) is not self:
            return False
        return await original(self)

    with patch.object(PartitionTask, "_copy_next", copy_next):
        yield


@planted(
    "segments above the last stable offset are tiered",
    file="rlm/core/plan.py",
    scenario="cluster",
    faults=(FaultKind.PARTITION, FaultKind.PROCESS_CRASH),
    transactional_producers=(1,),
    local_retention_ms=(500,),
)
def tiered_too_early() -> Iterator[None]:
    original = plan.pending_copies

    def pending(view):
        return original(replace(view, last_stable_offset=view.log_end_offset))

    with patch.object(plan, "pending_copies", pending), patch.object(partition_task, "pending_copies", pending):
        yield


@planted(
    "a copy is finished before its upload",
    file="rlm/copier.py",
    scenario="cluster",
    faults=(FaultKind.HALF_UPLOADS, FaultKind.STORE_ERRORS),
    local_retention_ms=(500,),
)
def finished_before_uploaded() -> Iterator[None]:
    original = SegmentCopier._upload

    async def upload(self, segment, data):
        try:
            return await original(self, segment, data)
        except copier.RemoteStorageError:
            return None

    with patch.object(SegmentCopier, "_upload", upload):
        yield


@planted(
    "a segment id is used again for another attempt",
    file="rlm/partition_task.py",
    scenario="cluster",
    faults=(FaultKind.LOST_REPLIES, FaultKind.HALF_UPLOADS),
)
def reused_segment_id() -> Iterator[None]:
    original = partition_task.describe_copy

    def describe(view, segment, segment_id, **kwargs):
        same = RemoteLogSegmentId(segment_id.topic_id_partition, UUID(int=1000 + segment.base_offset))
        return original(view, segment, same, **kwargs)

    with patch.object(partition_task, "describe_copy", describe):
        yield


@planted(
    "the remote log metadata is not flushed",
    file="broker/metadata_topic.py",
    scenario="cluster",
    faults=(FaultKind.POWER_FAILURE,),
    local_retention_ms=(500,),
)
def metadata_not_flushed() -> Iterator[None]:
    original = metadata_topic.NewTopic

    def new_topic(name, partitions, replication_factor, **kwargs):
        configs = {key: value for key, value in kwargs["configs"].items() if key != "flush.messages"}
        return original(name, partitions, replication_factor, configs=configs)

    with patch.object(metadata_topic, "NewTopic", new_topic):
        yield


@planted(
    "the remote segments of a deleted topic are left",
    file="rlm/expiry.py",
    scenario="cluster",
    faults=(FaultKind.REPLACE_TOPIC,),
    administrator_pace_ms=(400,),
)
def left_in_the_tier() -> Iterator[None]:
    async def delete_all(self, segments):
        """In portions, and none too many: the last one may be a single segment."""
        for start in range(0, len(segments) - 1, self._concurrency_max):
            portion = segments[start : start + self._concurrency_max]
            results = await asyncio.gather(*map(self.delete, portion), return_exceptions=True)
            for error in filter(None, results):
                raise error

    with patch.object(RemoteSegmentDeleter, "delete_all", delete_all):
        yield


@planted(
    "a restart forgets which remote partitions are to be deleted",
    file="rlm/pending_deletions.py",
    scenario="cluster",
    needs_quiet=True,
    faults=(FaultKind.REPLACE_TOPIC, FaultKind.STORE_OUTAGE),
)
def forgotten_deletions() -> Iterator[None]:
    async def load(self):
        return []

    with patch.object(PendingDeletions, "load", load):
        yield


@planted(
    "an offset is out of range for as long as the remote log metadata is not read",
    file="rlm/reader.py",
    scenario="cluster",
    faults=(FaultKind.PROCESS_CRASH, FaultKind.MOVE_LEADER),
    local_retention_ms=(500,),
)
def out_of_range_at_first() -> Iterator[None]:
    """As Apache Kafka: a consumer that goes to the end then misses everything."""
    original = RemoteLogReader._segment_of

    def segment_of(self: RemoteLogReader, request: RemoteRead, offset: int) -> RemoteLogSegmentMetadata:
        try:
            return original(self, request, offset)
        except KafkaError as error:
            raise KafkaError(ErrorCode.offset_out_of_range, error.message) from error

    with patch.object(RemoteLogReader, "_segment_of", segment_of):
        yield


@planted(
    "chunks of a run are given out in another order than they come",
    file="rlm/runs.py",
    scenario="cluster",
    chunk_bytes=(600, 1_500),
    local_retention_ms=(500, 2_000),
)
def swapped_chunks() -> Iterator[None]:
    original = Runs._deliver

    def deliver(self, run, data):
        """Of two that are left, the second one comes first."""
        if len(run.left) > 1 and run.left[0].range.size == run.left[1].range.size:
            run.left[0], run.left[1] = run.left[1], run.left[0]
        original(self, run, data)

    with patch.object(Runs, "_deliver", deliver):
        yield

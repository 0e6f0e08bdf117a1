"""Builders of views: segments of 100 offsets and 1000 bytes, whose newest record has its last offset as timestamp."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from tierfetch.log.core import UNLIMITED, EpochEntry, LeaderEpochCache
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote.core import (
    Bounds,
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    UsableSegments,
)
from tierfetch.rlm.core.view import CopyDeadline, LocalSegment, PartitionView, TierMode, TierPolicy

PARTITION = TopicIdPartition(uuid.UUID(int=7), "orders", 0)
ME = 1
OTHER = 2

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED


def segment_id(number: int) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(PARTITION, uuid.UUID(int=number))


def local(base: int, end: int, size: int | None = None) -> LocalSegment:
    return LocalSegment(base, end, (end - base) * 10 if size is None else size, end - 1)


def remote(
    number: int,
    start: int,
    end: int,
    *,
    epochs: tuple[tuple[int, int], ...] | None = None,
    state: RemoteLogSegmentState = FINISHED,
    broker_id: int = ME,
    at_ms: int = 0,
) -> RemoteLogSegmentMetadata:
    """Offsets [start, end); `epochs` as (epoch, start offset)."""
    return RemoteLogSegmentMetadata(
        segment_id=segment_id(number),
        start_offset=start,
        end_offset=end - 1,
        max_timestamp_ms=end - 1,
        broker_id=broker_id,
        event_timestamp_ms=at_ms,
        segment_size_in_bytes=(end - start) * 10,
        segment_leader_epochs=tuple(EpochEntry(*entry) for entry in epochs or ((0, start),)),
        state=state,
    )


def policy(mode: TierMode = TierMode.COPYING, **limits: int) -> TierPolicy:
    whole = {"retention_ms": UNLIMITED, "retention_bytes": UNLIMITED}
    local_limits = {"local_retention_ms": UNLIMITED, "local_retention_bytes": UNLIMITED}
    return TierPolicy(mode=mode, **{**whole, **local_limits, **limits})


def view(**changes: Any) -> PartitionView:
    """A leader of epoch 0 with offsets [0, 350): three closed segments and an active one, nothing tiered."""
    values: dict[str, Any] = {
        "partition": PARTITION,
        "broker_id": ME,
        "leader_epoch": 0,
        "epochs": ((0, 0),),
        "log_start_offset": 0,
        "high_watermark": 350,
        "closed": (local(0, 100), local(100, 200), local(200, 300)),
        "active": local(300, 350),
        "remote": (),
        "policy": policy(),
        "copy_deadline": CopyDeadline(base_ms=1000, min_bytes_per_second=1000),
        **changes,
    }
    values["epochs"] = tuple(EpochEntry(*entry) for entry in values["epochs"])
    first = values["closed"][0] if values["closed"] else values["active"]
    values.setdefault("local_log_start_offset", max(first.base_offset, values["log_start_offset"]))
    values.setdefault("last_stable_offset", values["high_watermark"])
    values.setdefault("log_end_offset", values["active"].end_offset)
    values.setdefault("isr_log_start_min", values["log_start_offset"])
    values.setdefault("deleted_to", values["log_start_offset"])
    values["ledger"] = ledger = ledger_of(*values.pop("remote"))
    bounds = Bounds(LeaderEpochCache(values["epochs"]), values["log_start_offset"], values["log_end_offset"])
    values["usable"] = UsableSegments.of(ledger, bounds)
    for missing in values.get("disproven", ()):
        values["usable"].exclude(missing)
    return PartitionView(**values)


def ledger_of(*segments: RemoteLogSegmentMetadata, partition: TopicIdPartition = PARTITION) -> RemoteLogLedger:
    """Each in its state."""
    ledger = RemoteLogLedger(partition)
    for segment in segments:
        ledger.apply(replace(segment, state=STARTED))
        if segment.state is not STARTED:
            ledger.apply(
                RemoteLogSegmentMetadataUpdate(
                    segment.segment_id, segment.state, segment.event_timestamp_ms, segment.broker_id
                )
            )
    return ledger


def ids(*numbers: int) -> tuple[RemoteLogSegmentId, ...]:
    return tuple(segment_id(number) for number in numbers)


def changed(before: PartitionView, **changes: Any) -> PartitionView:
    """`before` with other values, and what follows from them."""
    fields = {name: getattr(before, name) for name in before.__slots__ if name not in {"ledger", "usable"}}
    fields["remote"] = before.ledger.segments()
    fields["epochs"] = tuple((entry.epoch, entry.start_offset) for entry in before.epochs)
    return view(**{**fields, **changes})

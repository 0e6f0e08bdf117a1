"""Runs one bootstrap conversation against a leader that is a `ModelLog` and the real answering code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from tierfetch.fetcher.bootstrap import (
    Answer,
    AskEpochEnd,
    AskOffsets,
    AskRemoteSegments,
    Bootstrap,
    BootstrapPolicy,
    Decision,
    Offsets,
    Question,
    RemoteSegments,
)
from tierfetch.fetcher.epoch_fetch import FetchIsolation, Refuse, end_offset_for_leader_epoch
from tierfetch.fetcher.leader_offsets import OffsetAndEpoch, TieredEnd, special_offset
from tierfetch.log.epochs import EpochEnd, EpochEntry
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote.segment import RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentState
from tierfetch.tests.fetcher.model_log import ModelLog

PARTITION = TopicIdPartition(UUID(int=0x1023), "orders", 0)


def segment(
    start: int,
    end: int,
    *epochs: tuple[int, int],
    size: int = 1000,
    max_timestamp_ms: int = 0,
    number: int | None = None,
) -> RemoteLogSegmentMetadata:
    """The finished segment [start, end] (inclusive); one epoch 0 unless told otherwise."""
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(PARTITION, UUID(int=start if number is None else number)),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=max_timestamp_ms,
        broker_id=1,
        event_timestamp_ms=0,
        segment_size_in_bytes=size,
        segment_leader_epochs=tuple(EpochEntry(*entry) for entry in epochs) or (EpochEntry(0, start),),
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
    )


@dataclass
class Leader:
    """Answers a follower's questions; `offsets` overrides what a stub says, `None` for error 35."""

    log: ModelLog
    tiered: TieredEnd | None = field(default_factory=lambda: TieredEnd(None))
    version: int = 11
    offsets: dict[int, OffsetAndEpoch | None] = field(default_factory=dict)
    segments: Sequence[RemoteLogSegmentMetadata] | None = ()

    def answer(self, question: Question) -> Answer:
        match question:
            case AskOffsets(timestamps):
                return Offsets({timestamp: self._offset(timestamp) for timestamp in timestamps})
            case AskEpochEnd(epoch):
                end = end_offset_for_leader_epoch(self.log.view(), self.log.leader_epoch, epoch)
                assert isinstance(end, EpochEnd), end
                return end
            case AskRemoteSegments():
                return RemoteSegments(None if self.segments is None else tuple(self.segments))

    def _offset(self, timestamp: int) -> OffsetAndEpoch | None:
        if timestamp in self.offsets:
            return self.offsets[timestamp]
        answer = special_offset(self.log.view(), self.tiered, timestamp, FetchIsolation.LOG_END, self.version)
        return None if isinstance(answer, Refuse) else answer


def converse(bootstrap: Bootstrap, leader: Leader) -> tuple[list[Question], Decision]:
    """What was asked, in order, and what came out."""
    asked: list[Question] = []
    step = bootstrap.start()
    while isinstance(step, AskOffsets | AskEpochEnd | AskRemoteSegments):
        asked.append(step)
        assert len(asked) < 10, "a bootstrap asks a handful of questions"
        step = bootstrap.on_answer(leader.answer(step))
    return asked, step


def decide(policy: BootstrapPolicy, situation, leader: Leader) -> Decision:
    return converse(Bootstrap(policy, situation), leader)[1]

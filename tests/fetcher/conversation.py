"""One bootstrap conversation with a leader that is a `ModelLog` and the real answering code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tierfetch.fetcher.core.bootstrap import (
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
from tierfetch.fetcher.core.epoch_fetch import FetchIsolation, Refuse, end_offset_for_leader_epoch
from tierfetch.fetcher.core.leader_offsets import special_offset
from tierfetch.log.core import EpochEnd
from tierfetch.remote.core import OffsetAndEpoch, RemoteLogLedger, RemoteLogSegmentMetadata
from tierfetch.tests.fetcher.model_log import ModelLog
from tierfetch.tests.fetcher.model_tier import ledger_of


@dataclass
class Leader:
    """Answers a follower's questions; `offsets` overrides what a stub says, `None` for error 35."""

    log: ModelLog
    ledger: RemoteLogLedger | None = field(default_factory=ledger_of)
    version: int = 11
    offsets: dict[int, OffsetAndEpoch | None] = field(default_factory=dict)
    segments: Sequence[RemoteLogSegmentMetadata] = ()

    def answer(self, question: Question) -> Answer:
        match question:
            case AskOffsets(timestamps):
                return Offsets({timestamp: self._offset(timestamp) for timestamp in timestamps})
            case AskEpochEnd(epoch):
                end = end_offset_for_leader_epoch(self.log.view(), self.log.leader_epoch, epoch)
                assert isinstance(end, EpochEnd), end
                return end
            case AskRemoteSegments():
                return RemoteSegments(tuple(self.segments))

    def _offset(self, timestamp: int) -> OffsetAndEpoch | None:
        if timestamp in self.offsets:
            return self.offsets[timestamp]
        answer = special_offset(self.log.view(), self.ledger, timestamp, FetchIsolation.LOG_END, self.version)
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

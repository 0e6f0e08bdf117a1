"""Bugs of one replica's log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from tierfetch.log.core import LeaderEpochCache, ProducerStateManager, producer_state
from tierfetch.log.core.producer_state import BatchMetadata, ProducerStateEntry
from tierfetch.log.replica.appender import Appender, LogAppendInfo
from tierfetch.log.replica.flusher import Flusher
from tierfetch.log.replica.state import LogOffsets, LogState
from tierfetch.log.replica.truncation import Truncation
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import BatchHeader
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted


@planted(
    "acknowledge before fsync",
    file="log/replica/flusher.py",
    scenario="cluster",
    faults=(FaultKind.POWER_FAILURE, FaultKind.MACHINE_CRASH),
    flush_messages=(1,),
)
def acknowledge_before_fsync() -> Iterator[None]:
    async def flush_locked(self: Flusher, target: int) -> None:
        """As if the operating system would do the rest."""
        if target > self._state.recovery_point:
            self._state.recovery_point = target
            self._state.notify()

    with patch.object(Flusher, "flush_locked", flush_locked):
        yield


@planted(
    "a flush counts what was appended while it ran",
    file="log/replica/flusher.py",
    scenario="cluster",
    faults=(FaultKind.SLOW_DISK, FaultKind.POWER_FAILURE),
    flush_messages=(1,),
)
def counted_too_far() -> Iterator[None]:
    original = Flusher.flush_locked

    async def flush(self: Flusher, target: int) -> None:
        await original(self, target)
        self._state.recovery_point = max(self._state.recovery_point, self._state.log_end_offset)

    with patch.object(Flusher, "flush_locked", flush):
        yield


@planted(
    "a truncation leaves the leader epochs as they are",
    file="log/core/epochs.py",
    scenario="cluster",
    faults=(FaultKind.DEPOSE_LEADERS, FaultKind.MOVE_LEADER),
    weak_producers=(1,),
)
def epochs_not_truncated() -> Iterator[None]:
    with patch.object(LeaderEpochCache, "truncate_from_end", lambda self, end_offset: None):
        yield


@planted(
    "a truncation leaves the producers as they are",
    file="log/replica/truncation.py",
    scenario="cluster",
    faults=(FaultKind.DEPOSE_LEADERS, FaultKind.MOVE_LEADER),
    weak_producers=(1,),
)
def producers_not_truncated() -> Iterator[None]:
    original = Truncation._cut

    async def cut(self: Truncation, offset: int) -> None:
        before = self._state.producers
        await original(self, offset)
        entries = dict(before._entries)
        self._state.producers = ProducerStateManager(self._state.log_end_offset)
        self._state.producers._entries = entries

    with patch.object(Truncation, "_cut", cut):
        yield


@planted(
    "a new leader's epoch begins one record early",
    file="log/replica/appender.py",
    scenario="cluster",
    faults=(FaultKind.MOVE_LEADER,),
)
def epoch_begins_early() -> Iterator[None]:
    original = LeaderEpochCache.assign

    def assign(self: LeaderEpochCache, epoch: int, start_offset: int) -> bool:
        latest = self.latest_entry
        is_free = latest is not None and latest.start_offset < start_offset - 1 and epoch > latest.epoch
        return original(self, epoch, start_offset - 1 if is_free else start_offset)

    with patch.object(LeaderEpochCache, "assign", assign):
        yield


@planted(
    "the high watermark is taken for the last stable offset",
    file="log/replica/state.py",
    scenario="cluster",
    transactional_producers=(1,),
)
def no_last_stable_offset() -> Iterator[None]:
    with _last_stable_offset(lambda self: self.high_watermark):
        yield


@planted(
    "a batch that is sent again is appended again",
    file="log/core/producers.py",
    scenario="cluster",
    faults=(FaultKind.ONE_WAY, FaultKind.PARTITION, FaultKind.PROCESS_CRASH),
)
def sent_again() -> Iterator[None]:
    original = ProducerStateManager.check

    def check(self: ProducerStateManager, header, origin, **kwargs):
        try:
            original(self, header, origin, **kwargs)
        except KafkaError as error:
            if error.code is not ErrorCode.out_of_order_sequence_number:
                raise

    with patch.object(ProducerStateManager, "check", check):
        yield


@planted(
    "a leader counts what it has not flushed yet",
    file="log/replica/state.py",
    scenario="cluster",
    faults=(FaultKind.POWER_FAILURE, FaultKind.MACHINE_CRASH),
    flush_messages=(1,),
)
def unflushed_counts() -> Iterator[None]:
    with patch.object(LogState, "settled_end_offset", property(lambda self: self.log_end_offset)):
        yield


@planted(
    "a sequence out of order is accepted",
    file="log/core/producer_state.py",
    scenario="cluster",
    faults=(FaultKind.PARTITION, FaultKind.ONE_WAY, FaultKind.PAUSE, FaultKind.DEPOSE_LEADERS),
    pipelined=(True,),
    gap_ms=(100,),
)
def out_of_order() -> Iterator[None]:
    original = producer_state._check_sequence

    def check(entry, header) -> None:
        """What comes too late is refused; what comes too early is new."""
        if entry.producer_epoch != header.producer_epoch or header.base_sequence <= entry.last_sequence:
            original(entry, header)

    with patch.object(producer_state, "_check_sequence", check):
        yield


@planted(
    "the last stable offset goes above the high watermark",
    file="log/replica/state.py",
    scenario="cluster",
    faults=(FaultKind.DEPOSE_LEADERS, FaultKind.PAUSE, FaultKind.PARTITION),
    transactional_producers=(1,),
    segment_bytes=(3_000,),
    pipelined=(True,),
)
def stable_above_watermark() -> Iterator[None]:
    def last_stable_offset(self: LogState) -> int:
        first = self.first_unstable_offset
        return self.high_watermark if first is None else first

    with _last_stable_offset(last_stable_offset):
        yield


@contextmanager
def _last_stable_offset(wrong: Callable[[LogState], int]) -> Iterator[None]:
    """Have a log say this of itself, alone and among its other offsets."""
    offsets = LogState.offsets

    def all_offsets(self: LogState) -> LogOffsets:
        return offsets.fget(self)._replace(last_stable_offset=wrong(self))

    with (
        patch.object(LogState, "last_stable_offset", property(wrong)),
        patch.object(LogState, "offsets", property(all_offsets)),
    ):
        yield


@planted(
    "a batch that is sent again is answered without its offset",
    file="log/replica/appender.py",
    scenario="cluster",
    faults=(FaultKind.DISCONNECT, FaultKind.SLOW_LINK, FaultKind.ONE_WAY),
)
def duplicate_without_offset() -> Iterator[None]:
    original = Appender._duplicate

    async def duplicate(self: Appender, *arguments: object) -> LogAppendInfo:
        return replace(await original(self, *arguments), first_offset=-1)

    with patch.object(Appender, "_duplicate", duplicate):
        yield


@planted(
    "only the last batch of a producer is told from a new one",
    file="log/core/producer_state.py",
    scenario="cluster",
    faults=(FaultKind.DISCONNECT, FaultKind.SLOW_LINK, FaultKind.ONE_WAY),
    pipelined=(True,),
)
def only_the_last_is_known() -> Iterator[None]:
    original = ProducerStateEntry.find_duplicate

    def find_duplicate(self: ProducerStateEntry, header: BatchHeader) -> BatchMetadata | None:
        return original(self._replace(batches=self.batches[-1:]), header)

    with patch.object(ProducerStateEntry, "find_duplicate", find_duplicate):
        yield

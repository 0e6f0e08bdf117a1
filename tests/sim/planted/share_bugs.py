"""Bugs of share groups: what leaders say before it is kept, and what the next leader, or share coordinator, knows."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterator, Sequence
from dataclasses import replace
from unittest.mock import patch

from tierfetch.broker.share.core.acknowledgements import Acknowledged
from tierfetch.broker.share.core.partition import SharePartition, StoredBatch
from tierfetch.broker.share.core.partition import Write as Transition
from tierfetch.broker.share.core.runs import Lot, RecordState
from tierfetch.broker.share.live import LiveSharePartition
from tierfetch.broker.share_state.core import state
from tierfetch.broker.share_state.core.records import Snapshot
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted

CHANGES = (FaultKind.MOVE_LEADER, FaultKind.PROCESS_CRASH, FaultKind.MACHINE_CRASH, FaultKind.PARTITION)
"""What gives a partition another leader, or a share-partition another coordinator."""


@planted(
    "an acknowledgement is answered before the share coordinator has it",
    file="broker/share/live.py",
    scenario="shares",
    faults=CHANGES,
)
def answered_before_written() -> Iterator[None]:
    acknowledge = LiveSharePartition.acknowledge

    def early(self: LiveSharePartition, member: str, ranges: Sequence[Acknowledged]) -> Future[None] | None:
        acknowledge(self, member, ranges)
        return None

    with patch.object(LiveSharePartition, "acknowledge", early):
        yield


@planted(
    "locks end only with the sessions of their members",
    file="broker/share/core/partition.py",
    scenario="shares",
)
def locks_for_ever() -> Iterator[None]:
    def next_deadline_ms(self: SharePartition) -> int | None:
        return None

    with patch.object(SharePartition, "next_deadline_ms", next_deadline_ms):
        yield


@planted(
    "a record is given up one delivery before the limit",
    file="broker/share/core/partition.py",
    scenario="shares",
)
def given_up_early() -> Iterator[None]:
    def released(self: SharePartition, lot: Lot) -> RecordState:
        is_over = lot.delivery_count + 1 >= self.settings.delivery_count_max
        return RecordState.ARCHIVED if is_over else RecordState.AVAILABLE

    with patch.object(SharePartition, "_released", released):
        yield


@planted(
    "the next leader begins at the start, without what was finished behind it",
    file="broker/share/core/partition.py",
    scenario="shares",
    faults=CHANGES,
)
def finished_forgotten() -> Iterator[None]:
    load = SharePartition.load.__func__  # type: ignore[attr-defined]

    def some(cls: type[SharePartition], start: int, batches: Sequence[StoredBatch], settings: object) -> SharePartition:
        loaded: SharePartition = load(cls, start, [], settings)
        return loaded

    with patch.object(SharePartition, "load", classmethod(some)):
        yield


@planted(
    "a release is written without the delivery that it ends",
    file="broker/share/core/partition.py",
    scenario="shares",
    faults=CHANGES,
)
def delivery_not_counted() -> Iterator[None]:
    begin = SharePartition._begin

    def uncounted(self: SharePartition, changes: Sequence[tuple[int, int, object]]) -> Transition | None:
        write = begin(self, changes)  # type: ignore[arg-type]
        if write is None:
            return None
        batches = tuple(each._replace(delivery_count=max(each.delivery_count - 1, 0)) for each in write.batches)
        return write._replace(batches=batches)

    with patch.object(SharePartition, "_begin", uncounted):
        yield


@planted(
    "a snapshot of a share-partition has its start alone",
    file="broker/share_state/core/state.py",
    scenario="shares",
    faults=CHANGES,
)
def bare_snapshot() -> Iterator[None]:
    rewritten = state.rewritten

    def bare(of: state.ShareState, now_ms: int) -> Snapshot:
        return replace(rewritten(of, now_ms), batches=())

    with patch.object(state, "rewritten", bare):
        yield


@planted(
    "the end of one member's session frees what all members have locked",
    file="broker/share/core/partition.py",
    scenario="shares",
)
def all_released() -> Iterator[None]:
    release = SharePartition.release

    def of_all(self: SharePartition, member: str, *, was_given: bool) -> Transition | None:
        locked = [(run.first, run.last) for run in self.runs if run.lot.is_locked]
        self._runs.update([(first, last, lambda lot: lot._replace(member=member)) for first, last in locked])
        return release(self, member, was_given=was_given)

    with patch.object(SharePartition, "release", of_all):
        yield


@planted(
    "a renewal is answered, and the lock ends when it would have ended",
    file="broker/share/core/partition.py",
    scenario="shares",
    renews=(True,),
)
def renewals_renew_nothing() -> Iterator[None]:
    original = SharePartition.acknowledge

    def acknowledge(
        self: SharePartition, member: str, ranges: Sequence[Acknowledged], now_ms: int
    ) -> Transition | None:
        deadline_ms = now_ms - self.settings.lock_ms
        return original(self, member, ranges, deadline_ms)

    with patch.object(SharePartition, "acknowledge", acknowledge):
        yield

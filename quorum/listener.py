"""What the quorum hands to the appliers of the metadata log: values and a protocol; `delivery` hands them over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from ..light_dataclass import dataclass
from ..protocol.wire import Steps
from .core.state import LeaderAndEpoch

RECORDS_PER_STEP: Final = 250
"""Records that a listener applies before other work of the loop may have its turn: some 5 ms."""


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """One committed record batch; `records` is empty for a control batch, whose offsets count all the same."""

    base_offset: int
    last_offset: int
    epoch: int
    append_time_ms: int
    records: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """The state up to `offset`, exclusive: what was applied before is discarded."""

    offset: int
    epoch: int
    last_append_time_ms: int
    batches: Iterable[tuple[bytes, ...]]


class QuorumListener(Protocol):
    """A state machine that applies the metadata log.

    What takes long is returned as steps of at most `RECORDS_PER_STEP` records; nothing else is handed over before they
    are at their end. None: it is done.
    """

    def on_commit(self, batch: CommittedBatch) -> Steps[None] | None: ...

    def on_load_snapshot(self, snapshot: SnapshotContent) -> Steps[None] | None: ...

    def on_leader_change(self, leader: LeaderAndEpoch) -> None: ...

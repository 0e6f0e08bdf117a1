"""What a core knows of its own log, without reading it.

Two views are kept, because effects are decided before they are done:

* as *decided*: `end_offset`, `epochs`, `log_start`: the log once every effect issued so far is done. Elections,
  truncation points and the offsets of new records go by it: a failed effect is fatal, so there is no other future;
* as *done*: `written_end_offset` (can be read and served), `flushed_end_offset` (survives a crash). Acknowledgements
  and the high watermark go by it.

    flushed_end_offset <= written_end_offset <= end_offset

A truncation lowers all three at once, and what completions of earlier effects will report with them: an old flush must
not count for the records that took the place of those it flushed.
"""

from __future__ import annotations

from collections import deque

from ...light_dataclass import dataclass
from ...log.core import LeaderEpochCache
from .effects import AppendFetched, AppendRecords, Flush, InstallSnapshot, LogEffect, Truncate
from .events import RecoveredState
from .state import OffsetAndEpoch


@dataclass(slots=True)
class _Outstanding:
    """An effect under way, and up to where its completion will count."""

    effect: LogEffect | InstallSnapshot
    end_offset: int


class LogView:
    """One replica's log. Offsets are exclusive ends."""

    __slots__ = (
        "_outstanding",
        "end_offset",
        "epochs",
        "flushed_end_offset",
        "latest_snapshot",
        "log_start",
        "written_end_offset",
    )

    def __init__(self, recovered: RecoveredState) -> None:
        assert recovered.log_start.offset <= recovered.log_end_offset, recovered
        self.epochs = LeaderEpochCache(recovered.epochs)
        self.log_start = recovered.log_start
        self.end_offset = recovered.log_end_offset
        self.written_end_offset = recovered.log_end_offset
        self.flushed_end_offset = recovered.log_end_offset
        self.latest_snapshot = recovered.latest_snapshot
        self._outstanding: deque[_Outstanding] = deque()

    @property
    def last(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot if no record follows it."""
        return self.epochs.latest_epoch if self.end_offset > self.log_start.offset else self.log_start.epoch

    @property
    def is_busy(self) -> bool:
        """Whether any effect is under way."""
        return bool(self._outstanding)

    @property
    def is_installing(self) -> bool:
        """Whether it is open what the log will be: neither to be added to nor to stand for election with."""
        return any(isinstance(item.effect, InstallSnapshot) for item in self._outstanding)

    def append(self, effect: AppendRecords | AppendFetched) -> None:
        assert effect.base_offset == self.end_offset, (
            f"append at {effect.base_offset}, the log ends at {self.end_offset}"
        )
        assert effect.end_offset > effect.base_offset, effect
        assert not self.is_installing, f"append at {effect.base_offset} while a snapshot replaces the log"
        if isinstance(effect, AppendRecords):
            self.epochs.assign(effect.epoch, effect.base_offset)
        else:
            for batch in effect.records.batches:
                self.epochs.assign(batch.epoch, batch.base_offset)
        self.end_offset = effect.end_offset
        self._outstanding.append(_Outstanding(effect, effect.end_offset))

    def flush(self, effect: Flush) -> None:
        assert effect.end_offset == self.end_offset, (effect.end_offset, self.end_offset)
        self._outstanding.append(_Outstanding(effect, effect.end_offset))

    def truncate(self, effect: Truncate) -> None:
        end_offset = effect.end_offset
        assert self.log_start.offset <= end_offset <= self.end_offset, (end_offset, self.log_start, self.end_offset)
        self.epochs.truncate_from_end(end_offset)
        self.end_offset = end_offset
        self.written_end_offset = min(self.written_end_offset, end_offset)
        self.flushed_end_offset = min(self.flushed_end_offset, end_offset)
        for item in self._outstanding:
            item.end_offset = min(item.end_offset, end_offset)
        self._outstanding.append(_Outstanding(effect, end_offset))

    def install(self, effect: InstallSnapshot) -> None:
        assert not self._outstanding, f"{effect} while {self._outstanding[0].effect} is under way"
        self._outstanding.append(_Outstanding(effect, self.end_offset))

    def complete(self, effect: LogEffect) -> None:
        """The oldest effect under way is done."""
        assert self._outstanding, f"{effect} was completed, but nothing is under way"
        done = self._outstanding.popleft()
        assert done.effect == effect, f"{effect} was completed before {done.effect}"
        if isinstance(effect, Flush):
            self.flushed_end_offset = max(self.flushed_end_offset, done.end_offset)
        elif not isinstance(effect, Truncate):
            self.written_end_offset = max(self.written_end_offset, done.end_offset)
        assert self.flushed_end_offset <= self.written_end_offset <= self.end_offset, (
            self.flushed_end_offset,
            self.written_end_offset,
            self.end_offset,
        )

    def finish_install(self, snapshot_id: OffsetAndEpoch, *, is_installed: bool) -> None:
        """The snapshot took the log's place, or was refused and nothing changed."""
        assert self._outstanding, f"snapshot {snapshot_id} came to an end, but nothing is under way"
        done = self._outstanding.popleft()
        assert done.effect == InstallSnapshot(snapshot_id), (done.effect, snapshot_id)
        if is_installed:
            self.epochs.clear()
            self.log_start = self.latest_snapshot = snapshot_id
            self.end_offset = self.written_end_offset = self.flushed_end_offset = snapshot_id.offset

    def move_start(self, snapshot_id: OffsetAndEpoch, log_start: OffsetAndEpoch) -> None:
        """A snapshot was taken here, and the log now begins at `log_start`."""
        assert log_start.offset <= snapshot_id.offset <= self.written_end_offset, (log_start, snapshot_id)
        if self.latest_snapshot is None or snapshot_id > self.latest_snapshot:
            self.latest_snapshot = snapshot_id
        if log_start.offset > self.log_start.offset:
            self.log_start = log_start
            self.epochs.truncate_from_start(log_start.offset)

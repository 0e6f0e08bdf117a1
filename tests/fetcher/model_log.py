"""A replica's log as a model: one leader epoch for each offset, and the epoch cache that the real log would keep."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from tierfetch.fetcher.core.epoch_fetch import LeaderView
from tierfetch.log.core import EpochEntry, LeaderEpochCache
from tierfetch.protocol.records import Record, build_batch


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(epoch, start_offset) for epoch, start_offset in entries)


@cache
def batch_of(offset: int, epoch: int) -> bytes:
    """One record that says where it was written, and by the leader of which epoch."""
    value = f"{offset} of {epoch}".encode()
    return build_batch([Record(offset, 0, None, value, ())], base_offset=offset, partition_leader_epoch=epoch)


@dataclass
class ModelLog:
    """`records[i]` is the leader epoch of the record at offset `log_start_offset + i`."""

    epochs: LeaderEpochCache = field(default_factory=LeaderEpochCache)
    records: list[int] = field(default_factory=list)
    log_start_offset: int = 0
    local_log_start_offset: int = 0
    high_watermark: int = 0
    last_stable_offset: int | None = None
    epoch_start_offset: int = 0
    leader_epoch: int = 0
    followers: dict[int, int] = field(default_factory=dict)

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.records)

    def lead(self, leader_epoch: int) -> None:
        """A leader writes its epoch down even before it has data."""
        self.leader_epoch = leader_epoch
        self.epoch_start_offset = self.log_end_offset
        self.epochs.assign(leader_epoch, self.log_end_offset)

    def append(self, epoch: int, count: int = 1) -> None:
        for _ in range(count):
            self.epochs.assign(epoch, self.log_end_offset)
            self.records.append(epoch)

    def truncate_to(self, offset: int) -> None:
        del self.records[max(0, offset - self.log_start_offset) :]
        self.epochs.truncate_from_end(self.log_end_offset)
        self.high_watermark = min(self.high_watermark, self.log_end_offset)

    def batches(self, start: int, end: int) -> bytes:
        """The records [start, end) as real bytes, each in a batch of its own."""
        first = self.log_start_offset
        return b"".join(batch_of(offset, self.records[offset - first]) for offset in range(start, end))

    def view(self) -> LeaderView:
        return LeaderView(
            leader_epoch=self.leader_epoch,
            epochs=self.epochs,
            log_start_offset=self.log_start_offset,
            local_log_start_offset=max(self.log_start_offset, self.local_log_start_offset),
            last_stable_offset=self.high_watermark if self.last_stable_offset is None else self.last_stable_offset,
            high_watermark=self.high_watermark,
            log_end_offset=self.log_end_offset,
            epoch_start_offset=self.epoch_start_offset,
            followers=dict(self.followers),
        )


def model_log(*epochs: tuple[int, int], end: int, start: int = 0) -> ModelLog:
    """A log [start, end) with these epoch entries; led under its latest epoch."""
    log = ModelLog(log_start_offset=start)
    cache = epochs_of(*epochs)
    for offset in range(start, end):
        epoch = cache.epoch_for_offset(offset)
        assert epoch is not None
        log.append(epoch)
    log.epochs = cache
    log.leader_epoch = max(cache.latest_epoch, 0)
    log.high_watermark = end
    latest = cache.latest_entry
    log.epoch_start_offset = latest.start_offset if latest else 0
    return log


def worked_log() -> ModelLog:
    """The worked scenario of KIP-1023: epochs (0,0)(1,3)(2,5)(3,7), records 0..7, local from 3 on."""
    log = model_log((0, 0), (1, 3), (2, 5), (3, 7), end=8)
    log.local_log_start_offset = 3
    return log

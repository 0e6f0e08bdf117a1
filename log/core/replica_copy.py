"""The decision how a future log follows the log that it will replace: `next_step(current, future) -> step`.

A future log (KIP-113) is a copy of a partition's log in another log directory of the same broker. It is compared with
the current log before each step, so that whatever happened to either meanwhile, a crash included, is found out:

| found | step |
|---|---|
| the future log ends below the current one's start | Restart there |
| an offset in both has different leader epochs: the current log was truncated | TruncateTo that offset |
| the future log ends above the current one | TruncateTo its end |
| the current log start is higher | FollowLogStart |
| the future log has segments wholly below the current log's local start | TrimTo |
| the current log has more | CopyFrom the end of the future log; where that is within a batch, the copy begins again |
| both end at one offset, and the future log begins above the current one's local start (warming) | Restart |
| both end at one offset | CaughtUp |

Invariant: a batch is known by its offset and its leader epoch, within a broker as between brokers (KIP-101). So equal
epochs up to the end of the future log prove that it has the current log's batches, or batches that compaction has
removed from the current log since.

The epochs of the future log are assigned from those of the current one before the batches are copied (`epoch_span`),
because compaction may have removed the first batch of an epoch.
"""

from __future__ import annotations

from ...light_dataclass import dataclass
from .epochs import EpochEntry, LeaderEpochCache


@dataclass(frozen=True, slots=True)
class Copied:
    """One of the two logs at one instant; `first_roll_offset` is where its second segment begins, None without one."""

    log_start_offset: int
    local_log_start_offset: int
    log_end_offset: int
    epochs: LeaderEpochCache
    first_roll_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Restart:
    """Empty the future log; its next batch is the current log's first one."""


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Truncate the future log to `offset`."""

    offset: int


@dataclass(frozen=True, slots=True)
class FollowLogStart:
    """Raise the log start of the future log to `offset`."""

    offset: int


@dataclass(frozen=True, slots=True)
class TrimTo:
    """Remove the segments of the future log that are wholly below `offset`."""

    offset: int


@dataclass(frozen=True, slots=True)
class CopyFrom:
    """Append what the current log has from `offset` on."""

    offset: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The future log has everything."""


Step = Restart | TruncateTo | FollowLogStart | TrimTo | CopyFrom | CaughtUp


def next_step(current: Copied, future: Copied) -> Step:
    """Return what the future log needs next; see the module's table."""
    if future.log_end_offset < current.local_log_start_offset:
        return Restart()
    agreed = agreed_end(current, future)
    if agreed < future.log_end_offset:
        # Nothing in common: an empty future log would be truncated to its own start for ever.
        return TruncateTo(agreed) if agreed > future.local_log_start_offset else Restart()
    if current.log_start_offset > future.log_start_offset:
        return FollowLogStart(current.log_start_offset)
    if future.first_roll_offset is not None and future.first_roll_offset <= current.local_log_start_offset:
        return TrimTo(current.local_log_start_offset)
    if future.log_end_offset < current.log_end_offset:
        return CopyFrom(future.log_end_offset)
    if future.local_log_start_offset > current.local_log_start_offset:
        return Restart()
    return CaughtUp()


def agreed_end(current: Copied, future: Copied) -> int:
    """Return the offset up to which the future log holds batches of the current one's leader epochs, at most its end.

    Below the start of either log nothing is compared.
    """
    start = max(current.local_log_start_offset, future.local_log_start_offset)
    end = min(current.log_end_offset, future.log_end_offset)
    if end <= start:
        return end
    ours, theirs = current.epochs.range(start, end), future.epochs.range(start, end)
    for offset in sorted({start, *(max(start, entry.start_offset) for entry in (*ours, *theirs))}):
        if current.epochs.epoch_for_offset(offset) != future.epochs.epoch_for_offset(offset):
            return offset
    return end


def epoch_span(epochs: LeaderEpochCache, offset: int, end_offset: int) -> tuple[EpochEntry | None, int]:
    """Return the epoch entry that covers `offset`, None without one, and the end of its range, at most `end_offset`."""
    following = [entry.start_offset for entry in epochs.entries if entry.start_offset > offset]
    epoch = epochs.epoch_for_offset(offset)
    entry = next((entry for entry in epochs.entries if entry.epoch == epoch), None)
    return entry, min([end_offset, *following[:1]])

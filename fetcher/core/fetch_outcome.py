"""What a follower does with the leader's answer for one partition where the two do not agree.

answer                                  outcome
--------------------------------------  -------------------------------------------------------------------------
DivergingEpoch at or above local start  Cut, and fetch again: the next answer validates the cut
DivergingEpoch below local start        Begin (bootstrap rule 7): the replica counts as empty
DivergingEpoch that would cut nothing   BackOff: an answer that cannot be acted upon must not make the two spin
OFFSET_OUT_OF_RANGE                     Begin
OFFSET_MOVED_TO_TIERED_STORAGE          Begin
FENCED_LEADER_EPOCH                     Stop, until the metadata brings the new epoch
any other error                         BackOff: the leader, the topic or the metadata is on its way
"""

from __future__ import annotations

from ...light_dataclass import dataclass
from ...log.core import LeaderEpochCache
from ...protocol import ErrorCode
from .bootstrap import Trigger
from .epoch_fetch import truncation_for
from .partition_fetch import FetchedPartition


@dataclass(frozen=True, slots=True)
class Cut:
    """Truncate to `offset`."""

    offset: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Ask where to begin."""

    trigger: Trigger


@dataclass(frozen=True, slots=True)
class BackOff:
    """Fetch again later."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop fetching under this leader epoch."""

    reason: str


Outcome = Cut | Begin | BackOff | Stop


def outcome_of(
    answer: FetchedPartition, epochs: LeaderEpochCache, local_log_start_offset: int, log_end_offset: int
) -> Outcome:
    """The table of the module docstring, for a replica with these epochs and offsets."""
    match answer.error:
        case ErrorCode.none:
            return _cut(answer, epochs, local_log_start_offset, log_end_offset)
        case ErrorCode.offset_out_of_range:
            return Begin(Trigger.OUT_OF_RANGE)
        case ErrorCode.offset_moved_to_tiered_storage:
            return Begin(Trigger.MOVED_TO_TIERED_STORAGE)
        # Asking again cannot help: only an image with the newer epoch says whom to follow.
        case ErrorCode.fenced_leader_epoch:
            return Stop("fenced: the leader has a newer leader epoch")
        case error:
            return BackOff(f"the leader answers {error.name.upper()}")


def _cut(
    answer: FetchedPartition, epochs: LeaderEpochCache, local_log_start_offset: int, log_end_offset: int
) -> Outcome:
    assert answer.diverging_epoch is not None
    truncation = truncation_for(answer.diverging_epoch, epochs, log_end_offset)
    if truncation is None:
        return BackOff(f"the leader diverges at an unknown epoch: {answer.diverging_epoch}")
    if truncation.offset < local_log_start_offset:
        return Begin(Trigger.TRUNCATED_BELOW_LOCAL_START)
    latest = epochs.latest_entry
    has_epoch_without_data = latest is not None and latest.start_offset >= truncation.offset
    if truncation.offset >= log_end_offset and not has_epoch_without_data:
        return BackOff(f"the leader diverges at {answer.diverging_epoch}, which this replica agrees with")
    return Cut(truncation.offset)

"""What the remote log manager does next for one partition: `plan(view, now_ms) -> actions`. Pure.

Who may ask for what, and when it is safe:

| action         | role   | only if                                                                                   |
|----------------|--------|-------------------------------------------------------------------------------------------|
| Copy           | leader | tiering on; the segment is closed, ends at or below the last stable offset, and is the    |
|                |        | oldest one that usable remote segments do not cover; no other copy is under way           |
| AbandonOrphan  | leader | a copy was started and not finished, nobody can still be at it, and the log does without  |
|                |        | it, should it be finished after all                                                       |
| RaiseLogStart  | leader | the offsets below breach retention, or the tier is being emptied; never above the high    |
|                |        | watermark                                                                                 |
| DeleteRemote   | leader | a deletion was begun; or the segment ends below the log start *that every member of the   |
|                |        | ISR has*; or it is a copy that another one replaced                                       |
| Prove          | any    | local retention wants a segment whose object nobody here has looked at yet                |
| DeleteLocal    | any    | closed, below the high watermark, and below the log start or covered by proven segments   |
| RollActive     | any    | all else is gone locally and the active segment itself breaches local retention           |

Rules that hold for every view and plan:

* An offset at or above the log start stays in a local segment or in a usable remote one.
* Expiry first raises the log start and only then deletes: a deletion needs the raised start in the view, on every
  member of the ISR. So a leader that was deposed deletes nothing that its successor may name.
* A view that shows remote segments of a newer epoch than the leader's own is a deposed leader's: nothing is planned.
* "Usable" is FINISHED, whole on this replica's epoch lineage, and not found missing. What straddles a divergence
  counts for nothing.
* A plan is repeated after its actions were done; they make the next view, and a view that needs nothing plans nothing.
* One plan takes a bounded number of steps of each kind, and costs O(log n) in the number of remote segments, plus what
  it decides about. The ledger and the usable segments are asked for what is at their ends, never walked through.
* A plan asks about the time only by `Moment.is_after`: so it is known until when the same view gives the same plan.

Does not know who performs the actions, how long they take, or why one failed: a failure is the same view again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice

from ...light_dataclass import dataclass
from ...remote.core import (
    OffsetRuns,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
)
from .moment import Moment
from .retention import breached_local_segments, breached_remote_segments
from .view import LocalSegment, PartitionView, TierMode

PROOFS_MAX = 64
"""How many remote segments one plan asks to prove, so that local deletion continues in between."""

DELETIONS_MAX = 256
"""How many remote segments one plan asks to delete, so that everything else continues in between."""

EXPIRED_MAX = 512
"""How many remote segments one plan expires; the next one continues there."""

LOCAL_DELETIONS_MAX = 512
"""How many local segments one plan looks at for proofs, the oldest first."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Upload this closed local segment under a new segment id."""

    segment: LocalSegment


@dataclass(frozen=True, slots=True)
class AbandonOrphan:
    """Delete what a copy that will never finish has left."""

    segment_id: RemoteLogSegmentId


@dataclass(frozen=True, slots=True)
class RaiseLogStart:
    """Move the log start offset up, under the current leader epoch."""

    to_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteRemote:
    """Delete these segments from the tier."""

    segment_ids: tuple[RemoteLogSegmentId, ...]


@dataclass(frozen=True, slots=True)
class Prove:
    """Ask the store whether these segments are there with the size that their metadata states."""

    segment_ids: tuple[RemoteLogSegmentId, ...]


@dataclass(frozen=True, slots=True)
class DeleteLocal:
    """Delete the local segments that end at or below `up_to_offset`."""

    up_to_offset: int


@dataclass(frozen=True, slots=True)
class RollActive:
    """Close the active segment, whose first offset is `base_offset`, so that it can be copied and deleted."""

    base_offset: int


Upkeep = AbandonOrphan | RaiseLogStart | DeleteRemote | Prove | DeleteLocal | RollActive
Action = Copy | Upkeep


def plan(view: PartitionView, now_ms: int) -> list[Action]:
    """What to do now: the next copy and the upkeep."""
    copy = plan_copy(view)
    upkeep = plan_upkeep(view, Moment(now_ms))
    return [copy, *upkeep] if copy else [*upkeep]


def plan_copy(view: PartitionView) -> Copy | None:
    """The next copy, if it may begin now."""
    copies = pending_copies(view)
    return Copy(copies[0]) if copies and not view.in_flight else None


def plan_upkeep(view: PartitionView, moment: Moment) -> list[Upkeep]:
    """Everything else, in the order in which it is to be done: what frees the local disk before what frees the tier."""
    if view.policy.mode is TierMode.UNTIERED or is_deposed(view):
        return []
    local = _shrink_local(view, moment)
    if not view.is_leader:
        return local
    return [*_raise_log_start(view, moment), *local, *_abandon_orphans(view, moment), *_delete_remote(view)]


def is_deposed(view: PartitionView) -> bool:
    """Return whether a leader of a newer epoch has already written to the tier."""
    if view.leader_epoch is None:
        return False
    return view.ledger.newest_epoch > view.leader_epoch


def pending_copies(view: PartitionView) -> list[LocalSegment]:
    """Return the closed segments that must be copied, in order, the one under way included.

    A segment is pending unless usable segments hold all its offsets: a new leader continues where the old one stopped,
    even if its segments begin elsewhere, and what went missing in the tier is copied again while it is still here.
    """
    if not view.is_leader or view.policy.mode is not TierMode.COPYING or is_deposed(view):
        return []
    # Mostly the tier has all from the log start on up to some offset: segments up to there need no further look.
    tiered_to = view.usable.end_of_run(view.log_start_offset)
    first = bisect_right(view.closed, tiered_to, key=lambda part: part.end_offset)
    return [
        part
        for part in view.closed[first:]
        if part.size_bytes > 0
        and view.log_start_offset < part.end_offset <= view.last_stable_offset
        and not view.usable.holds(max(view.log_start_offset, part.base_offset), part.end_offset)
    ]


def overtaken_by(view: PartitionView, attempt: RemoteLogSegmentId, moment: Moment) -> RemoteLogSegmentMetadata | None:
    """Return the unfinished copy of some of the same offsets because of which this broker's `attempt` ends, the latest
    of them, or None: that copy's broker is the later leader, and continues alone.

    | leader epochs of the two                 | the attempt is overtaken                                            |
    |------------------------------------------|---------------------------------------------------------------------|
    | the other's is lower                     | never: a deposed leader has begun late, as one whose disk hung does |
    | the other's is higher                    | if the other was begun later, or its upload may be under way still  |
    | an id does not say (a leader of Kafka's) | if the other was begun later                                        |

    Of two brokers that see the same ledger at most one is overtaken. A copy that was begun earlier counts only for as
    long as its upload may take: epochs may begin again below it, where a cluster was restored.
    """
    started = view.ledger.started()
    place = next((index for index, other in enumerate(started) if other.segment_id == attempt), None)
    if place is None:
        return None
    own = started[place]
    for index in range(len(started) - 1, -1, -1):
        other = started[index]
        is_rival = other.broker_id != own.broker_id and _overlap(own, other)
        if is_rival and _overtakes(view, own, other, is_later=index > place, moment=moment):
            return other
    return None


def _overtakes(
    view: PartitionView,
    own: RemoteLogSegmentMetadata,
    other: RemoteLogSegmentMetadata,
    *,
    is_later: bool,
    moment: Moment,
) -> bool:
    own_epoch, other_epoch = own.segment_id.leader_epoch, other.segment_id.leader_epoch
    if own_epoch is None or other_epoch is None or own_epoch == other_epoch:
        return is_later
    return other_epoch > own_epoch and (is_later or _may_be_under_way(view, other, moment))


def must_give_way(view: PartitionView, segment: LocalSegment, rival: RemoteLogSegmentMetadata, moment: Moment) -> bool:
    """Return whether a copy of `segment` waits for `rival`, which has overtaken the one before it. Begun again at once
    it would be later than the rival, whose leader, the true one, might give way to it in its turn, and so on.
    """
    current = view.ledger.get(rival.segment_id)
    return (
        current is not None
        and current.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED
        and current.start_offset < segment.end_offset
        and segment.base_offset <= current.end_offset
        and _may_be_under_way(view, current, moment)
    )


def _may_be_under_way(view: PartitionView, started: RemoteLogSegmentMetadata, moment: Moment) -> bool:
    """Return whether the upload of an unfinished copy has not run out of time, by the clock of its broker. One that
    says to have begun further in the future than it may take would never run out, and hold up all others.
    """
    may_take_ms = view.copy_deadline.of_size_ms(started.segment_size_in_bytes)
    begun_ms = started.event_timestamp_ms
    return not moment.is_after(begun_ms + may_take_ms) and moment.is_after(begun_ms - may_take_ms - 1)


def _overlap(one: RemoteLogSegmentMetadata, other: RemoteLogSegmentMetadata) -> bool:
    return other.start_offset <= one.end_offset and one.start_offset <= other.end_offset


def _abandon_orphans(view: PartitionView, moment: Moment) -> list[Upkeep]:
    """Return the deletions of copies that will never finish.

    Another broker's attempt is given the time that its upload may take: what arrives after the deletion would stay for
    ever, because no ledger names it. Its COPY_SEGMENT_FINISHED may still arrive, even between the last look at the
    ledger and the deletion. A follower that sees it may delete its local segments, and would have lost them with the
    deletion if this leader died next. So other copies hold all those offsets before the orphan goes.
    """
    orphans: list[Upkeep] = []
    for segment in view.ledger.segments(RemoteLogSegmentState.COPY_SEGMENT_STARTED):
        if segment.segment_id in view.in_flight:
            continue
        # A copy of this broker that is not in flight died with an earlier attempt or process: nothing can still arrive.
        is_own = segment.broker_id == view.broker_id
        if is_own:
            orphans.append(AbandonOrphan(segment.segment_id))
        elif not _may_be_under_way(view, segment, moment):
            orphans += _abandoned_once_needless(view, segment)
    return orphans


def _abandoned_once_needless(view: PartitionView, segment: RemoteLogSegmentMetadata) -> list[Upkeep]:
    """Return the deletion of another broker's attempt, or the proofs that must come before it. Nothing yet where no
    usable segments hold its offsets. Local segments go on the strength of a copy only while copying.
    """
    start = max(view.log_start_offset, segment.start_offset)
    end = min(segment.end_offset + 1, view.log_end_offset)  # what is beyond was lost with an unclean election
    if view.policy.mode is TierMode.COPYING and start < end:
        if view.usable.end_of_run(start) < end:
            return []
        unproven = tuple(s.segment_id for s in view.usable.overlapping(start, end) if s.segment_id not in view.proven)
        if unproven:
            return [Prove(unproven[:PROOFS_MAX])]
    return [AbandonOrphan(segment.segment_id)]


def _raise_log_start(view: PartitionView, moment: Moment) -> list[Upkeep]:
    reason = "remote storage was disabled" if view.policy.mode is TierMode.DELETING else "retention"
    to_offset = _expired(view, moment)
    if to_offset <= view.log_start_offset:
        to_offset, reason = _first_offset_anywhere(view), "the tier holds nothing below"
    if view.log_start_offset < to_offset <= view.high_watermark:
        return [RaiseLogStart(to_offset, reason)]
    return []


def _expired(view: PartitionView, moment: Moment) -> int:
    """Return where the log starts once everything that the topic's configuration no longer keeps is deleted."""
    match view.policy.mode:
        case TierMode.COPYING:
            return _expired_in_tier(view, moment)
        case TierMode.READ_ONLY:
            return _expired_anywhere(view, moment)
        case TierMode.DELETING:
            return view.local_log_start_offset
        case TierMode.UNTIERED:
            return view.log_start_offset


def _expired_in_tier(view: PartitionView, moment: Moment) -> int:
    """Return where the log starts once retention has taken the oldest remote segments, at most EXPIRED_MAX of them."""
    tiered_to = view.log_start_offset if view.usable.end_offset is None else view.usable.end_offset
    local_only = (part.size_bytes for part in (*view.closed, view.active) if part.base_offset >= tiered_to)
    breached = breached_remote_segments(
        islice(view.usable.with_sizes(), EXPIRED_MAX),
        total_bytes=view.usable.size_bytes + sum(local_only),
        retention_bytes=view.policy.retention_bytes,
        retention_ms=view.policy.retention_ms,
        moment=moment,
    )
    expired_to = view.log_start_offset
    for segment in breached:
        # A gap in the tier that only the local log fills is not retention's to jump over: those offsets are younger
        # than what was expired, and may not be copied yet.
        skips_local_offsets = segment.start_offset > max(expired_to, view.local_log_start_offset)
        if skips_local_offsets or segment.end_offset >= view.high_watermark:
            break
        expired_to = max(expired_to, segment.end_offset + 1)
    return expired_to


def _expired_anywhere(view: PartitionView, moment: Moment) -> int:
    """Return the same for a topic without copies: once the tier is expired, retention continues with the local log."""
    expired_to = _expired_in_tier(view, moment)
    if expired_to < view.local_log_start_offset:
        return expired_to
    parts = [part for part in view.closed if part.end_offset > expired_to]
    breached = _breached_locally(view, parts, moment)
    return max((p.end_offset for p in parts[:breached] if p.end_offset <= view.high_watermark), default=expired_to)


def _breached_locally(view: PartitionView, parts: Sequence[LocalSegment], moment: Moment) -> int:
    """How many of the closed `parts` and the active segment behind them breach local retention."""
    return breached_local_segments(
        [*parts, view.active] if view.active.size_bytes else parts,
        retention_bytes=view.policy.local_retention_bytes,
        retention_ms=view.policy.local_retention_ms,
        moment=moment,
    )


def _first_offset_anywhere(view: PartitionView) -> int:
    """Return the first offset that some tier still holds, as far as the ledger knows of deletions.

    Above the log start only if the last leader deleted and the raised start did not survive on this replica. What the
    ledger merely does not name may be there all the same: its events are lost, and the log start stays.
    """
    if view.deleted_to <= view.log_start_offset:
        return view.log_start_offset
    held = view.ledger.lowest_start_from(view.log_start_offset)
    bounds = [view.deleted_to, view.local_log_start_offset, *([] if held is None else [held])]
    return max(view.log_start_offset, min(bounds))


def first_offset_of_tier(view: PartitionView) -> int:
    """Return the log start of a replica that lost its own: where its history begins in the tier, or else locally."""
    local_start = view.closed[0].base_offset if view.closed else view.active.base_offset
    first = next(iter(view.usable), None)
    return local_start if first is None else min(first.start_offset, local_start)


def _delete_remote(view: PartitionView) -> list[Upkeep]:
    """Decide what is deleted from the tier for ever."""
    doomed = [
        segment.segment_id
        for segment in _unneeded_segments(view)
        # What the copier of this node works on is not deleted under it: the copy ends first.
        if segment.segment_id not in view.in_flight
    ]
    return [DeleteRemote(tuple(doomed[:DELETIONS_MAX]))] if doomed else []


def _unneeded_segments(view: PartitionView) -> list[RemoteLogSegmentMetadata]:
    """Return segments that no replica and no reader needs, those with a begun deletion included, by their start
    offsets: at least DELETIONS_MAX of them, if there are so many, beside what is in flight.
    """
    count = DELETIONS_MAX + len(view.in_flight)
    # A member of the ISR with a lower log start may lead next, and would then name what was deleted.
    start = min(view.log_start_offset, view.isr_log_start_min)
    isr_has_start = start == view.log_start_offset
    # A deletion that was begun, by this leader or an earlier one, must end: no reader finds the segment.
    unneeded = view.ledger.first_of(RemoteLogSegmentState.DELETE_SEGMENT_STARTED, count)
    # Offsets below the log start are no longer the log's. Nothing that ends at or above it goes for that reason, on
    # whatever lineage it is: the next leader may have that lineage.
    unneeded += view.ledger.first_before(start, count)
    if isr_has_start and _is_tier_emptied(view):
        unneeded += view.ledger.first_of(RemoteLogSegmentState.COPY_SEGMENT_FINISHED, count)
    if isr_has_start and view.epochs:
        # Epochs below the lineage's first one end below the log start, or were lost in an unclean election.
        unneeded += view.ledger.first_of_epochs_before(view.epochs[0].epoch, count)
    unneeded += _replaced(view)
    by_id = {segment.segment_id: segment for segment in unneeded}
    return sorted(by_id.values(), key=lambda segment: (segment.start_offset, segment.end_offset, segment.segment_id.id))


def _is_tier_emptied(view: PartitionView) -> bool:
    """Return whether remote storage was disabled with deletion, and the log no longer starts in the tier (KIP-950)."""
    return view.policy.mode is TierMode.DELETING and view.log_start_offset >= view.local_log_start_offset


def _replaced(view: PartitionView) -> list[RemoteLogSegmentMetadata]:
    """Return the missing or damaged copies of which other copies hold all offsets. Until then they stay: what is left
    of them may be all that there is.
    """
    found = (view.ledger.get(segment_id) for segment_id in view.disproven)
    return [
        segment
        for segment in found
        if segment is not None
        and segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        and view.usable.holds(segment.start_offset, segment.end_offset + 1)
    ]


def _shrink_local(view: PartitionView, moment: Moment) -> list[Upkeep]:
    committed = [part for part in view.closed if part.end_offset <= view.high_watermark]
    below = [part for part in committed if part.end_offset <= view.log_start_offset]
    kept = list(view.closed[len(below) :])
    actions: list[Upkeep] = []
    breached = _breached_locally(view, kept, moment)
    if view.policy.mode is TierMode.COPYING:
        # Only the oldest are looked at: what is proven of them goes, and the next plan continues there.
        wanted = committed[len(below) : len(below) + min(breached, LOCAL_DELETIONS_MAX)]
        proofs, proven = _proven(view, wanted)
        actions += proofs
        below += proven
        kept = kept[len(proven) :]
        breached -= len(proven)
    if below:
        actions.append(DeleteLocal(below[-1].end_offset))
    may_roll = view.policy.mode is TierMode.COPYING or (view.is_leader and view.policy.mode is TierMode.READ_ONLY)
    if may_roll and not kept and breached and view.high_watermark >= view.log_end_offset:
        actions.append(RollActive(view.active.base_offset))
    return actions


def _proven(view: PartitionView, wanted: Sequence[LocalSegment]) -> tuple[list[Upkeep], list[LocalSegment]]:
    """The part of `wanted` that proven remote segments cover, and what else to prove so that more may go."""
    if not wanted:
        return [], []
    start = max(view.log_start_offset, wanted[0].base_offset)
    covered = view.usable.end_of_run(start)
    wanted = [part for part in wanted if part.end_offset <= covered]
    if not wanted:
        return [], []
    needed = view.usable.overlapping(start, wanted[-1].end_offset)
    unproven = tuple(s.segment_id for s in needed if s.segment_id not in view.proven)
    proven_to = OffsetRuns.of(s for s in needed if s.segment_id in view.proven).end_of_run(start)
    proofs: list[Upkeep] = [Prove(unproven[:PROOFS_MAX])] if unproven else []
    return proofs, [part for part in wanted if part.end_offset <= proven_to]

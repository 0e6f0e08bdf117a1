"""One share-partition: what its records add up to, and which record a request becomes.

| request | judged by | becomes |
|---|---|---|
| initialize | state epoch | a snapshot that begins at the start offset, without batches; nothing in the same epoch |
| initialize, without a start offset | state epoch | the same for what is not known yet; else nothing |
| read, by a leader under a new leader epoch | leader epoch | an update with that epoch |
| write | leader epoch, state epoch | an update; every N-th a snapshot |
| delete, in an epoch of the group | state epoch | a fence of that epoch; nothing where there is one |
| delete, without an epoch (of Apache Kafka) | - | a tombstone |

A *fence* is all that is left of a deleted share-partition: an empty snapshot without a leader. Whatever its group asked
up to then may still be under way, twice or late: for `FENCE_MS` an epoch up to the fence's begins nothing. A group of
the same name therefore begins in a higher epoch (`groups.share_groups`), in which nothing of the one before counts.
Apache Kafka's share coordinators take a fence for a share-partition whose first leader chooses where it begins.

An epoch of -1 is not judged. A lower one is fenced; so is a state epoch above the one that is known, which was not
initialized. What is not initialized can be neither read nor written: INVALID_REQUEST.

`applied` takes in a record, live and from the log alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ....light_dataclass import dataclass
from ....protocol import ErrorCode, KafkaError
from .batches import NO_OFFSET, Batch, check_batches, combined
from .records import UNKNOWN_COUNT, Snapshot, Update

NOT_GIVEN: Final = -1
NO_LEADER: Final = -1
"""The leader epoch of a fence; a share-partition begins with 0."""
FENCE_MS: Final = 60_000
"""How long a fence holds: a call to share coordinators ends after 10 s, whatever is left of it is in a queue."""


@dataclass(frozen=True, slots=True)
class ShareState:
    """A snapshot with its updates, of which there are `updates`."""

    snapshot: Snapshot
    updates: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What a leader has to say; a start offset, count or epoch of -1 is not given."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = UNKNOWN_COUNT
    batches: tuple[Batch, ...] = ()


def applied(state: ShareState | None, value: Snapshot | Update) -> ShareState:
    """Return the state after a record. An update without a snapshot, which was lost, stands for itself."""
    if isinstance(value, Snapshot):
        return ShareState(replace(value, batches=combined(value.batches, value.start_offset)))
    if state is None:
        state = ShareState(
            Snapshot(
                snapshot_epoch=value.snapshot_epoch,
                state_epoch=0,
                leader_epoch=value.leader_epoch,
                start_offset=value.start_offset,
                create_timestamp_ms=0,
                write_timestamp_ms=0,
            )
        )
    return ShareState(_updated(state.snapshot, value), state.updates + 1)


def _updated(snapshot: Snapshot, value: Update) -> Snapshot:
    start_offset = snapshot.start_offset if value.start_offset == NO_OFFSET else value.start_offset
    return replace(
        snapshot,
        leader_epoch=max(snapshot.leader_epoch, value.leader_epoch),
        start_offset=start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=combined((*snapshot.batches, *value.batches), start_offset),
    )


def initialized(state: ShareState | None, state_epoch: int, start_offset: int, now_ms: int) -> Snapshot | None:
    """Return the snapshot with which a share-partition begins, or begins again; None if it has begun: in this epoch, or
    in any if no start offset is given. A request that comes twice, the second time in a newer epoch of its group, must
    not drop what was acknowledged between; an operator who lets it begin again says where. Raise FENCED_STATE_EPOCH.
    """
    if start_offset < NO_OFFSET:
        raise KafkaError(ErrorCode.invalid_request, f"start offset {start_offset} is below -1, which is not known yet")
    if state is not None and state_epoch != NOT_GIVEN and not is_over(state, now_ms):
        known = state.snapshot.state_epoch
        if state_epoch < known or (state_epoch == known and is_fence(state)):
            raise _fenced(ErrorCode.fenced_state_epoch, "state epoch", state_epoch, known)
    before, state = state, None if state is None or is_fence(state) else state
    is_same = state_epoch != NOT_GIVEN and state is not None and state_epoch == state.snapshot.state_epoch
    if is_same or (state is not None and start_offset == NO_OFFSET):
        return None
    return Snapshot(
        snapshot_epoch=0 if before is None else before.snapshot.snapshot_epoch + 1,
        state_epoch=state_epoch,
        # A leader that is fenced stays fenced, whatever is initialized.
        leader_epoch=0 if state is None else state.snapshot.leader_epoch,
        start_offset=start_offset,
        # From a known start on nothing is delivered yet, so the lag is known too.
        delivery_complete_count=UNKNOWN_COUNT if start_offset == NO_OFFSET else 0,
        create_timestamp_ms=now_ms,
        write_timestamp_ms=now_ms,
    )


def deleted(state: ShareState | None, state_epoch: int, now_ms: int) -> Snapshot | None:
    """Return the fence that is left of a share-partition, which may be unknown; None if there is one already. Raise
    FENCED_STATE_EPOCH if it has begun again in a newer epoch of its group: the request comes late.
    """
    known = None if state is None else state.snapshot.state_epoch
    if known is not None and state_epoch < known:
        raise _fenced(ErrorCode.fenced_state_epoch, "state epoch", state_epoch, known)
    if state is not None and is_fence(state) and state_epoch == known:
        return None
    return Snapshot(
        snapshot_epoch=0 if state is None else state.snapshot.snapshot_epoch + 1,
        state_epoch=state_epoch,
        leader_epoch=NO_LEADER,
        start_offset=NO_OFFSET,
        create_timestamp_ms=now_ms,
        write_timestamp_ms=now_ms,
    )


def is_fence(state: ShareState) -> bool:
    """Whether it is what is left of a deleted share-partition, which is not initialized."""
    snapshot = state.snapshot
    is_empty = snapshot.start_offset == NO_OFFSET and not snapshot.batches and not state.updates
    return snapshot.leader_epoch == NO_LEADER and is_empty


def is_over(state: ShareState, now_ms: int) -> bool:
    """Whether it is a fence that no longer holds."""
    return is_fence(state) and now_ms - state.snapshot.create_timestamp_ms >= FENCE_MS


def read_by(state: ShareState, leader_epoch: int) -> Update | None:
    """Return the record with which a leader under this epoch takes over; None if it has. Raise FENCED_LEADER_EPOCH."""
    check_leader(state, leader_epoch)
    if leader_epoch in (NOT_GIVEN, state.snapshot.leader_epoch):
        return None
    return Update(
        snapshot_epoch=state.snapshot.snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=state.snapshot.start_offset,
        delivery_complete_count=state.snapshot.delivery_complete_count,
    )


def written(state: ShareState, write: Write, updates_max: int, now_ms: int) -> Snapshot | Update:
    """Return the record of a leader's write. Raise FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, INVALID_REQUEST."""
    check_leader(state, write.leader_epoch)
    if write.state_epoch not in (NOT_GIVEN, state.snapshot.state_epoch):
        raise _fenced(ErrorCode.fenced_state_epoch, "state epoch", write.state_epoch, state.snapshot.state_epoch)
    if write.start_offset < NO_OFFSET:
        raise KafkaError(ErrorCode.invalid_request, f"start offset {write.start_offset} is below -1")
    check_batches(write.batches)
    # A write that was held up on its way must not bring back what is finished.
    is_late = NO_OFFSET != write.start_offset < state.snapshot.start_offset
    update = Update(
        snapshot_epoch=state.snapshot.snapshot_epoch,
        leader_epoch=write.leader_epoch,
        start_offset=state.snapshot.start_offset if is_late else write.start_offset,
        delivery_complete_count=(state.snapshot.delivery_complete_count if is_late else write.delivery_complete_count),
        batches=combined(write.batches, write.start_offset),
    )
    return update if state.updates < updates_max else rewritten(applied(state, update), now_ms)


def check_size(state: ShareState, value: Snapshot | Update, batches_max: int) -> None:
    """Raise INVALID_REQUEST for a record that adds ranges above the limit; one that adds none is always let in."""
    before, after = len(state.snapshot.batches), len(applied(state, value).snapshot.batches)
    if after > max(before, batches_max):
        message = f"the share-partition would have {after} ranges instead of {before}, at most {batches_max} may be"
        raise KafkaError(ErrorCode.invalid_request, message)


def rewritten(state: ShareState, now_ms: int) -> Snapshot:
    """Return a snapshot of the state as it is: records before it are no longer needed."""
    snapshot = state.snapshot
    return replace(snapshot, snapshot_epoch=snapshot.snapshot_epoch + 1, write_timestamp_ms=now_ms)


def check_leader(state: ShareState, leader_epoch: int) -> None:
    """Raise FENCED_LEADER_EPOCH for a leader that another one has followed."""
    if NOT_GIVEN != leader_epoch < state.snapshot.leader_epoch:
        raise _fenced(ErrorCode.fenced_leader_epoch, "leader epoch", leader_epoch, state.snapshot.leader_epoch)


def _fenced(code: ErrorCode, noun: str, given: int, known: int) -> KafkaError:
    return KafkaError(code, f"{noun} {given} is fenced: {known} is known")

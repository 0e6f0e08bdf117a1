"""EndTxn: what an end means to a transactional id in its present state.

A client of transaction version 0 or 1 must name the producer exactly:

| state | same end | the other end |
|---|---|---|
| Ongoing | Prepare | Prepare |
| Prepare | CONCURRENT_TRANSACTIONS | INVALID_TXN_STATE |
| Complete | a retry: NONE | INVALID_TXN_STATE |
| Empty | INVALID_TXN_STATE | INVALID_TXN_STATE |

Since version 2 each end bumps the epoch (KIP-890). So an end with the epoch before the present one is a retry of
the end that bumped it, and one with the present epoch is new:

| state | new commit | new abort | retry of the same end | retry of the other end |
|---|---|---|---|---|
| Ongoing | PrepareCommit | PrepareAbort | PRODUCER_FENCED | PRODUCER_FENCED |
| Prepare | CONCURRENT_TRANSACTIONS | CONCURRENT_TRANSACTIONS | CONCURRENT_TRANSACTIONS | INVALID_TXN_STATE |
| Complete | INVALID_TXN_STATE | PrepareAbort, of nothing | NONE, with the bumped epoch | INVALID_TXN_STATE |
| Empty | INVALID_TXN_STATE | PrepareAbort, of nothing | PRODUCER_FENCED | PRODUCER_FENCED |

A new end in Prepare is that of the transaction after: its client has the bumped epoch already, and has added nothing
yet. The last epoch of a producer id ends with the next id in epoch 0, which the client has then in Prepare too. A retry
then names the previous id.

An abort in the place of the producer, by a timeout or the next InitProducerId, is in version 2 as if the producer had
aborted: its own late abort is a retry, answered with the bumped epoch. So it takes the next producer id too when epochs
are used up. No producer acts in the epoch that fences the last one (`is_present`).
"""

from __future__ import annotations

from dataclasses import replace

from ....protocol import ErrorCode
from .events import End, Init, Producer, TimedOut
from .states import (
    COMPLETE,
    EPOCH_BUMP_SINCE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    PRODUCER_EPOCH_MAX,
    TransactionState,
    TransactionValue,
)

State = TransactionState


def judge_end(value: TransactionValue, event: End) -> ErrorCode | None:
    """Return what an end is answered at once, None if it changes the state."""
    if event.transaction_version >= EPOCH_BUMP_SINCE:
        return _judge_bumping(value, event)
    if value.producer_id != event.producer.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if value.producer_epoch != event.producer.epoch:
        return ErrorCode.producer_fenced
    return None if value.state is State.ONGOING else _repeated(value, event)


def _judge_bumping(value: TransactionValue, event: End) -> ErrorCode | None:
    if is_of_next(value, event.producer):
        return ErrorCode.concurrent_transactions
    is_retry = _is_retry(value, event.producer)
    if value.producer_id != event.producer.producer_id and not is_retry:
        return ErrorCode.invalid_producer_id_mapping
    is_new = is_present(value, event.producer) and not is_retry
    if value.state in PREPARED or value.state in COMPLETE:
        if is_retry:
            return _repeated(value, event)
        if not is_new:
            return ErrorCode.producer_fenced
        if value.state in PREPARED:
            # Of a version before 2 the epoch was not bumped: the same one may be a retry, as it may be new.
            return ErrorCode.concurrent_transactions if value.bumps_epochs else _repeated(value, event)
    elif not is_new:
        return ErrorCode.producer_fenced
    if value.state is State.ONGOING or not event.is_commit:
        return None
    return ErrorCode.invalid_txn_state


def is_present(value: TransactionValue, producer: Producer) -> bool:
    """Return whether this is the producer that may act now; in the epoch that fences the last one, none may."""
    is_known = producer == Producer(value.producer_id, value.producer_epoch)
    return is_known and value.producer_epoch < PRODUCER_EPOCH_MAX


def is_of_next(value: TransactionValue, producer: Producer) -> bool:
    """Return whether this is the producer of the transaction after one that used up its producer id, and is ending."""
    return value.state in PREPARED and value.next_producer_id != NO_PRODUCER_ID and producer == producer_after(value)


def _is_retry(value: TransactionValue, producer: Producer) -> bool:
    if not value.bumps_epochs or value.state is State.ONGOING or value.state is State.EMPTY:
        return False
    if value.producer_id == producer.producer_id:
        return value.producer_epoch == producer.epoch + 1
    is_previous = value.previous_producer_id == producer.producer_id and value.state in COMPLETE
    return is_previous and producer.epoch == PRODUCER_EPOCH_MAX - 1 and value.producer_epoch == 0


def _repeated(value: TransactionValue, event: End) -> ErrorCode:
    ends = (
        (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
        if event.is_commit
        else (State.PREPARE_ABORT, State.COMPLETE_ABORT)
    )
    if value.state not in ends:
        return ErrorCode.invalid_txn_state
    return ErrorCode.none if value.state in COMPLETE else ErrorCode.concurrent_transactions


def needs_new_id(value: TransactionValue, transaction_version: int) -> bool:
    """Return whether an end of this version uses up the last epoch of the producer id."""
    return transaction_version >= EPOCH_BUMP_SINCE and value.is_epoch_exhausted


def prepared(value: TransactionValue, event: End, now_ms: int) -> TransactionValue:
    """Return the value that records the end; `judge_end` has allowed it."""
    bumps = event.transaction_version >= EPOCH_BUMP_SINCE
    is_ongoing = value.state is State.ONGOING
    return replace(
        value,
        state=State.PREPARE_COMMIT if event.is_commit else State.PREPARE_ABORT,
        producer_epoch=value.next_epoch if bumps else value.producer_epoch,
        last_producer_epoch=value.producer_epoch if bumps else value.last_producer_epoch,
        next_producer_id=NO_PRODUCER_ID if event.new_producer_id is None else event.new_producer_id,
        start_ms=value.start_ms if is_ongoing else now_ms,
        last_update_ms=now_ms,
        transaction_version=event.transaction_version,
    )


def fenced(value: TransactionValue, event: Init | TimedOut, now_ms: int) -> TransactionValue:
    """Return the value that aborts an ongoing transaction in the place of its producer, whose epoch is over with it."""
    bumps = event.transaction_version >= EPOCH_BUMP_SINCE
    next_id = event.new_producer_id if needs_new_id(value, event.transaction_version) else None
    return replace(
        value,
        state=State.PREPARE_ABORT,
        producer_epoch=value.next_epoch,
        # As after its own abort, the client may continue with the bumped epoch (KIP-360).
        last_producer_epoch=value.producer_epoch if bumps else NO_PRODUCER_EPOCH,
        next_producer_id=NO_PRODUCER_ID if next_id is None else next_id,
        last_update_ms=now_ms,
        transaction_version=event.transaction_version,
    )


def completed(value: TransactionValue, now_ms: int) -> TransactionValue:
    """Return the value once all markers are written."""
    has_next = value.next_producer_id != NO_PRODUCER_ID
    return replace(
        value,
        state=State.COMPLETE_COMMIT if value.is_commit else State.COMPLETE_ABORT,
        producer_id=value.next_producer_id if has_next else value.producer_id,
        producer_epoch=0 if has_next else value.producer_epoch,
        previous_producer_id=value.producer_id if has_next else value.previous_producer_id,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )


def producer_after(value: TransactionValue) -> Producer:
    """Return the producer with which the client continues after an end that is durable."""
    if value.next_producer_id != NO_PRODUCER_ID:
        return Producer(value.next_producer_id, 0)
    return Producer(value.producer_id, value.producer_epoch)

"""The states of a transactional id (KIP-98, KIP-890), and the value that its log keeps of it.

    Empty --AddPartitions--> Ongoing --EndTxn--> PrepareCommit --all markers--> CompleteCommit
                                     --EndTxn--> PrepareAbort  --all markers--> CompleteAbort
                                     --InitProducerId, timeout--> PrepareAbort, with a bumped epoch
    Complete* --AddPartitions--> Ongoing
    Complete* --InitProducerId--> Empty
    Empty, Complete* --unused for transactional.id.expiration.ms--> a tombstone

A producer that ends a transaction to which nothing was added (transaction version 2) goes from Empty or Complete*
to PrepareAbort too: its epoch is bumped all the same.

Dead and PrepareEpochFence are Kafka's names for transitions under way. No record ever has them; a record that does is
corrupt.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from ....light_dataclass import dataclass
from ....protocol import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
PRODUCER_EPOCH_MAX: Final = 32_767
"""An epoch that no producer is given: the coordinator keeps it to fence the one before."""
EPOCH_BUMP_SINCE: Final = 2
"""The first transaction version that bumps the epoch at the end of each transaction (KIP-890 part 2)."""


class TransactionState(IntEnum):
    """Kafka's ids of the states."""

    label: str

    def __new__(cls, number: int, label: str) -> TransactionState:
        member = int.__new__(cls, number)
        member._value_ = number
        member.label = label
        return member

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"


_REST: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
COMPLETE: Final = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

PREVIOUS: Final = {
    TransactionState.EMPTY: _REST,
    TransactionState.ONGOING: _REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _REST | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}
"""The states from which a state may be entered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionValue:
    """What is durable of a transactional id. Times in ms since the epoch.

    `next_producer_id` is the id that takes over when the markers are written, because the epoch of this one is used up.
    `last_producer_epoch` is the epoch before the last bump; it is in no record, so a retry across a change of the
    coordinator is fenced (as in Kafka). `transaction_version` is that of the client at its last transition.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    partitions: frozenset[TopicPartition] = frozenset()
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    transaction_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether a producer must get a new id before its epoch can rise again."""
        return self.producer_epoch >= PRODUCER_EPOCH_MAX - 1

    @property
    def next_epoch(self) -> int:
        """The epoch that fences this one. It never exceeds the last one, which an open transaction has only if another
        coordinator let it.
        """
        return min(self.producer_epoch + 1, PRODUCER_EPOCH_MAX)

    @property
    def bumps_epochs(self) -> bool:
        """Whether the epoch was bumped at the end that this value records (KIP-890 part 2)."""
        return self.transaction_version >= EPOCH_BUMP_SINCE

    @property
    def is_at_rest(self) -> bool:
        """Whether no transaction is open, so that the transactional id may expire."""
        return self.state in _REST

    @property
    def is_commit(self) -> bool:
        """Whether the markers commit; meant for a value in PREPARED."""
        return self.state is TransactionState.PREPARE_COMMIT

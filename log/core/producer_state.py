"""The state of one producer in a log, and the rules that judge its next batch (KIP-98, KIP-890).

A producer is an id and an epoch. Each batch of an epoch carries the sequence number of its first record; sequences
count records, begin at 0 and wrap from 2^31 - 1 to 0. An entry is a value: `after_batch` and `after_marker`
give the next one.

A data batch, by where it comes from:

| rule, in this order                                                  | client | coordinator | replication |
|----------------------------------------------------------------------|--------|-------------|-------------|
| same epoch and sequences as one of the last 5 batches: a duplicate   | x      |             |             |
| epoch below the entry's: INVALID_PRODUCER_EPOCH                      | x      | x           |             |
| no sequence: INVALID_RECORD                                          | x      |             |             |
| producer unknown: any sequence (its state may have expired)          | x      |             |             |
| new epoch: sequence 0, else OUT_OF_ORDER_SEQUENCE_NUMBER             | x      |             |             |
| same epoch: sequence after the last one, else the same error         | x      |             |             |
| not transactional in an open transaction: INVALID_TXN_STATE          | x      | x           |             |

A marker (COMMIT or ABORT), unless it is replicated:

| rule                                                                               | else                            |
|------------------------------------------------------------------------------------|---------------------------------|
| transaction version 0, 1: its epoch is not below the entry's                       | INVALID_PRODUCER_EPOCH          |
| transaction version 2: its epoch is above the entry's (the coordinator bumped it), | INVALID_PRODUCER_EPOCH          |
| or equal while no transaction is open (the same marker sent again)                 |                                 |
| its coordinator epoch is not below the last marker's                               | TRANSACTION_COORDINATOR_FENCED  |

What is replicated is a fact: the leader judged it. The entry follows it, also back to a lower epoch.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from ...protocol import ErrorCode, KafkaError
from ...protocol.records import SEQUENCE_MAX, BatchHeader, EndTransactionMarker

BATCHES_MAX: Final = 5
"""The number of batches kept for each producer: as many as a client may have in flight."""

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1


def earlier_sequence(one: int, other: int) -> int:
    """Return which of two sequences is the earlier one: 0 is later than those just below 2^31. -1 is that of none, and
    earlier than all.
    """
    if NO_SEQUENCE in (one, other):
        return NO_SEQUENCE
    return one if (other - one) & SEQUENCE_MAX <= SEQUENCE_MAX // 2 else other


class AppendOrigin(Enum):
    """The origin of an append's batches; it decides which rules apply."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class BatchMetadata(NamedTuple):
    """A batch in the log. A named tuple, as is the entry: one of each is made for every idempotent batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX if self.last_sequence >= 0 else NO_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerStateEntry(NamedTuple):
    """The state of one producer; the defaults are those of one that was never seen.

    `batches` are data batches of `producer_epoch`, oldest first. `current_txn_first_offset` is None while no
    transaction is open. `last_timestamp_ms` is that of the last batch or marker, on whatever clock its maker had.
    """

    producer_id: int
    producer_epoch: int = NO_EPOCH
    coordinator_epoch: int = NO_EPOCH
    last_timestamp_ms: int = -1
    current_txn_first_offset: int | None = None
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def last_sequence(self) -> int:
        """-1 if this epoch has no batch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """The remembered batch with the epoch and the sequences of `header`."""
        if header.producer_epoch != self.producer_epoch:
            return None
        sequences = (header.base_sequence, header.last_sequence)
        return next((batch for batch in self.batches if (batch.first_sequence, batch.last_sequence) == sequences), None)

    def after_batch(self, header: BatchHeader) -> ProducerStateEntry:
        """The state with a data batch in the log at `header.base_offset`; the first of a transaction opens it."""
        batch = BatchMetadata(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
        is_same_epoch = header.producer_epoch == self.producer_epoch
        txn_first_offset = self.current_txn_first_offset
        if txn_first_offset is None and header.is_transactional:
            txn_first_offset = header.base_offset
        return ProducerStateEntry(
            self.producer_id,
            header.producer_epoch,
            self.coordinator_epoch,
            header.max_timestamp,
            txn_first_offset,
            (*self.batches[1 - BATCHES_MAX :], batch) if is_same_epoch else (batch,),
        )

    def after_marker(self, header: BatchHeader, marker: EndTransactionMarker) -> ProducerStateEntry:
        """The state with a marker in the log: no transaction is open."""
        return ProducerStateEntry(
            self.producer_id,
            header.producer_epoch,
            marker.coordinator_epoch,
            header.max_timestamp,
            None,
            self.batches if header.producer_epoch == self.producer_epoch else (),
        )


def check_batch(entry: ProducerStateEntry, header: BatchHeader, origin: AppendOrigin) -> None:
    """Raise KafkaError if the table's rules for data batches reject it; the caller handles duplicates."""
    # The leader has judged it; a follower that rejected it would diverge from the leader's log.
    if origin is AppendOrigin.REPLICATION:
        return
    if header.producer_epoch < entry.producer_epoch:
        raise _fenced(entry, header, "below")
    if origin is AppendOrigin.CLIENT:
        _check_sequence(entry, header)
    if entry.current_txn_first_offset is not None and not header.is_transactional:
        raise KafkaError(
            ErrorCode.invalid_txn_state,
            f"{_producer(header)}: a non-transactional batch while the transaction from offset "
            f"{entry.current_txn_first_offset} on is open; end it first",
        )


def check_marker(
    entry: ProducerStateEntry, header: BatchHeader, marker: EndTransactionMarker, transaction_version: int
) -> None:
    """Raise KafkaError if the table's rules for markers reject it."""
    epoch, known = header.producer_epoch, entry.producer_epoch
    if epoch < known:
        raise _fenced(entry, header, "below")
    if transaction_version >= 2 and epoch == known and entry.current_txn_first_offset is not None:
        raise _fenced(entry, header, "not above, as transaction version 2 requires,")
    if marker.coordinator_epoch < entry.coordinator_epoch:
        raise KafkaError(
            ErrorCode.transaction_coordinator_fenced,
            f"{_producer(header)}: coordinator epoch {marker.coordinator_epoch} is below the latest, "
            f"{entry.coordinator_epoch}: another coordinator has taken over",
        )


def _check_sequence(entry: ProducerStateEntry, header: BatchHeader) -> None:
    sequence = header.base_sequence
    if sequence < 0:
        raise KafkaError(ErrorCode.invalid_record, f"{_producer(header)}: sequence {sequence}, expected 0 or more")
    # The state of an idle producer expires, so an unknown one may continue at any sequence.
    if entry.producer_epoch == NO_EPOCH:
        return
    last_sequence = entry.last_sequence if header.producer_epoch == entry.producer_epoch else NO_SEQUENCE
    expected = (last_sequence + 1) & SEQUENCE_MAX
    if sequence != expected:
        raise KafkaError(
            ErrorCode.out_of_order_sequence_number,
            f"{_producer(header)}: expected sequence {expected}, found {sequence}",
        )


def _fenced(entry: ProducerStateEntry, header: BatchHeader, relation: str) -> KafkaError:
    return KafkaError(
        ErrorCode.invalid_producer_epoch,
        f"{_producer(header)}: the epoch is {relation} the latest epoch, {entry.producer_epoch}",
    )


def _producer(header: BatchHeader) -> str:
    return f"producer {header.producer_id} epoch {header.producer_epoch}"

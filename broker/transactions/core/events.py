"""What happens to one transactional id, and what its state machine has the shell do.

A `Token` is whatever the shell needs to find the waiting request again; the core only hands it back.
"""

from __future__ import annotations

from ....light_dataclass import dataclass
from ....protocol import ErrorCode, TopicPartition
from .states import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TransactionValue

Token = object


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer id in one of its epochs."""

    producer_id: int
    epoch: int


NO_PRODUCER = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


# Events.


@dataclass(frozen=True, slots=True, kw_only=True)
class Init:
    """InitProducerId. `expected` is the producer that the client was so far (KIP-360); `new_producer_id` an unused
    id, once the machine has asked for one.
    """

    token: Token
    timeout_ms: int
    expected: Producer | None = None
    new_producer_id: int | None = None
    transaction_version: int = 0
    """That of the cluster: with it a transaction that is open is aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """AddPartitionsToTxn, AddOffsetsToTxn, and what a Produce of transaction version 2 adds."""

    token: Token
    producer: Producer
    partitions: frozenset[TopicPartition]
    transaction_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """EndTxn."""

    token: Token
    producer: Producer
    is_commit: bool
    transaction_version: int = 0
    new_producer_id: int | None = None


@dataclass(frozen=True, slots=True)
class TimedOut:
    """A transaction may be open for longer than its timeout: abort it, and fence its producer."""

    transaction_version: int = 0
    """That of the cluster."""
    new_producer_id: int | None = None


@dataclass(frozen=True, slots=True)
class Expire:
    """The transactional id may be unused for longer than `retention_ms`: forget it."""

    retention_ms: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A `Store` is committed, or (`error`) will never be."""

    store_id: int
    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """Every partition of the transaction has its marker, committed, or no longer exists."""

    producer: Producer


@dataclass(frozen=True, slots=True)
class Resume:
    """The log was read to its end: take up what another coordinator began."""


Event = Init | AddPartitions | End | TimedOut | Expire | Stored | MarkersWritten | Resume


# Effects.


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request; `producer` is NO_PRODUCER with an error."""

    token: Token
    error: ErrorCode = ErrorCode.none
    producer: Producer = NO_PRODUCER


@dataclass(frozen=True, slots=True)
class Store:
    """Append the value, or a tombstone for None, and report `Stored`."""

    store_id: int
    value: TransactionValue | None


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """Write markers to all partitions of the value, and report `MarkersWritten`."""

    value: TransactionValue


@dataclass(frozen=True, slots=True)
class NeedProducerId:
    """Step again with the event, which has then a `new_producer_id`."""

    event: Init | End | TimedOut


Effect = Reply | Store | SendMarkers | NeedProducerId

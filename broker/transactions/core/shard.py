"""The transactional ids of one partition of `__transaction_state`: what reading the partition gives.

record -> replay     while the partition is loaded; afterwards each machine is ahead of its records
sweep                the transactional ids whose transaction is open for too long, or that are unused for too long
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from ....light_dataclass import dataclass
from ....protocol import ErrorCode, TopicPartition
from .events import Producer
from .records import TransactionRecord
from .states import TransactionState
from .transaction import Transaction


@dataclass(slots=True)
class Shard:
    """See the module's docstring."""

    transactions: dict[str, Transaction] = field(default_factory=dict)

    def clear(self) -> None:
        """Begin again, empty."""
        self.transactions.clear()

    def replay(self, record: TransactionRecord) -> None:
        """Take in a record of the log, in the order of the log."""
        if record.value is None:
            self.transactions.pop(record.transactional_id, None)
        else:
            self.transactions[record.transactional_id] = Transaction(record.transactional_id, record.value)

    def verify(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> ErrorCode | frozenset[TopicPartition]:
        """Return those of the partitions that are in the producer's ongoing transaction, or why it has none."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return ErrorCode.invalid_producer_id_mapping
        return transaction.verify(producer, partitions)

    def timed_out(self, now_ms: int) -> list[str]:
        """Return the transactional ids whose transaction must be aborted."""
        return [name for name, each in self.transactions.items() if each.is_timed_out(now_ms)]

    def unused(self, now_ms: int, retention_ms: int) -> list[str]:
        """Return the transactional ids that may be forgotten."""
        return [
            name
            for name, each in self.transactions.items()
            if each.value is not None and each.value.is_at_rest and now_ms >= each.value.last_update_ms + retention_ms
        ]

    def in_states(self, states: frozenset[TransactionState]) -> Iterator[Transaction]:
        """Yield the transactional ids that are in one of the states."""
        return (each for each in self.transactions.values() if each.value is not None and each.value.state in states)

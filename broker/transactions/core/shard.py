"""The transactional ids of one partition of `__transaction_state`: what reading the partition gives.

record -> replay     while the partition is loaded; afterwards each machine is ahead of its records
"""

from __future__ import annotations

from dataclasses import field

from ....light_dataclass import dataclass
from ....protocol import ErrorCode, TopicPartition
from .events import Producer
from .records import TransactionRecord
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

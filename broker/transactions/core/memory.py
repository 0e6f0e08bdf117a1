"""What transactional ids take of a broker's memory: an id that is new gets in only while there is room.

A client may choose any number of ids of up to 32 KiB each, and they are kept for `transactional.id.expiration.ms`, a
week. Beyond `TRANSACTIONS_BYTES_MAX` InitProducerId with a new one is answered COORDINATOR_NOT_AVAILABLE, as JoinGroup
is where groups have no room (`groups.core.memory`); ids that are known keep working.
"""

from __future__ import annotations

from typing import Final

from ...coordinator.core.texts import text_bytes
from .transaction import Transaction

TRANSACTIONS_BYTES_MAX: Final = 64 * 1024 * 1024
ID_BYTES: Final = 1024
"""An id itself, with its state."""
PARTITION_BYTES: Final = 64
"""A partition of its transaction."""


class IdMemory:
    """The bytes that the transactional ids of a broker hold."""

    def __init__(self, bytes_max: int = TRANSACTIONS_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.used = 0

    def changed(self, before: int, after: int) -> None:
        """Account for an id that took `before` and takes `after`."""
        self.used += after - before

    def has_room(self, transactional_id: str) -> bool:
        """Return whether one more id gets in."""
        return self.used + _id_bytes(transactional_id) <= self.bytes_max


def bytes_of(transaction: Transaction | None) -> int:
    """Return what an id takes; 0 of one that is not known."""
    if transaction is None:
        return 0
    partitions = 0 if transaction.value is None else len(transaction.value.partitions)
    return _id_bytes(transaction.transactional_id) + PARTITION_BYTES * partitions


def _id_bytes(transactional_id: str) -> int:
    return ID_BYTES + text_bytes(transactional_id)

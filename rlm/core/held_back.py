"""When an open transaction has held back the copies of a partition for too long (KIP-664, KIP-890). Pure.

Only what is below the last stable offset is copied to the tier. A coordinator ends each transaction within
`transaction.max.timeout.ms`; one that no coordinator knows stays open, the tier stands still, and local disks fill.

| state | when | what is reported |
|---|---|---|
| free | no closed segment ends above the first open transaction | - |
| held back | one does; the time counts from when this leader saw it first | - |
| hanging | the same transaction for `hanging_after_ms` | a warning, and again each `REPEAT_MS` |
| free again | it has ended, or the leader no longer copies | that, once, if it was hanging |

The time is the leader's own: batches carry their clients' clocks. So another leader begins to count again.
"""

from __future__ import annotations

from typing import Final

from ...light_dataclass import dataclass
from ...log.core import OpenTransaction

BUFFER_MS: Final = 5 * 60_000
"""What a transaction may take longer than `transaction.max.timeout.ms` before it is reported, as in Kafka."""
REPEAT_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Notice:
    """What an operator must know: a warning of a transaction that hangs, or that the last one of these has ended."""

    transaction: OpenTransaction
    held_ms: int
    is_over: bool = False


class HeldBack:
    """The transaction that holds back the copies of one led partition; see the module's docstring."""

    def __init__(self, hanging_after_ms: int) -> None:
        self._hanging_after_ms = hanging_after_ms
        self._transaction: OpenTransaction | None = None
        self._since_ms = 0
        self._warned_ms: int | None = None
        self.held_ms = 0
        """How long the transaction has held back the copies, as of the last step."""

    @property
    def is_hanging(self) -> bool:
        """Whether the transaction is open for longer than a coordinator lets it be."""
        return self._warned_ms is not None

    def step(self, transaction: OpenTransaction | None, now_ms: int) -> Notice | None:
        """Take in which transaction holds back the copies at `now_ms` (monotonic), None if none does."""
        if transaction is None or transaction != self._transaction:
            ended, held_ms, was_hanging = self._transaction, now_ms - self._since_ms, self.is_hanging
            self._transaction, self._since_ms, self._warned_ms, self.held_ms = transaction, now_ms, None, 0
            return Notice(ended, held_ms, is_over=True) if ended is not None and was_hanging else None
        self.held_ms = now_ms - self._since_ms
        is_due = self._warned_ms is None or now_ms - self._warned_ms >= REPEAT_MS
        if self.held_ms < self._hanging_after_ms or not is_due:
            return None
        self._warned_ms = now_ms
        return Notice(transaction, self.held_ms)

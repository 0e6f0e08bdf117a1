"""What clients did and what they were answered: the history that checkers judge. Pure data, no clock of its own.

A client invokes an operation, and later it is completed in one of three ways (Jepsen's words):

| outcome | meaning                                                                                     |
|---------|---------------------------------------------------------------------------------------------|
| ok      | it happened, and the answer says how                                                        |
| fail    | it did not happen and never will                                                            |
| info    | nobody knows: it may have happened, may happen later, or never (also: never completed)      |

Every record that is sent carries a value that no other record of the run has, so that a value names a send. Times are
virtual milliseconds since the start of the run.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from ....light_dataclass import dataclass

ACKS_ALL = -1


class Outcome(StrEnum):
    """How an operation ended; INFO until it has."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(slots=True, eq=False)
class Send:
    """One batch that a producer sent, retries included. `base_offset` is -1 unless the outcome is ok; the attempt that
    was answered began at `asked_ms`.

    `transaction` numbers the transaction that the batch is part of; `sequence` is the batch's, of that producer id.
    """

    process: str
    partition: str
    values: tuple[int, ...]
    acks: int
    invoked_ms: int
    transaction: int | None = None
    outcome: Outcome = Outcome.INFO
    asked_ms: int = -1
    completed_ms: int = -1
    base_offset: int = -1
    reason: str = ""
    producer_id: int = -1
    sequence: int = -1
    producer_epoch: int = -1
    """Where it rises while the producer id stays; -1 where it never does."""

    def ok(self, base_offset: int, asked_ms: int, now_ms: int) -> None:
        self.outcome, self.base_offset = Outcome.OK, base_offset
        self.asked_ms, self.completed_ms = asked_ms, now_ms

    def fail(self, reason: str, now_ms: int) -> None:
        self.outcome, self.reason, self.completed_ms = Outcome.FAIL, reason, now_ms

    @property
    def wants_all(self) -> bool:
        """To acknowledge it."""
        return self.acks == ACKS_ALL

    @property
    def is_acknowledged_by_all(self) -> bool:
        return self.outcome is Outcome.OK and self.wants_all

    def offsets(self) -> dict[int, int]:
        """Value by offset, of a send that is ok."""
        return dict(enumerate(self.values, self.base_offset)) if self.outcome is Outcome.OK else {}


@dataclass(frozen=True, slots=True)
class Poll:
    """Records that one reader was given, in this order, when it asked from `from_offset` on.

    `records` are (offset, value); control records and aborted ones are not among them. `end_offset` is where the reader
    goes on; `asked_ms` when it began to ask.
    """

    process: str
    partition: str
    from_offset: int
    end_offset: int
    records: tuple[tuple[int, int], ...]
    asked_ms: int
    completed_ms: int
    is_read_committed: bool = False


@dataclass(slots=True, eq=False)
class TransactionEnd:
    """What ended (or was to end) a transaction, sent for the first time at `invoked_ms`: a marker in one partition, or
    a request to its coordinator, of which `is_certain` says whether it is known to have had its effect.
    """

    transaction: int
    is_commit: bool
    partition: str
    invoked_ms: int = 0
    is_certain: bool = True


@dataclass(slots=True)
class History:
    """All operations of a run in the order of their invocation (polls: of their completion)."""

    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    ends: list[TransactionEnd] = field(default_factory=list)

    @property
    def partitions(self) -> list[str]:
        return sorted({each.partition for each in self.sends} | {each.partition for each in self.polls})

    @property
    def acknowledged(self) -> int:
        """Records acknowledged by all in-sync replicas."""
        return sum(len(send.values) for send in self.sends if send.is_acknowledged_by_all)

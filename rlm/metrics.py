"""What the remote log manager counts, as plain numbers; `broker.metrics` reads them."""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from ..light_dataclass import dataclass


@dataclass(slots=True)
class RemoteLogCounters:
    """Totals of one broker since it started. The comment names Kafka's metric of the same meaning."""

    copied_bytes: int = 0  # RemoteCopyBytesPerSec
    copied_segments: int = 0  # RemoteCopyRequestsPerSec
    errors: Counter[str] = field(default_factory=Counter)
    """Errors by task: copy (RemoteCopyErrorsPerSec), upkeep (RemoteDeleteErrorsPerSec), ledger, partition deletion."""
    disproven_segments: int = 0
    """Segments whose object was absent or of another size when it was looked at."""
    rebuilt_indexes: int = 0
    """Indexes that were lost, damaged or wrong in the tier, and were built from their log."""
    fetched_bytes: int = 0  # RemoteFetchBytesPerSec
    fetch_requests: int = 0  # RemoteFetchRequestsPerSec
    fetch_errors: int = 0  # RemoteFetchErrorsPerSec
    damaged_reads: int = 0
    """Reads for consumers that found something wrong in the bytes of the tier: these are dropped, and fetched again."""
    fetched_ahead_bytes: int = 0
    """The part of `fetched_bytes` that nobody had asked for yet."""
    guessed_bytes: int = 0
    """Bytes that were asked for beside an index, because they probably hold what it leads to."""
    wrongly_guessed_bytes: int = 0
    """The part of `guessed_bytes` that the index did not lead to."""

    def note_rebuilt_index(self) -> None:
        self.rebuilt_indexes += 1


@dataclass(frozen=True, slots=True)
class CopyLag:
    """Closed segments that are not in the tier yet (RemoteCopyLagSegments, RemoteCopyLagBytes)."""

    segments: int = 0
    bytes: int = 0
    is_held_up: bool = False
    """The first of them is damaged: it is not copied, nor what comes behind it, for the tier must have no gap."""
    transaction_ms: int = 0
    """How long an open transaction has held back segments that are closed; they are not among those above."""
    is_transaction_hanging: bool = False
    """It is open for longer than a coordinator lets it be (PartitionsWithLateTransactionsCount)."""

"""Limits of the remote log manager: Kafka's broker keys with Kafka's defaults, and a few of our own.

A field is the key behind `remote.log.manager.` with dots as underscores, or the key that its docstring names.
Whoever reads the broker's configuration checks the values; here they are taken as they are.
"""

from __future__ import annotations

from random import Random
from typing import Final

from ..light_dataclass import dataclass
from ..remote import Backoff
from .core.view import CopyDeadline
from .rate_limit import Rate

_MIB: Final = 1 << 20
INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogManagerConfig:
    """The limits of one broker's remote log manager. Without arguments: the defaults."""

    task_interval_ms: int = 30_000
    """How often each partition is looked at without any other reason; retention by time needs it."""
    task_retry_backoff_ms: int = 500
    task_retry_backoff_max_ms: int = 30_000
    task_retry_jitter: float = 0.2
    copier_thread_pool_size: int = 10
    """Uploads at the same time, over all partitions."""
    expiration_thread_pool_size: int = 10
    """Deletions and proofs at the same time, over all partitions."""
    copy_max_bytes_per_second: Rate = INT64_MAX
    fetch_max_bytes_per_second: Rate = INT64_MAX
    """What is read of segments for consumers, over all partitions; indexes and what a follower needs are free."""

    copy_timeout_ms: int = 300_000
    """Ours: an upload may take this long, plus the time of its size at `copy_min_bytes_per_second`."""
    copy_min_bytes_per_second: int = _MIB
    request_timeout_ms: int = 30_000
    """`request.timeout.ms`: every other call of the store, and every write of remote log metadata."""
    custom_metadata_max_bytes: int = 128
    """`remote.log.metadata.custom.metadata.max.bytes`."""
    transaction_max_timeout_ms: int = 15 * 60_000
    """`transaction.max.timeout.ms`: a transaction that holds back copies for longer, and five minutes, is reported."""

    orphaned_deletion_delay_ms: int = 30_000
    """Ours: after a topic was deleted, a broker that did not lead a partition waits so long before it checks whether
    the leader has emptied its tier. It waits up to twice as long by its id, so that not all brokers check at once.
    """

    reader_threads: int = 10
    """`remote.log.reader.threads`: fetches from the tier for consumers at the same time."""
    fetch_max_wait_ms: int = 500
    """`remote.fetch.max.wait.ms`: a fetch is answered without records of the tier after this long."""
    list_offsets_timeout_ms: int = 30_000
    """`remote.list.offsets.request.timeout.ms`."""
    reader_chunk_bytes: int = 4 * _MIB
    """`remote.log.reader.chunk.bytes`, ours: the size of what is fetched from the tier, and kept, at once."""
    reader_cache_bytes: int = 64 * _MIB
    """`remote.log.reader.cache.bytes`, ours: the size of the chunks kept and under way, over all partitions."""
    reader_ahead_chunks: int = 2
    """Ours: the chunks fetched ahead of a consumer that reads sequentially."""

    @property
    def copy_deadline(self) -> CopyDeadline:
        return CopyDeadline(self.copy_timeout_ms, self.copy_min_bytes_per_second)

    def backoff(self, random: Random) -> Backoff:
        return Backoff(self.task_retry_backoff_ms, self.task_retry_backoff_max_ms, self.task_retry_jitter, random)

"""The answer of one partition in a Fetch, made from what was decided and read. No decision is taken here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ...fetcher.core import DivergingEpoch, LeaderView, Refuse
from ...log.core import AbortedTransaction as LoggedTransaction
from ...protocol import ErrorCode
from ...protocol.fetch import (
    NO_READ_REPLICA,
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResponse,
)
from ...protocol.wire import Part

_WITH_OFFSETS: Final = frozenset({ErrorCode.offset_out_of_range, ErrorCode.offset_moved_to_tiered_storage})


def served(
    wanted: FetchPartition,
    view: LeaderView,
    records: Part | None = b"",
    aborted: Iterable[LoggedTransaction] | None = None,
) -> FetchPartitionResponse:
    """Return the answer with these records; `aborted` are the aborted transactions among them for `read_committed`."""
    transactions = None
    if aborted is not None:
        transactions = tuple(AbortedTransaction(each.producer_id, each.first_offset) for each in aborted)
    return FetchPartitionResponse(
        wanted.partition,
        ErrorCode.none,
        view.high_watermark,
        view.last_stable_offset,
        view.log_start_offset,
        transactions,
        NO_READ_REPLICA,
        records,
    )


def refused(
    wanted: FetchPartition, view: LeaderView, decision: DivergingEpoch | Refuse
) -> FetchPartitionResponse | ErrorCode:
    """Return the answer of a refusal, or its error code if the answer has nothing else to say."""
    if isinstance(decision, DivergingEpoch):
        return replace(served(wanted, view), diverging_epoch=EpochEndOffset(decision.epoch, decision.end_offset))
    # With the offsets: an empty follower chooses its start from them (KIP-405).
    if decision.error in _WITH_OFFSETS:
        return FetchPartitionResponse(
            wanted.partition,
            error_code=decision.error,
            high_watermark=view.high_watermark,
            log_start_offset=view.log_start_offset,
        )
    return decision.error

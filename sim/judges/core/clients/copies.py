"""A partition as a program has it that is no replica: read from the tier, or followed into a directory. Pure.

| what                | wrong if                                                                                    |
|---------------------|---------------------------------------------------------------------------------------------|
| batches             | one is lacking between the two ends, or is there beside, or has other bytes                 |
| committed records   | one of an aborted transaction is shown, or another one is not: by the markers of the log,   |
|                     | not by a transaction index                                                                  |
| described segments  | what the objects say of one is not what the remote log metadata say                         |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from .....light_dataclass import dataclass
from .....log.core import EpochEntry
from .....protocol.records import ControlType, control_type, iter_records
from .....remote.core import RemoteLogSegmentMetadata
from ..replicas import StoredBatch

SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Described:
    """A remote segment without what objects cannot say: who copied it, and when."""

    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    size_bytes: int
    epochs: tuple[EpochEntry, ...]
    has_aborted: bool

    @classmethod
    def of(cls, segment: RemoteLogSegmentMetadata) -> Described:
        return cls(
            segment.start_offset,
            segment.end_offset,
            segment.max_timestamp_ms,
            segment.segment_size_in_bytes,
            tuple(segment.segment_leader_epochs),
            not segment.txn_index_empty,
        )


def within(batches: Iterable[StoredBatch], start_offset: int, end_offset: int) -> dict[int, StoredBatch]:
    """Return the batches that have records between these offsets, by base offset; of two the one that comes later."""
    inside = (each for each in batches if each.next_offset > start_offset and each.base_offset < end_offset)
    found = {each.base_offset: each for each in inside}
    return dict(sorted(found.items(), key=lambda pair: pair[0]))


def wrong_batches(found: Mapping[int, StoredBatch], right: Mapping[int, StoredBatch]) -> Iterator[str]:
    """Compare batches by their base offsets."""
    for offset in sorted(found.keys() | right.keys()):
        one, other = found.get(offset), right.get(offset)
        if one is None:
            yield f"no batch at offset {offset}"
        elif other is None:
            yield f"a batch at offset {offset} that the cluster has not"
        elif one.data != other.data:
            yield f"another batch at offset {offset} than the cluster has"


def committed_offsets(batches: Iterable[StoredBatch]) -> list[int]:
    """Return the offsets that a read-committed reader is shown of these batches, in their order: up to where the first
    transaction begins that is still open.
    """
    offsets: list[int] = []
    opened: dict[int, list[int]] = {}
    for batch in batches:
        header = batch.header
        records = list(iter_records(batch.data, 0, header))
        if header.is_control:
            kinds = {control_type(each) for each in records}
            ended = opened.pop(header.producer_id, [])
            offsets += ended if ControlType.COMMIT in kinds else []
        elif header.is_transactional:
            opened.setdefault(header.producer_id, []).extend(each.offset for each in records)
        else:
            offsets += (each.offset for each in records)
    first_open = min((each[0] for each in opened.values()), default=None)
    return sorted(each for each in offsets if first_open is None or each < first_open)


def wrong_offsets(found: Collection[int], right: Collection[int]) -> Iterator[str]:
    """Compare the offsets that a reader was shown, in that order."""
    if list(found) != list(right):
        lacking, beside = sorted({*right} - {*found}), sorted({*found} - {*right})
        yield f"{len(found)} of {len(right)} records; without {lacking[:SHOWN_MAX]}, with {beside[:SHOWN_MAX]} beside"


def wrong_segments(found: Mapping[str, Described], right: Mapping[str, Described]) -> Iterator[str]:
    """Compare what objects say with what the remote log metadata say, by segment."""
    for name in sorted(found.keys() | right.keys()):
        if found.get(name) != right.get(name):
            yield f"segment {name} is {found.get(name)} by its objects, {right.get(name)} by the metadata"

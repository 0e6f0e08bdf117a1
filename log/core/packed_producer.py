"""A producer's entry in memory: one bytes object of 38 bytes with one batch and of 78 with five, where tuples of
integers take 1,200. Its producer id is the key that it is kept under.

    row of a `.snapshot` file after the id (38 bytes), then, by the length of what follows:

| length         | what follows                                                                                     |
|----------------|--------------------------------------------------------------------------------------------------|
| 10 n           | n earlier batches in near form, newest first; the last batch is as old as the entry              |
| 8 + 10 n       | the timestamp of the last batch, for a marker came after it; n earlier ones in near form         |
| 8 + 24 n, n > 0 | the same timestamp, then n earlier batches as they are, newest first                            |

The near form of a batch is its distance from the next one in offsets (uint32), its offset delta (uint16), and the
distance in ms (int32). Its sequences end where the next one's begin, as a leader demands of every batch. Where a batch
does not fit, or a follower was sent one against that rule, all earlier ones are stored as they are.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Final, NamedTuple

from ...protocol.records import SEQUENCE_MAX
from .producer_state import BATCHES_MAX, NO_SEQUENCE, BatchMetadata, ProducerStateEntry

_ROW = struct.Struct(">hiqiqiq")
"""Epoch, last sequence, last offset, offset delta, last timestamp, coordinator epoch, first offset of the open
transaction.
"""
ROW_SIZE: Final = _ROW.size
_AGE = struct.Struct(">qiq")
"""The last timestamp, the coordinator epoch and the first offset of the open transaction, in a row."""
_AGE_AT: Final = struct.calcsize(">hiqi")
_TIMESTAMP = struct.Struct(">q")
_NO_OFFSET: Final = -1
_NO_BATCH: Final = BatchMetadata(NO_SEQUENCE, _NO_OFFSET, 0, -1)

PackedEntry = bytes
"""See the module's docstring. Immutable: a list of them is a copy of all producers."""


class _Tail(NamedTuple):
    layout: struct.Struct
    has_timestamp: bool
    is_near: bool


_NEAR = [struct.Struct(">" + "IHi" * count) for count in range(BATCHES_MAX)]
_WHOLE = [struct.Struct(">q" + "iqiq" * count) for count in range(BATCHES_MAX)]
_TAILS: Final = {
    **{near.size: _Tail(near, False, True) for near in _NEAR},
    **{
        timed.size: _Tail(timed, True, True)
        for timed in [struct.Struct(">q" + "IHi" * count) for count in range(BATCHES_MAX)]
    },
    **{whole.size: _Tail(whole, True, False) for whole in _WHOLE[1:]},
}
"""The layouts, by the length of what follows the row."""
assert len(_TAILS) == 3 * BATCHES_MAX - 1, "each length says one thing"


def pack_entry(entry: ProducerStateEntry) -> PackedEntry:
    batches = entry.batches
    batch = batches[-1] if batches else _NO_BATCH
    first_offset = entry.current_txn_first_offset
    row = _ROW.pack(
        entry.producer_epoch,
        batch.last_sequence,
        batch.last_offset,
        batch.offset_delta,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        _NO_OFFSET if first_offset is None else first_offset,
    )
    if not batches:
        return row
    near = _near(batches)
    if near is None:
        numbers = [number for earlier in batches[-2::-1] for number in earlier]
        return row + _WHOLE[len(batches) - 1].pack(batch.timestamp_ms, *numbers)
    if batch.timestamp_ms == entry.last_timestamp_ms:
        return row + near
    return row + _TIMESTAMP.pack(batch.timestamp_ms) + near


def unpack_entry(producer_id: int, packed: PackedEntry) -> ProducerStateEntry:
    epoch, sequence, last_offset, delta, timestamp, coordinator, txn_offset = _ROW.unpack_from(packed)
    return ProducerStateEntry(
        producer_id,
        epoch,
        coordinator,
        timestamp,
        txn_offset if txn_offset >= 0 else None,
        _batches(packed, sequence, last_offset, delta, timestamp) if last_offset >= 0 else (),
    )


def is_idle(packed: PackedEntry, until_ms: int) -> bool:
    """Whether a producer has no open transaction and wrote nothing after `until_ms`."""
    timestamp_ms: int
    txn_first_offset: int
    timestamp_ms, _, txn_first_offset = _AGE.unpack_from(packed, _AGE_AT)
    return txn_first_offset < 0 and timestamp_ms <= until_ms


def _near(batches: tuple[BatchMetadata, ...]) -> bytes | None:
    """The batches before the last one in near form; None if one of them does not fit."""
    numbers: list[int] = []
    for following, batch in pairwise(reversed(batches)):
        # -1, a batch without sequences, is none that a leader takes.
        if batch.last_sequence != (following.first_sequence - 1) & SEQUENCE_MAX or following.last_sequence < 0:
            return None
        numbers += (
            following.last_offset - batch.last_offset,
            batch.offset_delta,
            following.timestamp_ms - batch.timestamp_ms,
        )
    try:
        return _NEAR[len(batches) - 1].pack(*numbers)
    except struct.error:
        return None


def _batches(
    packed: PackedEntry, sequence: int, last_offset: int, delta: int, entry_timestamp: int
) -> tuple[BatchMetadata, ...]:
    """The batches, oldest first, of an entry whose last batch has these fields."""
    tail = _TAILS[len(packed) - ROW_SIZE]
    numbers = tail.layout.unpack_from(packed, ROW_SIZE)
    start = int(tail.has_timestamp)
    newest_first = [BatchMetadata(sequence, last_offset, delta, numbers[0] if start else entry_timestamp)]
    if not tail.is_near:
        newest_first += [BatchMetadata(*numbers[at : at + 4]) for at in range(start, len(numbers), 4)]
        return tuple(reversed(newest_first))
    for at in range(start, len(numbers), 3):
        following = newest_first[-1]
        newest_first.append(
            BatchMetadata(
                (following.last_sequence - following.offset_delta - 1) & SEQUENCE_MAX,
                following.last_offset - numbers[at],
                numbers[at + 1],
                following.timestamp_ms - numbers[at + 2],
            )
        )
    return tuple(reversed(newest_first))

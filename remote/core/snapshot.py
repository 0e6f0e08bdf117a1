"""The format of a ledger snapshot: the ledgers of one metadata partition as they are at one offset of the topic. Pure.

    header | section ... | end section

    header   = magic 8 bytes | version uint16 | topic id 16 bytes | metadata partition int32 | end offset int64
               | leader epoch int32 | CRC-32 of all before uint32
    section  = length uint32 | CRC-32 of the body uint32 | body; the body begins with its kind, uint8
    kind 0   = a partition: name length uint16, name, topic id 16 bytes, partition int32, ledger version int64,
               delete state int8 (-1 for none), count uint32 of segments that are not readable, count uint32 of deleted
               runs; each segment: state int8, length uint32, packed (`packed.py`); each run: epoch int32, start int64,
               end int64
    kind 1   = readable segments of the partition before it, each: length uint32, packed
    kind 2   = the end: the count uint32 of sections before it

`end offset` is the next offset to read, and `leader epoch` that of the record before it: a reader that continues there
gives both to the topic's leader, which knows whether its log still has that record. A section holds at most
`ROWS_PER_SECTION` readable segments, so that no step of writing or loading takes long.

What is read comes from a disk: whatever is torn, flipped, of another version or of another topic raises SnapshotError,
and the topic is read from its start instead.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from typing import Final
from uuid import UUID
from zlib import crc32

from ...light_dataclass import dataclass
from ...protocol import TopicIdPartition
from .ledger import LedgerState, RemoteLogLedger
from .packed import PACKED_SIZE_MIN, pack, unpack
from .segment import RemoteLogSegmentMetadata, RemoteLogSegmentState, RemotePartitionDeleteState

MAGIC: Final = b"TFLEDGER"
VERSION: Final = 1
ROWS_PER_SECTION: Final = 512
SECTION_SIZE_MAX: Final = 1 << 28

_HEADER: Final = struct.Struct(">8sH16siqi")
_CRC: Final = struct.Struct(">I")
_FRAME: Final = struct.Struct(">II")
_NAME: Final = struct.Struct(">BH")
_PARTITION: Final = struct.Struct(">16siqbII")
_SEGMENT: Final = struct.Struct(">bI")
_RUN: Final = struct.Struct(">iqq")
_ROW: Final = struct.Struct(">I")
_END: Final = struct.Struct(">BI")
_NO_DELETE_STATE: Final = -1

HEADER_SIZE: Final = _HEADER.size + _CRC.size
FRAME_SIZE: Final = _FRAME.size
_PARTITION_KIND: Final = 0
_ROWS_KIND: Final = 1
_END_KIND: Final = 2


class SnapshotError(ValueError):
    """A ledger snapshot that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """What a snapshot is of. `end_offset` is exclusive; `last_epoch` is the leader epoch of the record before it."""

    topic_id: UUID
    partition: int
    end_offset: int
    last_epoch: int

    def encode(self) -> bytes:
        """Return the header's bytes, `HEADER_SIZE` of them."""
        head = _HEADER.pack(MAGIC, VERSION, self.topic_id.bytes, self.partition, self.end_offset, self.last_epoch)
        return head + _CRC.pack(crc32(head))

    @classmethod
    def decode(cls, data: bytes) -> SnapshotHeader:
        """Return what `encode` was given. Raise SnapshotError if it was not `encode`'s."""
        if len(data) < HEADER_SIZE or crc32(data[: _HEADER.size]) != _CRC.unpack_from(data, _HEADER.size)[0]:
            raise SnapshotError("its header is torn or damaged")
        magic, version, topic_id, partition, end_offset, last_epoch = _HEADER.unpack_from(data)
        if magic != MAGIC or version != VERSION:
            raise SnapshotError(f"it begins with {magic!r} version {version}, expected {MAGIC!r} version {VERSION}")
        return cls(UUID(bytes=topic_id), partition, end_offset, last_epoch)


def encode_sections(ledgers: Iterable[RemoteLogLedger]) -> Iterator[bytes]:
    """The sections of a snapshot, the end section included. Each step looks at `ROWS_PER_SECTION` segments at most."""
    count = 0
    for ledger in ledgers:
        yield _framed(_encode_partition(ledger))
        count += 1
        rows = ledger.finished_rows(b"", ROWS_PER_SECTION)
        while rows:
            yield _framed(bytes((_ROWS_KIND,)) + b"".join(_ROW.pack(len(row)) + row for row in rows))
            count += 1
            rows = ledger.finished_rows(rows[-1], ROWS_PER_SECTION)
    yield _framed(_END.pack(_END_KIND, count))


def read_frame(data: bytes) -> tuple[int, int]:
    """Return the length of a section's body, and its checksum, from the section's first `FRAME_SIZE` bytes."""
    if len(data) < FRAME_SIZE:
        raise SnapshotError("it ends within a section, or without its end")
    length, checksum = _FRAME.unpack_from(data)
    if not 0 < length <= SECTION_SIZE_MAX:
        raise SnapshotError(f"it has a section of {length} bytes")
    return length, checksum


class SnapshotLoader:
    """Takes the bodies of the sections, in their order, and has the ledgers of the `wanted` partitions in the end; of
    all partitions where `wanted` is None.
    """

    def __init__(self, wanted: Collection[TopicIdPartition] | None) -> None:
        self._wanted = wanted
        self._current: RemoteLogLedger | None = None
        self._count = 0
        self.ledgers: dict[TopicIdPartition, RemoteLogLedger] = {}

    def take(self, body: bytes, checksum: int) -> bool:
        """Take one body. Return True for the end section. Raise SnapshotError for what is not whole."""
        if crc32(body) != checksum:
            raise SnapshotError(f"the checksum of section {self._count} is wrong")
        try:
            return self._take(body)
        except (struct.error, LookupError, ArithmeticError, ValueError, AssertionError) as error:
            # What no ledger can hold: an impossible state or offset is damage too, whatever notices it.
            raise SnapshotError(f"section {self._count}: {error!r}") from error

    def _take(self, body: bytes) -> bool:
        kind = body[0]
        if kind == _END_KIND:
            _, count = _END.unpack(body)
            if count != self._count:
                raise SnapshotError(f"it has {self._count} sections, and was written with {count}")
            return True
        self._count += 1
        if kind == _PARTITION_KIND:
            self._take_partition(body)
        elif kind == _ROWS_KIND:
            if self._current is not None:
                self._current.restore_finished(_decode_rows(body))
        else:
            raise SnapshotError(f"unknown kind {kind}")
        return False

    def _take_partition(self, body: bytes) -> None:
        _, name_size = _NAME.unpack_from(body)
        at = _NAME.size + name_size
        topic_id, number, version, delete_state, segments, runs = _PARTITION.unpack_from(body, at)
        partition = TopicIdPartition(UUID(bytes=topic_id), body[_NAME.size : at].decode("ascii"), number)
        self._current = None
        if self._wanted is not None and partition not in self._wanted:
            return
        at += _PARTITION.size
        unreadable: list[RemoteLogSegmentMetadata] = []
        for _ in range(segments):
            state, size = _SEGMENT.unpack_from(body, at)
            at += _SEGMENT.size
            unreadable.append(unpack(body[at : at + size], partition, RemoteLogSegmentState(state)))
            at += size
        deleted = tuple(_RUN.iter_unpack(body[at : at + runs * _RUN.size]))
        state_of_deletion = None if delete_state == _NO_DELETE_STATE else RemotePartitionDeleteState(delete_state)
        state_of_ledger = LedgerState(version, state_of_deletion, tuple(unreadable), deleted)
        self._current = self.ledgers[partition] = RemoteLogLedger.restore(partition, state_of_ledger)


def _framed(body: bytes) -> bytes:
    return _FRAME.pack(len(body), crc32(body)) + body


def _encode_partition(ledger: RemoteLogLedger) -> bytes:
    state, partition = ledger.state(), ledger.partition
    name = partition.topic.encode("ascii")
    delete_state = _NO_DELETE_STATE if state.delete_state is None else int(state.delete_state)
    parts = [
        _NAME.pack(_PARTITION_KIND, len(name)),
        name,
        _PARTITION.pack(
            partition.topic_id.bytes,
            partition.partition,
            state.version,
            delete_state,
            len(state.unreadable),
            len(state.deleted),
        ),
    ]
    for segment in state.unreadable:
        row = pack(segment)
        parts += [_SEGMENT.pack(segment.state, len(row)), row]
    parts += [_RUN.pack(*run) for run in state.deleted]
    return b"".join(parts)


def _decode_rows(body: bytes) -> Iterator[bytes]:
    at = 1
    while at < len(body):
        (size,) = _ROW.unpack_from(body, at)
        at += _ROW.size
        if size < PACKED_SIZE_MIN or at + size > len(body):
            raise SnapshotError(f"a segment of {size} bytes at {at} of {len(body)}")
        yield body[at : at + size]
        at += size

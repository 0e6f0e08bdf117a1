"""A snapshot's file: its name, how it is put together, and what makes one whole (KIP-630).

    <20-digit end offset>-<10-digit epoch>.checkpoint        holds the state up to that offset, exclusive
    the same with `.part`                                    is being fetched, and counts for nothing
    the same with `-<number>.checkpoint.part`                is being cut, and counts for nothing

    control batch   SnapshotHeader; with kraft.version 1 also KRaftVersion and Voters
    data batches    metadata records
    control batch   SnapshotFooter

All batches carry the snapshot's epoch as leader epoch and offsets that count from 0. A file is whole if every CRC is
right, the first record is the header, the last one the footer, and nothing follows it; `parse_snapshot` refuses any
other with CorruptFileError. The first snapshot of a formatted voter is `00000000000000000000-0000000000.checkpoint`.

Pure: files are moved by `snapshots`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ...light_dataclass import dataclass
from ...log.core import CorruptFileError
from ...protocol import CorruptRecordError
from ...protocol.fetch import SnapshotId
from ...protocol.records import (
    BatchHeader,
    KRaftVersion,
    QuorumRecord,
    Record,
    SnapshotFooter,
    SnapshotHeader,
    Voters,
    build_batch,
    build_quorum_batch,
    iter_batches,
    iter_records,
    parse_quorum_record,
    skim_records,
)

CHECKPOINT_SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".part"
BOOTSTRAP_SNAPSHOT: Final = SnapshotId(0, 0)
BATCH_BYTES_MAX: Final = 64 * 1024
"""The bytes of records in one data batch, for which the event loop waits. A larger record has a batch of its own."""
SLICE_BYTES: Final = 64 * 1024
"""The bytes of records that are read at a time. A batch of Kafka's holds up to 8 MiB."""
RECORD_BYTES: Final = 64
"""What a record counts for in that, besides its value: many empty ones take time too."""
CONTROL_BYTES_MAX: Final = 1024 * 1024
"""The bytes of control records in one batch: those of some thousand voters."""
ONE_BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""A batch has at most so many bytes, encoded and decompressed: twice what Kafka's have."""

_NAME = re.compile(r"(\d{20})-(\d{10})(?:\.checkpoint|(?:-\d+)?\.checkpoint(\.part))")


class FileChunk(NamedTuple):
    """Some bytes of a snapshot that is `size` bytes long."""

    size: int
    position: int
    data: bytes


def snapshot_name(snapshot_id: SnapshotId) -> str:
    return _stem(snapshot_id) + CHECKPOINT_SUFFIX


def part_name(snapshot_id: SnapshotId) -> str:
    return snapshot_name(snapshot_id) + PART_SUFFIX


def cut_name(snapshot_id: SnapshotId, number: int) -> str:
    return f"{_stem(snapshot_id)}-{number}{CHECKPOINT_SUFFIX}{PART_SUFFIX}"


def _stem(snapshot_id: SnapshotId) -> str:
    return f"{snapshot_id.end_offset:020d}-{snapshot_id.epoch:010d}"


def parse_snapshot_name(name: str) -> tuple[SnapshotId, bool] | None:
    """`(id, whether it is a part)` of a snapshot's file; None for any other name."""
    match = _NAME.fullmatch(name)
    return (SnapshotId(int(match[1]), int(match[2])), match[3] is not None) if match else None


@dataclass(frozen=True, slots=True)
class QuorumSetup:
    """What the log's control records say of the quorum: the level of `kraft.version`, and the voters if it is 1."""

    kraft_version: int
    voters: Voters | None

    @property
    def records(self) -> tuple[QuorumRecord, ...]:
        """As a snapshot carries it: nothing at level 0, where the voters come from the configuration."""
        if self.kraft_version == 0 or self.voters is None:
            return ()
        return (KRaftVersion(self.kraft_version), self.voters)


STATIC_SETUP: Final = QuorumSetup(0, None)


def snapshot_batches(
    snapshot_id: SnapshotId,
    records: Iterable[bytes],
    *,
    setup: QuorumSetup,
    last_append_time_ms: int,
    now_ms: int,
) -> Iterator[bytes]:
    """The batches of a snapshot in order: together they are the file."""
    epoch = snapshot_id.epoch
    first: list[QuorumRecord] = [SnapshotHeader(last_append_time_ms), *setup.records]
    yield build_quorum_batch(first, base_offset=0, timestamp_ms=now_ms, partition_leader_epoch=epoch)
    offset = len(first)
    for group in _groups(records):
        batch = [Record(offset + number, now_ms, None, value) for number, value in enumerate(group)]
        yield build_batch(batch, base_offset=offset, partition_leader_epoch=epoch)
        offset += len(group)
    yield build_quorum_batch([SnapshotFooter()], base_offset=offset, timestamp_ms=now_ms, partition_leader_epoch=epoch)


def _groups(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for record in records:
        if group and size + len(record) > BATCH_BYTES_MAX:
            yield group
            group, size = [], 0
        group.append(record)
        size += len(record)
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class ParsedSnapshot:
    """A whole snapshot. `batches` are the data records, batch by batch."""

    last_append_time_ms: int
    setup: QuorumSetup
    batches: tuple[tuple[bytes, ...], ...]

    @property
    def record_count(self) -> int:
        return sum(len(batch) for batch in self.batches)


def parse_snapshot(data: bytes, *, name: str) -> ParsedSnapshot:
    """CorruptFileError, naming the file and the place, unless the snapshot is whole."""
    return next(parsed for parsed in parse_in_slices(data, name=name) if parsed is not None)


def parse_in_slices(data: bytes, *, name: str) -> Iterator[ParsedSnapshot | None]:
    """As `parse_snapshot`, for an event loop: None after every `SLICE_BYTES` of records, the snapshot at last."""
    parser = SnapshotParser(name)
    yield from parser.feed(data)
    yield parser.finish()


class SnapshotParser:
    """Reads a snapshot from the pieces of its file, in order. It holds one batch, and what it was asked to keep.

    `name` is the file's, for errors. Without `keeps_records` the records are checked, and dropped.
    """

    def __init__(self, name: str, *, keeps_records: bool = True) -> None:
        self._name = name
        self._keeps_records = keeps_records
        self._controls: list[QuorumRecord] = []
        self._batches: list[tuple[bytes, ...]] = []
        self._rest = b""
        """What follows the last whole batch."""
        self._position = 0
        """Where that is in the file."""
        self._slice_bytes = 0

    def feed(self, piece: bytes) -> Iterator[None]:
        """Take the next piece; None after every `SLICE_BYTES` of records. Raise CorruptFileError."""
        data, end = self._rest + piece if self._rest else piece, 0
        try:
            for position, header in iter_batches(data):
                yield from self._take(data, position, header)
                end = position + header.size_bytes
        except CorruptRecordError as error:
            raise CorruptFileError(
                f"{self._name}: {error.reason} (batch at byte {self._position + error.position})"
            ) from error
        self._rest = data[end:]
        self._position += end
        if len(self._rest) > ONE_BATCH_BYTES_MAX:
            raise CorruptFileError(
                f"{self._name}: a batch at byte {self._position} of more than {ONE_BATCH_BYTES_MAX} bytes; expected "
                "was a smaller one, as controllers write them"
            )

    def finish(self) -> ParsedSnapshot:
        """Return the snapshot. Raise CorruptFileError unless it is whole."""
        controls = self._controls
        if not controls or not isinstance(controls[0], SnapshotHeader):
            raise CorruptFileError(f"{self._name}: the first batch must begin with a snapshot header")
        if self._rest or not isinstance(controls[-1], SnapshotFooter):
            raise CorruptFileError(
                f"{self._name}: it has no footer: {len(self._rest)} bytes follow the last whole batch"
            )
        return ParsedSnapshot(controls[0].last_contained_log_timestamp_ms, setup_of(controls), tuple(self._batches))

    def _take(self, data: bytes, position: int, header: BatchHeader) -> Iterator[None]:
        controls = self._controls
        if controls and isinstance(controls[-1], SnapshotFooter):
            at = self._position + position
            raise CorruptFileError(f"{self._name}: a batch at byte {at} follows the snapshot's footer")
        if header.is_control:
            controls += _controls(data, position, header)
            return
        if not controls:
            raise CorruptFileError(f"{self._name}: the first batch must begin with a snapshot header")
        values: list[bytes] = []
        for record in skim_records(data, position, header, decompressed_bytes_max=ONE_BATCH_BYTES_MAX):
            value = record.value or b""
            if self._keeps_records:
                values.append(value)
            self._slice_bytes += len(value) + RECORD_BYTES
            if self._slice_bytes >= SLICE_BYTES:
                self._slice_bytes = 0
                yield None
        if self._keeps_records:
            self._batches.append(tuple(values))


def setup_of(controls: Sequence[QuorumRecord]) -> QuorumSetup:
    """What the newest of these records say."""
    versions = [record.level for record in controls if isinstance(record, KRaftVersion)]
    voters = [record for record in controls if isinstance(record, Voters)]
    return QuorumSetup(versions[-1] if versions else 0, voters[-1] if voters else None)


def _controls(data: bytes, position: int, header: BatchHeader) -> list[QuorumRecord]:
    records = iter_records(data, position, header, decompressed_bytes_max=CONTROL_BYTES_MAX)
    parsed = (parse_quorum_record(record) for record in records)
    return [record for record in parsed if record is not None]

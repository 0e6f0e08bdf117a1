"""The `.rsm-manifest` of Aiven's tiered storage plugin, version 1: what a segment is, and where its bytes are. Pure.

The log is cut into chunks of one size; each is transformed (compressed with zstd, then encrypted, either or none) on
its own, and all are put into one object, one after the other. The manifest says how long each came out:

| chunk index | because                            | sizes of the transformed chunks                                   |
|-------------|------------------------------------|-------------------------------------------------------------------|
| `fixed`     | not compressed                     | one size for all, and that of the last                            |
| `variable`  | compressed                         | a list: binary, compressed with zstd, in base64                   |

The binary list, big-endian: count int32; if there are two or more, base int32, width int8, and each but the last as
its distance from the base in `width` bytes; the last as int32.

The indexes are in one object, each at its position, encrypted if the log is, never compressed. Source: the README and
the documentation in the sources of Aiven-Open/tiered-storage-for-apache-kafka.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from itertools import accumulate
from typing import Annotated, Final, Literal, Self

import zstandard
from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from ...light_dataclass import dataclass
from ...log.core import CorruptFileError, EpochEntry, LeaderEpochCache
from ...remote import IndexType
from ...remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata

SEGMENT_BYTES_MAX: Final = 2**31 - 1
"""Kafka's."""
CHUNKS_MAX: Final = 2**24
"""The most chunks of a segment: the largest one, in chunks of 128 bytes."""
SIZES_BYTES_MAX: Final = 4 * CHUNKS_MAX
"""The largest decompressed list of their sizes."""
GROWTH: Final = 128
GROWTH_BYTES: Final = 1024
"""What cannot be compressed becomes larger by one part in 256 (zstd) and a frame, encrypted by 28 bytes: more than
double that is no chunk, and is not read into memory.
"""
MANIFEST_BYTES_MAX: Final = 4 << 20
"""The largest segment has 512 chunks of the default size; a manifest with a million chunks is as large as this."""
_COUNT = struct.Struct(">i")
_BASE_AND_WIDTH = struct.Struct(">iB")
_WIDTH_MAX: Final = 4

Size = Annotated[int, Field(ge=0)]


class _Model(BaseModel):
    """Written by another system: what it adds later is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel)


class IndexRange(_Model):
    """Bytes of the `.indexes` object."""

    position: Size
    size: Size


class SegmentIndexes(_Model):
    """`transaction` is None where no transaction was aborted."""

    offset: IndexRange
    timestamp: IndexRange
    producer_snapshot: IndexRange
    leader_epoch: IndexRange
    transaction: IndexRange | None = None

    def range_of(self, kind: IndexType) -> IndexRange | None:
        match kind:
            case IndexType.OFFSET:
                return self.offset
            case IndexType.TIMESTAMP:
                return self.timestamp
            case IndexType.PRODUCER_SNAPSHOT:
                return self.producer_snapshot
            case IndexType.LEADER_EPOCH:
                return self.leader_epoch
            case IndexType.TRANSACTION:
                return self.transaction


class _Chunks(_Model):
    """How the log was cut, before any of it was transformed."""

    original_chunk_size: int = Field(gt=0)
    original_file_size: int = Field(ge=0, le=SEGMENT_BYTES_MAX)

    @model_validator(mode="after")
    def _not_too_many(self) -> Self:
        """Before a list is made of them."""
        if self.count > CHUNKS_MAX:
            raise ValueError(f"{self.count} chunks, at most {CHUNKS_MAX} are expected")
        return self

    @property
    def count(self) -> int:
        return -(-self.original_file_size // self.original_chunk_size)


class FixedChunks(_Chunks):
    """All transformed chunks are of one size, but for the last."""

    type: Literal["fixed"]
    transformed_chunk_size: Size
    final_transformed_chunk_size: Size

    @property
    def transformed_size(self) -> int:
        """The size of the object, which is that of all its chunks."""
        count = self.count
        return self.transformed_chunk_size * (count - 1) + self.final_transformed_chunk_size if count else 0

    def transformed_sizes(self) -> list[int]:
        count = self.count
        return [self.transformed_chunk_size] * (count - 1) + [self.final_transformed_chunk_size] * (count > 0)


class VariableChunks(_Chunks):
    """Each transformed chunk has a size of its own."""

    type: Literal["variable"]
    transformed_chunks: str

    @property
    def transformed_size(self) -> int:
        """The size of the object, which is that of all its chunks. CorruptFileError."""
        return sum(self.transformed_sizes())

    def transformed_sizes(self) -> list[int]:
        try:
            packed = b64decode(self.transformed_chunks, validate=True)
            stated = zstandard.frame_content_size(packed)  # which the decompressor would allocate, whatever its limit
            if stated > SIZES_BYTES_MAX:
                raise ValueError(f"{stated} bytes, at most {SIZES_BYTES_MAX} are expected")
            return _sizes(zstandard.ZstdDecompressor().decompress(packed, max_output_size=SIZES_BYTES_MAX))
        except (ValueError, zstandard.ZstdError, struct.error) as error:
            raise CorruptFileError(f"manifest: the list of chunk sizes: {error}") from error


class Encryption(_Model):
    """`data_key`: KEY ID:base64 of the AES key, encrypted with the RSA key of that name."""

    data_key: str
    aad: Base64Bytes


class _TopicPartition(_Model):
    topic: str
    partition: Size


class _TopicIdPartition(_Model):
    topic_id: str
    topic_partition: _TopicPartition


class _SegmentId(_Model):
    topic_id_partition: _TopicIdPartition
    id: str

    @property
    def text(self) -> str:
        """As `RemoteLogSegmentId` has it."""
        where = self.topic_id_partition
        return f"{where.topic_partition.topic}-{where.topic_partition.partition}-{where.topic_id}:{self.id}"


class SegmentDescription(_Model):
    """Kafka's metadata of the segment, without its size. Offsets inclusive."""

    remote_log_segment_id: _SegmentId
    start_offset: Size
    end_offset: Size
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    segment_leader_epochs: dict[int, Size] = Field(min_length=1)


class Manifest(_Model):
    """Version 1."""

    version: Literal["1"]
    chunk_index: Annotated[FixedChunks | VariableChunks, Field(discriminator="type")]
    segment_indexes: SegmentIndexes
    compression: bool
    encryption: Encryption | None = None
    remote_log_segment_metadata: SegmentDescription


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """The chunks that hold a range of the log: bytes [start, end) of the object, the size of each chunk there and
    back, and where the first begins in the log.
    """

    start: int
    end: int
    transformed_sizes: tuple[int, ...]
    original_sizes: tuple[int, ...]
    original_start: int
    first_chunk: int


def decode_manifest(data: bytes, name: str) -> Manifest:
    """CorruptFileError with `name` in front says which field is wrong."""
    try:
        return Manifest.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise CorruptFileError(f"{name}: {where}: {first['msg']}") from None


def metadata_of(manifest: Manifest, raw: bytes, segment_id: RemoteLogSegmentId, name: str) -> RemoteLogSegmentMetadata:
    """Return the metadata with the manifest as custom metadata, so that readers need not fetch it again.
    CorruptFileError, also if the manifest is of another segment than its name says.
    """
    described = manifest.remote_log_segment_metadata
    if (described_id := described.remote_log_segment_id.text) != str(segment_id):
        raise CorruptFileError(f"{name}: describes {described_id}")
    epochs = sorted(described.segment_leader_epochs.items())
    entries = LeaderEpochCache(EpochEntry(epoch, start) for epoch, start in epochs).range(
        described.start_offset, described.end_offset + 1
    )
    if not entries:  # the first may begin above the segment's start: at the log start when it was copied
        raise CorruptFileError(
            f"{name}: offsets {described.start_offset} to {described.end_offset} with the leader epochs {epochs}"
        )
    transaction = manifest.segment_indexes.transaction
    return RemoteLogSegmentMetadata(
        segment_id=segment_id,
        start_offset=described.start_offset,
        end_offset=described.end_offset,
        max_timestamp_ms=described.max_timestamp_ms,
        broker_id=described.broker_id,
        event_timestamp_ms=described.event_timestamp_ms,
        segment_size_in_bytes=manifest.chunk_index.original_file_size,
        segment_leader_epochs=entries,
        custom_metadata=raw,
        txn_index_empty=transaction is None or transaction.size == 0,
    )


def chunks_of(manifest: Manifest, start: int, end: int) -> ChunkRange:
    """Return the chunks that hold bytes [start, end) of the log, which must be within it. CorruptFileError if the
    sizes are impossible.
    """
    index = manifest.chunk_index
    size, total = index.original_chunk_size, index.original_file_size
    assert 0 <= start < end <= total, (start, end, total)
    sizes = index.transformed_sizes()
    if len(sizes) != index.count:
        raise CorruptFileError(f"manifest: {len(sizes)} chunks of {size} bytes for a log of {total}")
    begins = list(accumulate(sizes, initial=0))
    first, behind = start // size, -(-end // size)
    if (largest := max(sizes[first:behind])) > (most := size + size // GROWTH + GROWTH_BYTES):
        raise CorruptFileError(f"manifest: a chunk of {largest} bytes, where {size} of the log have {most} at most")
    return ChunkRange(
        start=begins[first],
        end=begins[behind],
        transformed_sizes=tuple(sizes[first:behind]),
        original_sizes=tuple(min(size, total - at * size) for at in range(first, behind)),
        original_start=first * size,
        first_chunk=first,
    )


def _sizes(packed: bytes) -> list[int]:
    (count,) = _COUNT.unpack_from(packed)
    if count < 0:
        raise ValueError(f"{count} chunks")
    if count == 0:
        return []
    (last,) = _COUNT.unpack_from(packed, len(packed) - _COUNT.size)
    if count == 1:
        expected, before = 2 * _COUNT.size, []
    else:
        base, width = _BASE_AND_WIDTH.unpack_from(packed, _COUNT.size)
        begin = _COUNT.size + _BASE_AND_WIDTH.size
        end = begin + (count - 1) * width
        expected = end + _COUNT.size
        if not 0 < width <= _WIDTH_MAX:
            raise ValueError(f"{width} bytes for a size")
        before = [base + int.from_bytes(packed[at : at + width], "big") for at in range(begin, end, width)]
    if len(packed) != expected or last < 0 or min(before, default=0) < 0:
        raise ValueError(f"{len(packed)} bytes where {expected} are expected for {count} chunks")
    return [*before, last]

"""The layout of Aiven's tiered storage plugin (Aiven-Open/tiered-storage-for-apache-kafka), read from its manifests.

    [prefix/]<topic>-<topic uuid>/<partition>/<20-digit start offset>-<segment uuid>.{log,indexes,rsm-manifest}

The manifest is written last and says all that planning needs: one small GET for each segment, none for its indexes. It
travels with the segment's metadata, so that reading is one ranged GET of the chunks that hold the wanted bytes. What
the manifest does not fit (a chunk that is short, that cannot be decrypted or decompressed) is corruption, said at once.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final
from uuid import UUID

import zstandard

from ...log.core import CorruptFileError
from ...protocol import TopicIdPartition, uuid_from_text, uuid_to_text
from ...remote import (
    IndexType,
    ObjectRange,
    ReadsObjects,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageManager,
    Sighting,
    check_index_size,
    gather_limited,
)
from ...remote.core import Finding, FindingKind, RemoteLogSegmentId, RemoteLogSegmentMetadata
from .aiven_keys import KeyRing, decrypt_chunk
from .aiven_manifest import MANIFEST_BYTES_MAX, Manifest, chunks_of, decode_manifest, metadata_of

SHARE_MAX: Final = 256
"""Manifests that are asked for together."""
SHARES_AT_ONCE_MAX: Final = 4
MANIFESTS_KEPT_MAX: Final = 64
_DIRECTORY: Final = re.compile(r"(.+)-([\w-]{22})")
_PARTITION: Final = re.compile(r"\d{1,10}")
_NAME: Final = re.compile(r"(\d{20})-([\w-]{22})")
_LOG, _INDEXES, _MANIFEST = "log", "indexes", "rsm-manifest"
_SUFFIXES: Final = frozenset({_LOG, _INDEXES, _MANIFEST})
OFFSET_DIGITS: Final = 20
UUID_CHARACTERS: Final = 22

_Parts = dict[str, tuple[str, int]]
"""Key and size of the objects of a segment, by the end of their names."""


class AivenLayout:
    """A `SegmentStore` over any plugin that gives its objects by key."""

    def __init__(self, storage: RemoteStorageManager, keys: KeyRing) -> None:
        assert isinstance(storage, ReadsObjects), storage
        self._storage, self._objects = storage, storage
        self._keys = keys
        self._manifests: OrderedDict[UUID, Manifest] = OrderedDict()

    async def partitions(self, wants: Callable[[str], bool]) -> list[TopicIdPartition]:
        found = []
        async for directory in self._objects.list_directories(""):
            match = _DIRECTORY.fullmatch(directory)
            if match is None or not wants(match[1]):
                continue
            async for name in self._objects.list_directories(f"{directory}/"):
                if _PARTITION.fullmatch(name):
                    found.append(TopicIdPartition(uuid_from_text(match[2]), match[1], int(name)))
        return sorted(found)

    async def sight(self, partition: TopicIdPartition, known: Collection[UUID] = (), start_offset: int = 0) -> Sighting:
        segments, foreign = await self._segments(partition, start_offset)
        unknown = [segment for segment in segments.items() if segment[0].id not in known]
        shares = [unknown[start : start + SHARE_MAX] for start in range(0, len(unknown), SHARE_MAX)]
        looks = await gather_limited((partial(self._look_at, share) for share in shares), SHARES_AT_ONCE_MAX)
        found = [one for share in looks for one in share]
        described = tuple(one for one in found if isinstance(one, RemoteLogSegmentMetadata))
        listed = {segment_id.id for segment_id, parts in segments.items() if segment_id.id in known and _LOG in parts}
        findings = sorted((*foreign, *(one for one in found if isinstance(one, Finding))), key=str)
        return Sighting(frozenset(listed.union(one.segment_id.id for one in described)), described, tuple(findings))

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        end = min(end, metadata.segment_size_in_bytes)
        if start >= end:
            return b""
        key = _key(metadata, _LOG)
        manifest = self._manifest(metadata)
        chunks = chunks_of(manifest, start, end)
        stored = memoryview(await self._objects.read_object(key, chunks.start, chunks.end))
        if len(stored) != chunks.end - chunks.start:
            raise RemoteStorageCorruptError(
                f"{key}: bytes [{chunks.start}, {chunks.end}) came back as {len(stored)} bytes: the object is shorter "
                "than its manifest says"
            )
        parts, at = [], 0
        for number, (size, original) in enumerate(
            zip(chunks.transformed_sizes, chunks.original_sizes, strict=True), start=chunks.first_chunk
        ):
            parts.append(self._restored(manifest, stored[at : at + size], original, f"{key}, chunk {number}"))
            at += size
        parts[-1] = parts[-1][: len(parts[-1]) - (chunks.original_start + sum(chunks.original_sizes) - end)]
        parts[0] = parts[0][start - chunks.original_start :]
        return b"".join(parts)

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        key = _key(metadata, _INDEXES)
        manifest = self._manifest(metadata)
        wanted = manifest.segment_indexes.range_of(index_type)
        if wanted is None:
            raise RemoteResourceNotFoundError(f"{key}: the segment has no {index_type.value}")
        if not wanted.size:
            return b""
        check_index_size(metadata, index_type, wanted.size)
        data = await self._objects.read_object(key, wanted.position, wanted.position + wanted.size)
        if len(data) != wanted.size:
            raise RemoteStorageCorruptError(f"{key}: {index_type.value}: {len(data)} bytes instead of {wanted.size}")
        return bytes(self._decrypted(manifest, memoryview(data), f"{key}, {index_type.value}"))

    async def close(self) -> None:
        await self._storage.close()

    async def _segments(
        self, partition: TopicIdPartition, start_offset: int
    ) -> tuple[dict[RemoteLogSegmentId, _Parts], list[Finding]]:
        """And what is there besides."""
        directory = _directory(partition)
        segments: dict[str, _Parts] = {}
        foreign = []
        start_after = f"{directory}/{start_offset:020d}" if start_offset else ""
        async for key, size in self._objects.list_keys(f"{directory}/", start_after):
            stem, _, suffix = key.rpartition(".")
            if suffix in _SUFFIXES and _NAME.fullmatch(stem, len(directory) + 1):
                segments.setdefault(stem, {})[suffix] = key, size
            else:
                foreign.append(Finding(FindingKind.FOREIGN, key, f"{size} bytes that are foreign"))
        ids = {uuid_from_text(stem[-UUID_CHARACTERS:]): parts for stem, parts in segments.items()}
        return {RemoteLogSegmentId(partition, segment_id): parts for segment_id, parts in ids.items()}, foreign

    async def _look_at(
        self, share: Sequence[tuple[RemoteLogSegmentId, _Parts]]
    ) -> list[RemoteLogSegmentMetadata | Finding]:
        wanted = [ObjectRange(parts[_MANIFEST][0], 0, parts[_MANIFEST][1]) for _, parts in share if _is_readable(parts)]
        read = iter(await self._objects.read_objects(wanted))
        return [
            _described(segment_id, parts, next(read) if _is_readable(parts) else None) for segment_id, parts in share
        ]

    def _manifest(self, metadata: RemoteLogSegmentMetadata) -> Manifest:
        segment = metadata.segment_id.id
        manifest = self._manifests.get(segment)
        if manifest is None:
            assert metadata.custom_metadata is not None, metadata
            manifest = decode_manifest(metadata.custom_metadata, _key(metadata, _MANIFEST))
            self._manifests[segment] = manifest
            if len(self._manifests) > MANIFESTS_KEPT_MAX:
                self._manifests.popitem(last=False)
        return manifest

    def _restored(self, manifest: Manifest, chunk: memoryview, original_size: int, what: str) -> bytes:
        data = self._decrypted(manifest, chunk, what)
        if manifest.compression:
            data = _decompressed(data, original_size, what)
        if len(data) != original_size:
            raise RemoteStorageCorruptError(f"{what}: {len(data)} bytes where the manifest says {original_size}")
        return bytes(data)

    def _decrypted(self, manifest: Manifest, chunk: memoryview, what: str) -> bytes | memoryview:
        encryption = manifest.encryption
        if encryption is None:
            return chunk
        return decrypt_chunk(chunk, self._keys.data_key(encryption.data_key), encryption.aad, what)


def _is_readable(parts: _Parts) -> bool:
    return _MANIFEST in parts and 0 < parts[_MANIFEST][1] <= MANIFEST_BYTES_MAX


def _described(
    segment_id: RemoteLogSegmentId, parts: _Parts, manifest: bytes | None
) -> RemoteLogSegmentMetadata | Finding:
    if _MANIFEST not in parts:
        message = "no manifest: a copy that is under way, or was abandoned"
        return Finding(FindingKind.ORPHAN, str(segment_id), message)
    name, size = parts[_MANIFEST]
    start_offset = int(name.rpartition("/")[2][:OFFSET_DIGITS])
    if not _is_readable(parts):
        what = f"{name}: a manifest of {size} bytes, at most {MANIFEST_BYTES_MAX} are one"
        return Finding(FindingKind.CORRUPT, str(segment_id), what, start_offset)
    missing = {_LOG, _INDEXES} - parts.keys() if manifest is not None else {_MANIFEST}
    if manifest is None or missing:
        absent = f"the manifest is there, .{', .'.join(sorted(missing))} not"
        what = absent if manifest else f"{name} has just been deleted"
        return Finding(FindingKind.MISSING, str(segment_id), what, start_offset)
    try:
        decoded = decode_manifest(manifest, name)
        metadata = metadata_of(decoded, manifest, segment_id, name)
        stated, (log, found) = decoded.chunk_index.transformed_size, parts[_LOG]
    except CorruptFileError as error:
        return Finding(FindingKind.CORRUPT, str(segment_id), str(error), start_offset)
    if metadata.start_offset != start_offset:
        what = f"{name}: describes a segment from offset {metadata.start_offset}"
        return Finding(FindingKind.CORRUPT, str(segment_id), what, start_offset)
    if found != stated:
        what = f"{log} has {found} bytes where its manifest says {stated}"
        return Finding(FindingKind.WRONG_SIZE, str(segment_id), what, start_offset)
    return metadata


def _decompressed(data: bytes | memoryview, size: int, what: str) -> bytes:
    try:
        stated = zstandard.frame_content_size(data)
        if stated not in (size, -1):
            raise RemoteStorageCorruptError(f"{what}: would be {stated} bytes where the manifest says {size}")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    except zstandard.ZstdError as error:
        raise RemoteStorageCorruptError(f"{what}: {error}") from error


def _directory(partition: TopicIdPartition) -> str:
    return f"{partition.topic}-{uuid_to_text(partition.topic_id)}/{partition.partition}"


def _stem(metadata: RemoteLogSegmentMetadata) -> str:
    return f"{metadata.start_offset:020d}-{uuid_to_text(metadata.segment_id.id)}"


def _key(metadata: RemoteLogSegmentMetadata, suffix: str) -> str:
    return f"{_directory(metadata.segment_id.topic_id_partition)}/{_stem(metadata)}.{suffix}"

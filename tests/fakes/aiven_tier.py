"""Writes segments as Aiven's tiered storage plugin lays them out, by its documentation; the reader is tested on them.

Nothing here is shared with the reader: what both get wrong in the same way no test would find.
"""

from __future__ import annotations

import json
import os
import struct
from base64 import b64encode
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import zstandard

from tierfetch.protocol.topics import uuid_to_text
from tierfetch.remote import IndexType
from tierfetch.remote.core import RemoteLogSegmentMetadata

INDEXES = (
    (IndexType.OFFSET, "offset"),
    (IndexType.TIMESTAMP, "timestamp"),
    (IndexType.PRODUCER_SNAPSHOT, "producerSnapshot"),
    (IndexType.LEADER_EPOCH, "leaderEpoch"),
    (IndexType.TRANSACTION, "transaction"),
)


@cache
def private_key(key_id: str) -> Any:
    from Cryptodome.PublicKey import RSA

    return RSA.generate(2048)


def private_pem(key_id: str) -> str:
    return private_key(key_id).export_key("PEM", pkcs=8).decode()


@dataclass(frozen=True)
class AivenWriter:
    """`key_id`: encrypts where given."""

    root: Path
    chunk_size: int = 4096
    compresses: bool = False
    key_id: str | None = None
    prefix: str = ""
    written: list[Path] = field(default_factory=list)

    def write(self, metadata: RemoteLogSegmentMetadata, log: bytes, indexes: dict[IndexType, bytes]) -> None:
        tip = metadata.segment_id.topic_id_partition
        name = f"{metadata.start_offset:020d}-{uuid_to_text(metadata.segment_id.id)}"
        stem = self.root / f"{self.prefix}{tip.topic}-{uuid_to_text(tip.topic_id)}" / str(tip.partition) / name
        stem.parent.mkdir(parents=True, exist_ok=True)
        key, aad = os.urandom(32), os.urandom(32)
        chunks = [log[at : at + self.chunk_size] for at in range(0, len(log), self.chunk_size)]
        stored = [self._encrypted(self._compressed(chunk), key, aad) for chunk in chunks]
        stem.with_suffix(".log").write_bytes(b"".join(stored))
        ranges, content = {}, b""
        for kind, field_name in INDEXES:
            if kind not in indexes:
                ranges[field_name] = None
                continue
            data = self._encrypted(indexes[kind], key, aad) if indexes[kind] else b""
            ranges[field_name] = {"position": len(content), "size": len(data)}
            content += data
        stem.with_suffix(".indexes").write_bytes(content)
        document = {
            "version": "1",
            "chunkIndex": self._chunk_index(len(log), [len(chunk) for chunk in stored]),
            "segmentIndexes": ranges,
            "compression": self.compresses,
            **self._encryption(key, aad),
            "remoteLogSegmentMetadata": described(metadata),
        }
        stem.with_suffix(".rsm-manifest").write_text(json.dumps(document))
        self.written.append(stem)

    def _compressed(self, chunk: bytes) -> bytes:
        return zstandard.ZstdCompressor().compress(chunk) if self.compresses else chunk

    def _encrypted(self, data: bytes, key: bytes, aad: bytes) -> bytes:
        if self.key_id is None:
            return data
        from Cryptodome.Cipher import AES

        nonce = os.urandom(12)
        cipher = AES.new(key, AES.MODE_GCM, nonce=nonce)
        cipher.update(aad)
        content, tag = cipher.encrypt_and_digest(data)
        return nonce + content + tag

    def _encryption(self, key: bytes, aad: bytes) -> dict[str, Any]:
        if self.key_id is None:
            return {}
        from Cryptodome.Cipher import PKCS1_OAEP
        from Cryptodome.Hash import SHA3_512

        wrapped = PKCS1_OAEP.new(private_key(self.key_id).public_key(), hashAlgo=SHA3_512).encrypt(key)
        text = f"{self.key_id}:{b64encode(wrapped).decode()}"
        return {"encryption": {"dataKey": text, "aad": b64encode(aad).decode()}}

    def _chunk_index(self, size: int, stored: list[int]) -> dict[str, Any]:
        index: dict[str, Any] = {"originalChunkSize": self.chunk_size, "originalFileSize": size}
        if self.compresses:
            packed = zstandard.ZstdCompressor().compress(packed_sizes(stored))
            return {"type": "variable", **index, "transformedChunks": b64encode(packed).decode()}
        overhead = 28 if self.key_id is not None else 0
        last = stored[-1] if stored else 0
        sizes = {"transformedChunkSize": self.chunk_size + overhead, "finalTransformedChunkSize": last}
        return {"type": "fixed", **index, **sizes}


def described(metadata: RemoteLogSegmentMetadata) -> dict[str, Any]:
    tip = metadata.segment_id.topic_id_partition
    return {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": uuid_to_text(tip.topic_id),
                "topicPartition": {"topic": tip.topic, "partition": tip.partition},
            },
            "id": uuid_to_text(metadata.segment_id.id),
        },
        "startOffset": metadata.start_offset,
        "endOffset": metadata.end_offset,
        "maxTimestampMs": metadata.max_timestamp_ms,
        "brokerId": metadata.broker_id,
        "eventTimestampMs": metadata.event_timestamp_ms,
        "segmentLeaderEpochs": {str(entry.epoch): entry.start_offset for entry in metadata.segment_leader_epochs},
    }


def packed_sizes(sizes: list[int]) -> bytes:
    """Count; base and width; the distances from the base but for the last; the last."""
    if len(sizes) < 2:
        return struct.pack(">i", len(sizes)) + b"".join(struct.pack(">i", size) for size in sizes)
    base = min(sizes[:-1])
    width = max(1, (max(sizes[:-1]) - base).bit_length() + 7 >> 3)
    distances = b"".join((size - base).to_bytes(width, "big") for size in sizes[:-1])
    return struct.pack(">iiB", len(sizes), base, width) + distances + struct.pack(">i", sizes[-1])

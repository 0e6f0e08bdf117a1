"""A metadata record <-> the value of a record in `__cluster_metadata`.

    value = frame version 1, api key, version (each an unsigned varint), body (flexible, KIP-482)

A record is written in the oldest version that holds all it says: every node that could act on it can read it, at any
metadata.version. Fields that an older version lacks are read as their defaults. Values come from the quorum's log,
whose batches were checked; what cannot be understood all the same raises MetadataRecordError.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from ...protocol import PeerError
from ...protocol.wire import read_uvarint, write_uvarint
from . import brokers, security, settings, topics
from .schema import MetadataRecord, entity_type, newer_fields, record_types

FRAME_VERSION: Final = 1
_DECLARED_IN: Final = (brokers, security, settings, topics)


class MetadataRecordError(PeerError, ValueError):
    """A record of the metadata log that cannot be understood: damaged, or from a newer release."""


class VersionedRecord(NamedTuple):
    """A record, and the version in which it was written."""

    record: MetadataRecord
    version: int


def encode_record(record: MetadataRecord, version: int | None = None) -> bytes:
    """The value, in the oldest version that holds the record unless another one is given."""
    oldest = oldest_version(record)
    if version is None:
        version = oldest
    assert oldest <= version <= record.newest_version, (record, version, oldest)
    out = io.BytesIO()
    out.write(_frame(record.api_key, version))
    _writer(record.api_key, version)(out, record)
    return out.getvalue()


def oldest_version(record: MetadataRecord) -> int:
    """The oldest version that holds all the record says."""
    for since, name, absent in newer_fields(record.api_key):
        if getattr(record, name) != absent:
            return since
    return 0


def decode_record(value: bytes) -> VersionedRecord:
    """The inverse of `encode_record`."""
    position = 0
    try:
        frame_version, position = read_uvarint(value, position)
        api_key, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except (IndexError, ValueError) as error:
        raise MetadataRecordError(f"record of {len(value)} bytes: no frame: {error}") from error
    if frame_version != FRAME_VERSION:
        raise MetadataRecordError(f"frame version {frame_version} where {FRAME_VERSION} is expected")
    record_type = record_types.get(api_key)
    if record_type is None or version > record_type.newest_version:
        what = f"api key {api_key}, version {version}"
        raise MetadataRecordError(f"unknown: {what}: a newer release wrote it, upgrade to it")
    return VersionedRecord(_read(record_type, version, value, position), version)


def _read(record_type: type[MetadataRecord], version: int, value: bytes, position: int) -> MetadataRecord:
    try:
        entity, size = _reader(record_type.api_key, version)(value, position)
    except (SerialError, KeyError, ValueError) as error:
        raise MetadataRecordError(f"{record_type.__name__} version {version}: {error}") from error
    if position + size != len(value):
        surplus = len(value) - position - size
        raise MetadataRecordError(f"{record_type.__name__} version {version}: {surplus} bytes too many")
    if type(entity) is record_type:
        return entity
    older = {name: absent for since, name, absent in newer_fields(record_type.api_key) if since > version}
    older.update((name, getattr(entity, name)) for name in entity.__slots__)
    return record_type(**older)


@cache
def _frame(api_key: int, version: int) -> bytes:
    out = bytearray()
    for value in (FRAME_VERSION, api_key, version):
        write_uvarint(out, value)
    return bytes(out)


@cache
def _reader(api_key: int, version: int) -> Callable[[bytes, int], tuple[MetadataRecord, int]]:
    return entity_reader(entity_type(api_key, version))


@cache
def _writer(api_key: int, version: int) -> Callable[[io.BytesIO, MetadataRecord], None]:
    return entity_writer(entity_type(api_key, version))

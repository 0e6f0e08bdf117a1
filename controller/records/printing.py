"""Metadata records as rows for people and scripts, in the form of `kafka-dump-log --cluster-metadata-decoder`.

    {"type": "TOPIC_RECORD", "version": 0, "data": {"name": "t", "topicId": "<22 characters>"}}

Names are Kafka's, in its order; tagged fields are left out where they say nothing, as Kafka does; uuids are Kafka's
text. Secrets (keys and salts of credentials) are shown by their length only.
"""

from __future__ import annotations

import re
from dataclasses import Field
from typing import Final
from uuid import UUID

from ...protocol import uuid_to_text
from ...protocol.wire import ZERO_UUID
from .codec import decode_record
from .schema import MetadataRecord, absent_value, record_fields

_WORD = re.compile(r"(?<!^)(?=[A-Z])")
_UUID: Final = "uuid"


def record_row(value: bytes) -> dict[str, object]:
    """One record, ready for JSON. MetadataRecordError if it cannot be understood."""
    record, version = decode_record(value)
    return {"type": type_name(record), "version": version, "data": _data(record, version)}


def type_name(record: MetadataRecord) -> str:
    """Kafka's name of the type: PARTITION_CHANGE_RECORD."""
    return _WORD.sub("_", type(record).__name__).upper()


def _data(record: MetadataRecord, version: int) -> dict[str, object]:
    row = {}
    for item in record_fields(type(record)):
        value = getattr(record, item.name)
        says_nothing = "tag" in item.metadata and value == absent_value(item)
        if item.metadata["since"] <= version and not says_nothing:
            row[_camel(item.name)] = _plain(item, value, version)
    return row


def _plain(item: Field[object], value: object, version: int) -> object:
    if isinstance(value, tuple):
        return [_plain(item, element, version) for element in value]
    if isinstance(value, MetadataRecord):
        return _data(value, version)
    if item.metadata.get("kafka_type") == _UUID:
        return uuid_to_text(value if isinstance(value, UUID) else ZERO_UUID)
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return value


def _camel(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(map(str.capitalize, rest))

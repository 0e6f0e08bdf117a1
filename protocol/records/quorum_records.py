"""Control records of the KRaft quorum: values to bytes and back (KIP-595, KIP-630, KIP-853).

| type | value | where |
|---|---|---|
| LEADER_CHANGE | who leads, who votes, who voted for it | first batch of every leader epoch |
| SNAPSHOT_HEADER, SNAPSHOT_FOOTER | append time of the last record covered; nothing | snapshot: first, last |
| KRAFT_VERSION | the level of `kraft.version` | log, snapshot header's batch |
| KRAFT_VOTERS | the voters with directories and endpoints | log, snapshot header's batch |

Every value begins with its own version (int16), which selects kio's schema. All are written as version 0, as Apache
Kafka does: its tools read LeaderChange by the schema of version 0 whatever the record says.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final
from uuid import UUID

from kio.serial import entity_writer

from ..errors import CorruptRecordError
from ..wire.entities import build_entity, read_entity
from ..wire.primitives import MalformedMessageError, Reader
from . import Record, build_batch
from .control import ControlType, control_key, control_type

_VERSION = struct.Struct(">h")
WRITTEN_VERSION: Final = 0


@dataclass(frozen=True, slots=True)
class VoterEndpoint:
    """Where a voter listens, by the listener's name."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter of a VotersRecord."""

    voter_id: int
    directory_id: UUID | None
    endpoints: tuple[VoterEndpoint, ...]
    min_kraft_version: int = 0
    max_kraft_version: int = 1


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """First record of an epoch; voters by their ids."""

    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """First record of a snapshot: when the leader appended the last record that it covers."""

    last_contained_log_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class SnapshotFooter:
    """Last record of a snapshot: without it the file is not whole."""


@dataclass(frozen=True, slots=True)
class KRaftVersion:
    """The level of `kraft.version` from this record on."""

    level: int


@dataclass(frozen=True, slots=True)
class Voters:
    """The voters from this record on."""

    voters: tuple[Voter, ...]


QuorumRecord = LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | Voters


@dataclass(frozen=True, slots=True)
class _Schema:
    module: str
    type_name: str


_SCHEMAS: Final[Mapping[ControlType, _Schema]] = {
    ControlType.LEADER_CHANGE: _Schema("leader_change_message", "LeaderChangeMessage"),
    ControlType.SNAPSHOT_HEADER: _Schema("snapshot_header_record", "SnapshotHeaderRecord"),
    ControlType.SNAPSHOT_FOOTER: _Schema("snapshot_footer_record", "SnapshotFooterRecord"),
    ControlType.KRAFT_VERSION: _Schema("k_raft_version_record", "KRaftVersionRecord"),
    ControlType.KRAFT_VOTERS: _Schema("voters_record", "VotersRecord"),
}
_NEWEST_VERSIONS: Final = {ControlType.LEADER_CHANGE: 1}
"""That can be read, where it is not 0."""


@cache
def _entity_type(kind: ControlType, version: int) -> type[Any]:
    schema = _SCHEMAS[kind]
    loaded: type[Any] = getattr(import_module(f"kio.schema.{schema.module}.v{version}.data"), schema.type_name)
    return loaded


def parse_quorum_record(record: Record) -> QuorumRecord | None:
    """What a record of a control batch says; None for a type that is not the quorum's. CorruptRecordError."""
    kind = control_type(record)
    if kind not in _SCHEMAS:
        return None
    value = record.value
    if value is None or len(value) < _VERSION.size:
        raise CorruptRecordError(f"control record {kind.name} at offset {record.offset} has no value")
    (version,) = _VERSION.unpack_from(value)
    if version < 0:
        raise CorruptRecordError(f"control record {kind.name} at offset {record.offset}: version {version}")
    known = min(version, _NEWEST_VERSIONS.get(kind, 0))
    try:
        entity = read_entity(Reader(memoryview(value), 0, flexible=True), _entity_type(kind, known))
    except MalformedMessageError as error:
        raise CorruptRecordError(f"control record {kind.name} at offset {record.offset}: {error}") from error
    return _value_of(kind, entity)


def _value_of(kind: ControlType, entity: Any) -> QuorumRecord:
    match kind:
        case ControlType.LEADER_CHANGE:
            return LeaderChange(entity.leader_id, _ids(entity.voters), _ids(entity.granting_voters))
        case ControlType.SNAPSHOT_HEADER:
            return SnapshotHeader(entity.last_contained_log_timestamp)
        case ControlType.SNAPSHOT_FOOTER:
            return SnapshotFooter()
        case ControlType.KRAFT_VERSION:
            return KRaftVersion(entity.k_raft_version)
        case _:
            return Voters(tuple(_voter(voter) for voter in entity.voters))


def _ids(voters: Sequence[Any]) -> tuple[int, ...]:
    return tuple(voter.voter_id for voter in voters)


def _voter(voter: Any) -> Voter:
    return Voter(
        voter_id=voter.voter_id,
        directory_id=voter.voter_directory_id,
        endpoints=tuple(VoterEndpoint(item.name, item.host, item.port) for item in voter.endpoints),
        min_kraft_version=voter.k_raft_version_feature.min_supported_version,
        max_kraft_version=voter.k_raft_version_feature.max_supported_version,
    )


def quorum_record(value: QuorumRecord, *, offset: int, timestamp_ms: int) -> Record:
    """The record of a control batch that says it."""
    kind, fields = _fields_of(value)
    entity_type = _entity_type(kind, WRITTEN_VERSION)
    buffer = io.BytesIO()
    entity_writer(entity_type)(buffer, build_entity(entity_type, {"version": WRITTEN_VERSION, **fields}))
    return Record(offset=offset, timestamp=timestamp_ms, key=control_key(kind), value=buffer.getvalue())


def build_quorum_batch(
    values: Sequence[QuorumRecord], *, base_offset: int, timestamp_ms: int, partition_leader_epoch: int
) -> bytes:
    """One control batch of these records."""
    records = [
        quorum_record(value, offset=base_offset + number, timestamp_ms=timestamp_ms)
        for number, value in enumerate(values)
    ]
    return build_batch(records, base_offset=base_offset, partition_leader_epoch=partition_leader_epoch, is_control=True)


def _fields_of(value: QuorumRecord) -> tuple[ControlType, dict[str, Any]]:
    match value:
        case LeaderChange(leader_id, voters, granting):
            fields = {
                "leader_id": leader_id,
                "voters": [{"voter_id": voter} for voter in voters],
                "granting_voters": [{"voter_id": voter} for voter in granting],
            }
            return ControlType.LEADER_CHANGE, fields
        case SnapshotHeader(timestamp_ms):
            return ControlType.SNAPSHOT_HEADER, {"last_contained_log_timestamp": timestamp_ms}
        case SnapshotFooter():
            return ControlType.SNAPSHOT_FOOTER, {}
        case KRaftVersion(level):
            return ControlType.KRAFT_VERSION, {"k_raft_version": level}
        case Voters(voters):
            return ControlType.KRAFT_VOTERS, {"voters": [_voter_fields(voter) for voter in voters]}


def _voter_fields(voter: Voter) -> dict[str, Any]:
    return {
        "voter_id": voter.voter_id,
        "voter_directory_id": voter.directory_id,
        "endpoints": [{"name": item.name, "host": item.host, "port": item.port} for item in voter.endpoints],
        "k_raft_version_feature": {
            "min_supported_version": voter.min_kraft_version,
            "max_supported_version": voter.max_kraft_version,
        },
    }

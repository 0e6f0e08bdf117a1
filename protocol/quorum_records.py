"""Control records of the KRaft quorum: values to bytes and back (KIP-595, KIP-630, KIP-853).

| type | value | where |
|---|---|---|
| LEADER_CHANGE | who leads, who votes, who voted for it | first batch of every leader epoch |
| SNAPSHOT_HEADER, SNAPSHOT_FOOTER | append time of the last record covered; nothing | snapshot: first, last |
| KRAFT_VERSION | the level of `kraft.version` | log, snapshot header's batch |
| KRAFT_VOTERS | the voters with directories and endpoints | log, snapshot header's batch |

Every value begins with its own version (int16), which selects kio's schema. LeaderChange is version 0 where no voter
has a directory id (kraft.version 0), version 1 otherwise; the others have version 0 only.
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

from .control import ControlType, control_key, control_type
from .entities import build_entity, read_entity
from .errors import CorruptRecordError
from .primitives import MalformedMessageError, Reader
from .records import Record, build_batch

_VERSION = struct.Struct(">h")
_LEADER_CHANGE_WITH_DIRECTORIES: Final = 1


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """A replica by id and, where it is known, by the directory its log lies in."""

    id: int
    directory_id: UUID | None = None

    def __str__(self) -> str:
        return str(self.id) if self.directory_id is None else f"{self.id} ({self.directory_id})"


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

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.voter_id, self.directory_id)


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """First record of an epoch."""

    leader_id: int
    voters: tuple[ReplicaKey, ...]
    granting_voters: tuple[ReplicaKey, ...]


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
_NEWEST_VERSIONS: Final = {ControlType.LEADER_CHANGE: _LEADER_CHANGE_WITH_DIRECTORIES}


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
            return LeaderChange(entity.leader_id, _keys(entity.voters), _keys(entity.granting_voters))
        case ControlType.SNAPSHOT_HEADER:
            return SnapshotHeader(entity.last_contained_log_timestamp)
        case ControlType.SNAPSHOT_FOOTER:
            return SnapshotFooter()
        case ControlType.KRAFT_VERSION:
            return KRaftVersion(entity.k_raft_version)
        case _:
            return Voters(tuple(_voter(voter) for voter in entity.voters))


def _keys(voters: Sequence[Any]) -> tuple[ReplicaKey, ...]:
    return tuple(ReplicaKey(voter.voter_id, getattr(voter, "voter_directory_id", None)) for voter in voters)


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
    kind, version, fields = _fields_of(value)
    entity_type = _entity_type(kind, version)
    buffer = io.BytesIO()
    entity_writer(entity_type)(buffer, build_entity(entity_type, {"version": version, **fields}))
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


def _fields_of(value: QuorumRecord) -> tuple[ControlType, int, dict[str, Any]]:
    match value:
        case LeaderChange(leader_id, voters, granting):
            has_directories = any(key.directory_id is not None for key in voters)
            version = _LEADER_CHANGE_WITH_DIRECTORIES if has_directories else 0
            fields = {
                "leader_id": leader_id,
                "voters": [_key_fields(key, version) for key in voters],
                "granting_voters": [_key_fields(key, version) for key in granting],
            }
            return ControlType.LEADER_CHANGE, version, fields
        case SnapshotHeader(timestamp_ms):
            return ControlType.SNAPSHOT_HEADER, 0, {"last_contained_log_timestamp": timestamp_ms}
        case SnapshotFooter():
            return ControlType.SNAPSHOT_FOOTER, 0, {}
        case KRaftVersion(level):
            return ControlType.KRAFT_VERSION, 0, {"k_raft_version": level}
        case Voters(voters):
            return ControlType.KRAFT_VOTERS, 0, {"voters": [_voter_fields(voter) for voter in voters]}


def _key_fields(key: ReplicaKey, version: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"voter_id": key.id}
    if version >= _LEADER_CHANGE_WITH_DIRECTORIES:
        fields["voter_directory_id"] = key.directory_id
    return fields


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

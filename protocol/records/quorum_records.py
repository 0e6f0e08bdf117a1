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

import struct
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Final
from uuid import UUID

from kio.static.protocol import Entity

from ...light_dataclass import dataclass
from ..errors import CorruptRecordError
from ..messages.base import Message, message
from ..wire.message_codec import message_reader, message_writer
from ..wire.primitives import MalformedMessageError, Reader, Writer
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


# The same as bytes: kio has the schemas.


@message
class _ListedVoter(Message):
    voter_id: int
    voter_directory_id: UUID | None = None


@message
class _LeaderChangeMessage(Message):
    version: int
    leader_id: int
    voters: tuple[_ListedVoter, ...]
    granting_voters: tuple[_ListedVoter, ...]


@message
class _SnapshotHeaderRecord(Message):
    version: int
    last_contained_log_timestamp: int


@message
class _SnapshotFooterRecord(Message):
    version: int


@message
class _KRaftVersionRecord(Message):
    version: int
    k_raft_version: int


@message
class _Endpoint(Message):
    name: str
    host: str
    port: int


@message
class _KRaftVersionFeature(Message):
    min_supported_version: int
    max_supported_version: int


@message
class _Voter(Message):
    voter_id: int
    voter_directory_id: UUID | None
    endpoints: tuple[_Endpoint, ...]
    k_raft_version_feature: _KRaftVersionFeature


@message
class _VotersRecord(Message):
    version: int
    voters: tuple[_Voter, ...]


_Written = _LeaderChangeMessage | _SnapshotHeaderRecord | _SnapshotFooterRecord | _KRaftVersionRecord | _VotersRecord

_SCHEMAS: Final[Mapping[ControlType, tuple[str, type[_Written]]]] = {
    ControlType.LEADER_CHANGE: ("leader_change_message", _LeaderChangeMessage),
    ControlType.SNAPSHOT_HEADER: ("snapshot_header_record", _SnapshotHeaderRecord),
    ControlType.SNAPSHOT_FOOTER: ("snapshot_footer_record", _SnapshotFooterRecord),
    ControlType.KRAFT_VERSION: ("k_raft_version_record", _KRaftVersionRecord),
    ControlType.KRAFT_VOTERS: ("voters_record", _VotersRecord),
}
"""kio's module, and the class; kio's has the same name without the underscore."""
_NEWEST_VERSIONS: Final = {ControlType.LEADER_CHANGE: 1}
"""The newest versions that can be read, where that is not 0."""


@cache
def _schema(kind: ControlType, version: int) -> type[Entity]:
    module, cls = _SCHEMAS[kind]
    loaded: type[Entity] = getattr(import_module(f"kio.schema.{module}.v{version}.data"), cls.__name__.lstrip("_"))
    return loaded


def parse_quorum_record(record: Record) -> QuorumRecord | None:
    """Return what a record of a control batch says; None for a type that is not the quorum's. CorruptRecordError."""
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
        read = message_reader(_SCHEMAS[kind][1], _schema(kind, known))
        return _value_of(read(Reader(memoryview(value), 0, flexible=True)))
    except MalformedMessageError as error:
        raise CorruptRecordError(f"control record {kind.name} at offset {record.offset}: {error}") from error


def _value_of(written: _Written) -> QuorumRecord:
    match written:
        case _LeaderChangeMessage():
            return LeaderChange(written.leader_id, _ids(written.voters), _ids(written.granting_voters))
        case _SnapshotHeaderRecord():
            return SnapshotHeader(written.last_contained_log_timestamp)
        case _SnapshotFooterRecord():
            return SnapshotFooter()
        case _KRaftVersionRecord():
            return KRaftVersion(written.k_raft_version)
        case _VotersRecord():
            return Voters(tuple(_voter(voter) for voter in written.voters))


def _ids(voters: Sequence[_ListedVoter]) -> tuple[int, ...]:
    return tuple(voter.voter_id for voter in voters)


def _listed(voter_ids: Sequence[int]) -> tuple[_ListedVoter, ...]:
    return tuple(_ListedVoter(voter_id=voter_id) for voter_id in voter_ids)


def _voter(voter: _Voter) -> Voter:
    return Voter(
        voter_id=voter.voter_id,
        directory_id=voter.voter_directory_id,
        endpoints=tuple(VoterEndpoint(item.name, item.host, item.port) for item in voter.endpoints),
        min_kraft_version=voter.k_raft_version_feature.min_supported_version,
        max_kraft_version=voter.k_raft_version_feature.max_supported_version,
    )


def quorum_record(value: QuorumRecord, *, offset: int, timestamp_ms: int) -> Record:
    """Return the record of a control batch that says it."""
    kind, written = _written(value)
    write = message_writer(type(written), _schema(kind, WRITTEN_VERSION))
    writer = Writer(flexible=True)
    write(writer, written)
    data = b"".join(bytes(part) for part in writer.finish())  # type: ignore[arg-type]  # no slices of files here
    return Record(offset=offset, timestamp=timestamp_ms, key=control_key(kind), value=data)


def build_quorum_batch(
    values: Sequence[QuorumRecord], *, base_offset: int, timestamp_ms: int, partition_leader_epoch: int
) -> bytes:
    """Return one control batch of these records."""
    records = [
        quorum_record(value, offset=base_offset + number, timestamp_ms=timestamp_ms)
        for number, value in enumerate(values)
    ]
    return build_batch(records, base_offset=base_offset, partition_leader_epoch=partition_leader_epoch, is_control=True)


def _written(value: QuorumRecord) -> tuple[ControlType, _Written]:
    version = WRITTEN_VERSION
    match value:
        case LeaderChange(leader_id, voters, granting):
            return ControlType.LEADER_CHANGE, _LeaderChangeMessage(
                version=version, leader_id=leader_id, voters=_listed(voters), granting_voters=_listed(granting)
            )
        case SnapshotHeader(timestamp_ms):
            return ControlType.SNAPSHOT_HEADER, _SnapshotHeaderRecord(
                version=version, last_contained_log_timestamp=timestamp_ms
            )
        case SnapshotFooter():
            return ControlType.SNAPSHOT_FOOTER, _SnapshotFooterRecord(version=version)
        case KRaftVersion(level):
            return ControlType.KRAFT_VERSION, _KRaftVersionRecord(version=version, k_raft_version=level)
        case Voters(all_voters):
            return ControlType.KRAFT_VOTERS, _VotersRecord(
                version=version, voters=tuple(_written_voter(voter) for voter in all_voters)
            )


def _written_voter(voter: Voter) -> _Voter:
    return _Voter(
        voter_id=voter.voter_id,
        voter_directory_id=voter.directory_id,
        endpoints=tuple(_Endpoint(name=item.name, host=item.host, port=item.port) for item in voter.endpoints),
        k_raft_version_feature=_KRaftVersionFeature(
            min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
        ),
    )

"""The small text files of a log directory, as Kafka writes them: values to bytes and back, byte for byte.

| file                                                                      | content                           |
|---------------------------------------------------------------------------|-----------------------------------|
| `leader-epoch-checkpoint`, and the same of each segment in the tier       | table of `epoch start-offset`     |
| `{replication-,recovery-point-,log-start-}offset-checkpoint` of a log dir,| table of `topic partition offset` |
| `cleaner-offset-checkpoint`                                               |                                   |
| `partition.metadata`                                                      | `version: 0`, `topic_id: ...`     |
| `meta.properties`                                                         | Java properties, version 1        |
| `.kafka_cleanshutdown`                                                    | JSON: version 0, broker epoch     |

A table is a line with version 0, a line with the number of rows, and the rows; each line ends with a line feed. A file
without a byte is a table without rows: Kafka makes `leader-epoch-checkpoint` before it has an epoch to put there.

Every decoder raises CorruptFileError with the name, the line, what was expected and what was found; `name` is the
file's kind unless the caller puts a path there. Knows no file: atomic replacement is `Disk.write_file`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final
from uuid import UUID

import javaproperties

from ...light_dataclass import dataclass
from ...protocol import TopicPartition, check_topic_name, uuid_from_text, uuid_to_text
from ...protocol.wire import Steps, run_to_end
from .epochs import EpochEntry
from .errors import CorruptFileError

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
REPLICATION_OFFSET_CHECKPOINT: Final = "replication-offset-checkpoint"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

META_PROPERTIES_VERSION: Final = 1
_TABLE_VERSION: Final = 0
_PARTITION_METADATA_VERSION: Final = 0
_CLEAN_SHUTDOWN_VERSION: Final = 0
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_FOUND_CHARACTERS_MAX: Final = 60
SLICE_ROWS: Final = 1_000
"""The number of rows that are encoded in one go: a millisecond."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Whose log directory this is. `directory_id` is None where an older Kafka formatted it (before KIP-858)."""

    cluster_id: str
    node_id: int
    directory_id: UUID | None


def encode_leader_epochs(entries: Iterable[EpochEntry]) -> bytes:
    return _encode_table([f"{entry.epoch} {entry.start_offset}" for entry in entries])


def decode_leader_epochs(data: bytes, *, name: str = LEADER_EPOCH_CHECKPOINT) -> tuple[EpochEntry, ...]:
    """In the order of the file; `LeaderEpochCache` resolves conflicts, as Kafka does."""
    entries = []
    for line, fields in _decode_table(data, name, "<epoch> <start offset>", 2):
        epoch = _integer(fields[0], _INT32_MAX, name, line, "an epoch")
        entries.append(EpochEntry(epoch, _integer(fields[1], _INT64_MAX, name, line, "a start offset")))
    return tuple(entries)


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """In the order of the mapping."""
    return run_to_end(encode_offsets_stepwise(offsets))


def encode_offsets_stepwise(offsets: Mapping[TopicPartition, int]) -> Steps[bytes]:
    """Return the content of the file as the generator's value; each step encodes `SLICE_ROWS`."""
    parts = [_encode_table([], count=len(offsets))]
    rows = iter(offsets.items())
    while some := list(islice(rows, SLICE_ROWS)):
        if len(parts) > 1:
            yield
        parts.append("".join([f"{tp.topic} {tp.partition} {offset}\n" for tp, offset in some]).encode())
    return b"".join(parts)


def decode_offsets(data: bytes, *, name: str = "offset checkpoint") -> dict[TopicPartition, int]:
    """In the order of the file."""
    offsets: dict[TopicPartition, int] = {}
    checked = set[str]()
    for line, (topic, partition_text, offset_text) in _decode_table(data, name, "<topic> <partition> <offset>", 3):
        if topic not in checked:
            try:
                check_topic_name(topic)
            except ValueError as error:
                raise CorruptFileError(f"{name} line {line}: {error}") from error
            checked.add(topic)
        tp = TopicPartition(topic, _integer(partition_text, _INT32_MAX, name, line, "a partition"))
        if tp in offsets:
            raise CorruptFileError(f"{name} line {line}: partition {tp} is listed twice")
        offsets[tp] = _integer(offset_text, _INT64_MAX, name, line, "an offset")
    return offsets


def encode_partition_metadata(topic_id: UUID) -> bytes:
    return f"version: {_PARTITION_METADATA_VERSION}\ntopic_id: {uuid_to_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes, *, name: str = PARTITION_METADATA) -> UUID:
    """The topic id."""
    lines = _text(data, name).split("\n")
    version = f"version: {_PARTITION_METADATA_VERSION}"
    if lines[0] != version:
        raise _unexpected(name, 1, f"'{version}'", lines[0])
    if len(lines) < 2 or not lines[1].startswith("topic_id: "):
        raise _unexpected(name, 2, "'topic_id: <22 characters>'", lines[1] if len(lines) > 1 else None)
    if any(lines[2:]):
        raise _unexpected(name, 3, "the end of the file", lines[2])
    try:
        return uuid_from_text(lines[1].removeprefix("topic_id: "))
    except ValueError as error:
        raise CorruptFileError(f"{name} line 2: {error}") from error


def encode_meta_properties(properties: MetaProperties, *, written_at: datetime) -> bytes:
    """`written_at` becomes the comment that Java's properties begin with; it must know its time zone."""
    assert written_at.tzinfo is not None, written_at
    values = {"node.id": str(properties.node_id)}
    if properties.directory_id is not None:
        values["directory.id"] = uuid_to_text(properties.directory_id)
    values |= {"version": str(META_PROPERTIES_VERSION), "cluster.id": properties.cluster_id}
    text = javaproperties.dumps(values, comments="", timestamp=written_at.astimezone(UTC))
    return text.encode("latin-1")


def decode_meta_properties(data: bytes, *, name: str = META_PROPERTIES) -> MetaProperties:
    """Keys that Kafka may add later are ignored; an older version of the file is refused."""
    try:
        values = javaproperties.loads(data.decode("latin-1"))
    except javaproperties.InvalidUEscapeError as error:
        raise CorruptFileError(f"{name}: {error}") from error
    version = values.get("version")
    if version != str(META_PROPERTIES_VERSION):
        raise CorruptFileError(f"{name}: expected version={META_PROPERTIES_VERSION}, found {version!r}")
    missing = [key for key in ("cluster.id", "node.id") if not values.get(key)]
    if missing:
        raise CorruptFileError(f"{name}: {' and '.join(missing)} must be set: format the log directory again")
    if not _is_decimal(values["node.id"], _INT32_MAX):
        raise CorruptFileError(f"{name}: node.id must be an integer >= 0, found {values['node.id']!r}")
    directory_id = values.get("directory.id")
    try:
        return MetaProperties(
            cluster_id=values["cluster.id"],
            node_id=int(values["node.id"]),
            directory_id=uuid_from_text(directory_id) if directory_id else None,
        )
    except ValueError as error:
        raise CorruptFileError(f"{name}: directory.id {error}") from error


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    document = {"version": _CLEAN_SHUTDOWN_VERSION, "brokerEpoch": broker_epoch}
    return json.dumps(document, separators=(",", ":")).encode()


def decode_clean_shutdown(data: bytes, *, name: str = CLEAN_SHUTDOWN) -> int:
    """The broker epoch; -1 where an older Kafka left an empty file: that the file is there is what counts."""
    if not data:
        return -1
    try:
        document = json.loads(data)
    except ValueError as error:
        raise CorruptFileError(f"{name}: expected JSON: {error}") from error
    epoch = document.get("brokerEpoch") if isinstance(document, dict) else None
    if type(epoch) is not int or document.get("version") != _CLEAN_SHUTDOWN_VERSION:
        raise _unexpected(name, 1, f'{{"version":{_CLEAN_SHUTDOWN_VERSION},"brokerEpoch":<integer>}}', repr(document))
    return epoch


def _encode_table(rows: Sequence[str], count: int | None = None) -> bytes:
    """Encode a table, or its head only where `count` rows follow."""
    return "".join(f"{line}\n" for line in (_TABLE_VERSION, len(rows) if count is None else count, *rows)).encode()


def _decode_table(data: bytes, name: str, row: str, columns: int) -> list[tuple[int, list[str]]]:
    """(line number, fields) of each row, checked against the count in the header."""
    if not data:
        return []
    lines = _text(data, name).split("\n")
    if lines[-1] == "":
        lines.pop()
    if lines[0] != str(_TABLE_VERSION):
        raise _unexpected(name, 1, f"version {_TABLE_VERSION}", lines[0])
    count = _integer(lines[1] if len(lines) > 1 else None, _INT32_MAX, name, 2, "the number of rows")
    rows = lines[2:]
    if len(rows) != count:
        raise CorruptFileError(f"{name} line 2: {count} rows expected, {len(rows)} follow")
    table = []
    for line, text in enumerate(rows, start=3):
        fields = text.split()
        if len(fields) != columns:
            raise _unexpected(name, line, f"'{row}'", text)
        table.append((line, fields))
    return table


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError(
            f"{name}: expected text, found byte {data[error.start]:#04x} at {error.start}"
        ) from error


def _is_decimal(text: str, maximum: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= len(str(maximum)) and int(text) <= maximum


def _integer(text: str | None, maximum: int, name: str, line: int, description: str) -> int:
    if text is None or not _is_decimal(text, maximum):
        raise _unexpected(name, line, f"{description} (0..{maximum})", text)
    return int(text)


def _unexpected(name: str, line: int, expected: str, found: str | None) -> CorruptFileError:
    shown = "the end of the file" if found is None else repr(found[:_FOUND_CHARACTERS_MAX])
    return CorruptFileError(f"{name} line {line}: expected {expected}, found {shown}")

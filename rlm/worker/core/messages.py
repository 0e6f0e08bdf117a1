"""What a broker and its worker say to each other, over a socket of their own.

    frame = size of the header, size of the body (uint32 each), header (JSON), body

| from the broker | says                                                     | body                       |
|-----------------|----------------------------------------------------------|----------------------------|
| Open            | which plugin, and its options; the first message         | -                          |
| Copy            | call, the log's path and size, the kinds of its indexes  | metadata, then the indexes |
| Delete          | call                                                     | metadata                   |
| Cancel          | call                                                     | -                          |

| from the worker | says                                                     | body                       |
|-----------------|----------------------------------------------------------|----------------------------|
| Opened          | that the plugin is built                                 | -                          |
| Done            | call                                                     | custom metadata            |
| Failed          | call (`OPEN_CALL` for Open), and what the error says     | -                          |
| LogLine         | a line for the broker's log                              | -                          |

Each call ends with one Done or Failed, cancelled ones too. Secrets are in `Open` alone. Metadata has the form of the
remote log metadata topic.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Final

from ....light_dataclass import dataclass
from ....remote.core import RemoteLogSegmentMetadata, decode_event, encode_event

SIZES: Final = struct.Struct(">II")
HEADER_BYTES_MAX: Final = 1 << 20
BODY_BYTES_MAX: Final = 64 << 20
"""A segment whose indexes are larger is copied by the broker itself."""
OPEN_CALL: Final = 0


class MalformedFrameError(ValueError):
    """The other end says what this end does not understand."""


@dataclass(frozen=True, slots=True)
class Open:
    """Build the plugin of this name. `key_prefix` is what error messages put before a key."""

    plugin: str
    options: Mapping[str, str]
    key_prefix: str

    def __repr__(self) -> str:
        return f"Open({self.plugin!r})"


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy a segment. `indexes` has contents by `IndexType.value`; `is_checked` asks to check every batch."""

    call: int
    metadata: RemoteLogSegmentMetadata
    path: str
    size: int
    indexes: Mapping[str, bytes]
    is_checked: bool


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a segment."""

    call: int
    metadata: RemoteLogSegmentMetadata


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a call, whose end is still reported."""

    call: int


@dataclass(frozen=True, slots=True)
class Opened:
    """The plugin is built."""


@dataclass(frozen=True, slots=True)
class Done:
    """The call has succeeded. `custom_metadata` is what a copy returned."""

    call: int
    custom_metadata: bytes | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The call has failed, with an error of this kind. `errno` and `filename` are those of an OSError."""

    call: int
    kind: str
    message: str
    errno: int | None = None
    filename: str | None = None


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the worker's log."""

    logger: str
    level: int
    message: str


Message = Open | Copy | Delete | Cancel | Opened | Done | Failed | LogLine


def encode(message: Message) -> bytes:
    """Return the frame of a message."""
    header, body = _parts(message)
    text = json.dumps(header).encode()
    return b"".join((SIZES.pack(len(text), len(body)), text, body))


def _parts(message: Message) -> tuple[dict[str, object], bytes]:
    match message:
        case Open(plugin, options, key_prefix):
            return {"open": plugin, "options": dict(options), "prefix": key_prefix}, b""
        case Copy(call, metadata, path, size, indexes, is_checked):
            event = encode_event(metadata)
            header: dict[str, object] = {"copy": call, "path": path, "size": size, "checked": is_checked}
            header |= {"event": len(event), "indexes": [[kind, len(data)] for kind, data in indexes.items()]}
            return header, b"".join((event, *indexes.values()))
        case Delete(call, metadata):
            return {"delete": call}, encode_event(metadata)
        case Cancel(call):
            return {"cancel": call}, b""
        case Opened():
            return {"opened": True}, b""
        case Done(call, custom_metadata):
            return {"done": call, "custom": custom_metadata is not None}, custom_metadata or b""
        case Failed(call, kind, text, errno, filename):
            return {"failed": call, "kind": kind, "message": text, "errno": errno, "file": filename}, b""
        case LogLine(logger, level, text):
            return {"log": logger, "level": level, "message": text}, b""


def sizes(prefix: bytes) -> tuple[int, int]:
    """Return the sizes of a frame's header and body. MalformedFrameError."""
    header, body = SIZES.unpack(prefix)
    if header > HEADER_BYTES_MAX or body > BODY_BYTES_MAX:
        raise MalformedFrameError(f"a frame of {header} and {body} bytes")
    return header, body


def decode(header: bytes, body: bytes) -> Message:
    """Return the message. MalformedFrameError."""
    try:
        return _message(json.loads(header), body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedFrameError(f"a frame that makes no sense: {type(error).__name__}: {error}") from error


def _message(fields: dict[str, object], body: bytes) -> Message:
    match fields:
        case {"open": str(plugin), "options": dict(options), "prefix": str(prefix)}:
            return Open(plugin, options, prefix)
        case {"copy": int(call), "path": str(path), "size": int(size), "checked": bool(is_checked), "event": int(end)}:
            return Copy(call, _metadata(body[:end]), path, size, _indexes(fields["indexes"], body, end), is_checked)
        case {"delete": int(call)}:
            return Delete(call, _metadata(body))
        case {"cancel": int(call)}:
            return Cancel(call)
        case {"opened": True}:
            return Opened()
        case {"done": int(call), "custom": bool(has_custom)}:
            return Done(call, body if has_custom else None)
        case {"failed": int(call), "kind": str(kind), "message": str(text), "errno": errno, "file": filename}:
            return Failed(call, kind, text, _integer(errno), _text(filename))
        case {"log": str(logger), "level": int(level), "message": str(text)}:
            return LogLine(logger, level, text)
    raise ValueError("no such message")


def _metadata(value: bytes) -> RemoteLogSegmentMetadata:
    event = decode_event(value)
    if not isinstance(event, RemoteLogSegmentMetadata):
        raise ValueError("it is not about a segment")
    return event


def _indexes(listed: object, body: bytes, position: int) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    if not isinstance(listed, list):
        raise TypeError("no list of indexes")
    for kind, size in listed:
        found[str(kind)] = body[position : position + size]
        position += size
    if position != len(body):
        raise ValueError(f"{len(body)} bytes where {position} are listed")
    return found


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None

"""Frames <-> requests and responses: the header, then a body in the codec of its API.

| API | request and response are | codec |
|---|---|---|
| Produce | `ProduceRequest`, `ProduceResponse` of `wire.produce` | by hand: record bytes are not copied |
| Fetch | `FetchRequest`, `FetchResponse` of `fetch.messages` | by hand: record bytes are not copied |
| those of `TYPED` | their class in `messages`, in its newest form (`messages.versions`) | by schema |
| all others | kio's entity of the version; to send, plain values do too (`wire.entities`) | by schema |

Headers (KIP-482): request v1 = key, version, correlation id, client id; v2 adds tagged fields. Response v0 =
correlation id; v1 adds tagged fields. The client id is an int16-length string in both.

Faults of the bytes: `MalformedMessageError`, or `UnsupportedVersionError` for a request that we cannot know. Bytes
behind a request's body are ignored, as Kafka does. A body that cannot be written is a bug of ours: TypeError or
struct.error.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

from kio.serial import entity_writer

from .api import ApiKey
from .errors import PeerError
from .fetch import messages as fetch_messages
from .fetch import wire as fetch_wire
from .messages.registry import request_class, response_class
from .messages.versions import lowered, upgraded
from .values import value
from .wire import produce as produce_wire
from .wire.entities import build_entity, read_entity
from .wire.framing import SIZE_BYTES
from .wire.message_codec import message_reader, message_writer
from .wire.primitives import INT32, MalformedMessageError, Part, Reader, ShortMessageError, Writer

_HEADER = struct.Struct(">hhih")
"""The request header with the length of the client id, which is the same in both versions."""
_CORRELATION_ID_AT: Final = SIZE_BYTES + 4
REQUEST_STARTS_MAX: Final = 1024
"""What is kept of them: an entry for each API, version and client id."""
_SIZE_AND_CORRELATION_ID = struct.Struct(">ii")
_APIS: Final[Mapping[int, ApiKey]] = {int(key): key for key in ApiKey}


class UnsupportedVersionError(PeerError):
    """A request whose API or version is not offered. With `correlation_id` ApiVersions is answered all the same."""

    def __init__(self, api_key: int, correlation_id: int, message: str) -> None:
        super().__init__(message)
        self.api_key = api_key
        self.correlation_id = correlation_id


@value
class RequestHeader:
    """Who asks for what; the answer carries the same correlation id."""

    api: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None


class BodyCodec(Protocol):
    """Reads and writes the bodies of one API; `read_*` raises MalformedMessageError only."""

    def read_request(self, reader: Reader, version: int) -> Any: ...
    def write_request(self, writer: Writer, request: Any, version: int) -> None: ...
    def read_response(self, reader: Reader, version: int) -> Any: ...
    def write_response(self, writer: Writer, response: Any, version: int) -> None: ...


class _EntityCodec:
    """Any API, by its schemas."""

    def __init__(self, api: ApiKey) -> None:
        self._api = api

    def read_request(self, reader: Reader, version: int) -> Any:
        return read_entity(reader, self._api.request_type(version))

    def write_request(self, writer: Writer, request: Any, version: int) -> None:
        _write_entity(writer, self._api.request_type(version), request)

    def read_response(self, reader: Reader, version: int) -> Any:
        return read_entity(reader, self._api.response_type(version))

    def write_response(self, writer: Writer, response: Any, version: int) -> None:
        _write_entity(writer, self._api.response_type(version), response)


class _MessageCodec:
    """Any API whose messages have a class, by its schemas."""

    def __init__(self, api: ApiKey) -> None:
        self._api = api

    def read_request(self, reader: Reader, version: int) -> Any:
        return self._read(reader, request_class(self._api), self._api.request_type(version), version)

    def write_request(self, writer: Writer, request: Any, version: int) -> None:
        self._write(writer, request_class(self._api), self._api.request_type(version), request, version)

    def read_response(self, reader: Reader, version: int) -> Any:
        return self._read(reader, response_class(self._api), self._api.response_type(version), version)

    def write_response(self, writer: Writer, response: Any, version: int) -> None:
        self._write(writer, response_class(self._api), self._api.response_type(version), response, version)

    @staticmethod
    def _read(reader: Reader, cls: type[Any], schema: type[Any], version: int) -> Any:
        return upgraded(message_reader(cls, schema)(reader), version)

    @staticmethod
    def _write(writer: Writer, cls: type[Any], schema: type[Any], message: Any, version: int) -> None:
        if type(message) is not cls:
            raise TypeError(f"a {cls.__name__} is to be written, not {message!r}")
        message_writer(cls, schema)(writer, lowered(message, version))


def _write_entity(writer: Writer, entity_type: type[Any], values: Any) -> None:
    if isinstance(values, Mapping):
        values = build_entity(entity_type, values)
    if not isinstance(values, entity_type):
        raise TypeError(f"{entity_type.__module__}.{entity_type.__name__} is to be written, not {values!r}")
    buffer = io.BytesIO()
    entity_writer(entity_type)(buffer, values)
    writer.out += buffer.getbuffer()


def release_response(body: Any) -> None:
    """Let go of the slices that a response holds, sent or not."""
    if isinstance(body, fetch_messages.FetchResponse):
        fetch_messages.release_records(body)


class _Format(NamedTuple):
    """How one version of an API is written."""

    api: ApiKey
    codec: BodyCodec
    is_flexible: bool
    has_response_tags: bool
    """In the header; those of the request's follow `is_flexible`."""


TYPED: Final[frozenset[ApiKey]] = frozenset(
    {
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_GROUPS,
        ApiKey.DELETE_RECORDS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ELECT_LEADERS,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.FIND_COORDINATOR,
        ApiKey.HEARTBEAT,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.JOIN_GROUP,
        ApiKey.LEAVE_GROUP,
        ApiKey.LIST_GROUPS,
        ApiKey.LIST_OFFSETS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.METADATA,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.SYNC_GROUP,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.VOTE,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
"""APIs whose handlers and callers speak in message classes."""
_CODECS: Final[Mapping[ApiKey, BodyCodec]] = {
    **{api: _EntityCodec(api) for api in ApiKey},
    **{api: _MessageCodec(api) for api in TYPED},
    ApiKey.PRODUCE: produce_wire,
    ApiKey.FETCH: fetch_wire,
}
_FORMATS: Final[Mapping[tuple[int, int], _Format]] = {
    (int(api), version): _Format(api, codec, api.is_flexible(version), api.has_flexible_response_header(version))
    for api, codec in _CODECS.items()
    for version in range(api.min_version, api.max_version + 1)
}
"""The formats by API key and version."""


# Requests.


def read_request_header(frame: memoryview) -> tuple[RequestHeader, Reader]:
    """The header, and the reader that stands at the body. UnsupportedVersionError if the table lacks the request."""
    reader = Reader(frame, 0, flexible=False)
    api_key, version, correlation_id, client_id_size = reader.unpack(_HEADER)
    found = _FORMATS.get((api_key, version))
    if found is None:
        raise _unsupported(api_key, version, correlation_id)
    client_id = reader.nullable_text(client_id_size)
    reader.flexible = found.is_flexible
    reader.tagged_fields()
    return RequestHeader(found.api, version, correlation_id, client_id), reader


def _unsupported(api_key: int, version: int, correlation_id: int) -> UnsupportedVersionError:
    api = _APIS.get(api_key)
    if api is None:
        return UnsupportedVersionError(api_key, correlation_id, f"API key {api_key} is unknown")
    supported = f"{api.min_version} to {api.max_version} are supported"
    return UnsupportedVersionError(api_key, correlation_id, f"{api.name} version {version}, where {supported}")


def read_request_body(header: RequestHeader, reader: Reader) -> Any:
    """The body. Produce's records are views of the frame, writable if it is."""
    return _CODECS[header.api].read_request(reader, header.api_version)


def write_request(header: RequestHeader, body: Any) -> list[Part]:
    """The whole frame, size included."""
    api, version = header.api, header.api_version
    start, flexible = _request_start(api, version, header.client_id)
    writer = Writer(start, flexible=flexible)
    INT32.pack_into(writer.out, _CORRELATION_ID_AT, header.correlation_id)
    _CODECS[api].write_request(writer, body, version)
    return writer.finish_frame()


@lru_cache(REQUEST_STARTS_MAX)
def _request_start(api: ApiKey, version: int, client_id: str | None) -> tuple[bytes, bool]:
    """The header, with room for the size and the correlation id; and whether the body is flexible."""
    assert api.supports(version), (api, version)
    encoded = None if client_id is None else client_id.encode()
    writer = Writer(bytes(SIZE_BYTES), flexible=False)
    writer.pack(_HEADER, api, version, 0, -1 if encoded is None else len(encoded))
    writer.out += encoded or b""
    writer.flexible = api.is_flexible(version)
    writer.end_structure()
    return bytes(writer.out), writer.flexible


# Responses.


def correlation_id_of(frame: memoryview) -> int:
    """Return the correlation id of a response, whose version is known only once its request is found."""
    try:
        correlation_id: int = INT32.unpack_from(frame)[0]
    except struct.error:
        message = f"{INT32.size} bytes are needed for a response, it has {len(frame)}"
        raise ShortMessageError(message, INT32.size) from None
    return correlation_id


def read_response(api: ApiKey, version: int, frame: memoryview) -> Any:
    """The body of a response. Fetch's records are views of the frame."""
    _, codec, is_flexible, has_tags = _FORMATS[api, version]
    reader = Reader(frame, INT32.size, flexible=has_tags)
    reader.tagged_fields()
    reader.flexible = is_flexible
    body = codec.read_response(reader, version)
    if reader.position < reader.end:
        raise MalformedMessageError(f"{reader.remaining} bytes behind a response of {api.name} version {version}")
    return body


def write_response(api: ApiKey, version: int, correlation_id: int, body: Any) -> list[Part]:
    """The whole frame, size included: buffers and slices, to be sent in this order."""
    _, codec, is_flexible, has_tags = _FORMATS[api, version]
    start = _SIZE_AND_CORRELATION_ID.pack(0, correlation_id)
    writer = Writer(start + b"\0" if has_tags else start, flexible=is_flexible)
    codec.write_response(writer, body, version)
    return writer.finish_frame()

"""Frames <-> requests and responses: the header, then a body in the codec of its API.

| API | request and response are | codec |
|---|---|---|
| Produce | `ProduceRequest`, `ProduceResponse` of `wire.produce` | by hand: record bytes are not copied |
| Fetch | `FetchRequest`, `FetchResponse` of `fetch.messages` | by hand: record bytes are not copied |
| all others | their class in `messages`, in its newest form (`messages.versions`) | by schema |

Headers (KIP-482): request v1 = key, version, correlation id, client id; v2 adds tagged fields. Response v0 =
correlation id; v1 adds tagged fields. The client id is an int16-length string in both.

Faults of the bytes: `MalformedMessageError`, or `UnsupportedVersionError` for a request that we cannot know. Bytes
after a request's body are ignored, as Kafka does. A body that cannot be written is an internal error: TypeError or
struct.error.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Generic, NamedTuple, Protocol, TypeVar, cast

from .api import ApiKey
from .errors import PeerError
from .fetch import messages as fetch_messages
from .fetch import wire as fetch_wire
from .messages.base import Message, MessageT, Request, ResponseT
from .messages.registry import MESSAGES, request_class, response_class
from .messages.versions import lowered, upgraded
from .request_elements import ELEMENTS_MAX_OF, REQUEST_ELEMENTS_MAX
from .values import value
from .wire import produce as produce_wire
from .wire.framing import SIZE_BYTES
from .wire.message_codec import message_reader, message_writer
from .wire.primitives import (
    BUFFER_TYPES,
    ELEMENTS_MAX,
    INT32,
    MalformedMessageError,
    Part,
    Reader,
    ShortMessageError,
    Writer,
)
from .wire.stepping import Steps, run_to_end
from .wire.steps import stepping_reader, stepping_writer

RequestT = TypeVar("RequestT", bound=Message)
AnswerT = TypeVar("AnswerT", bound=Message)

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


class BodyCodec(Protocol[RequestT, AnswerT]):
    """Reads and writes the bodies of one API; `read_*` raises MalformedMessageError only."""

    def read_request(self, reader: Reader, version: int) -> RequestT: ...
    def request_steps(self, reader: Reader, version: int) -> Steps[RequestT]: ...
    def response_steps(self, writer: Writer, response: AnswerT, version: int) -> Steps[None]: ...
    def write_request(self, writer: Writer, request: RequestT, version: int) -> None: ...
    def read_response_steps(self, reader: Reader, version: int) -> Steps[AnswerT]: ...


class _ApiCodec(BodyCodec[Message, Message], Protocol):
    """Requests are written in one go, or in steps."""

    def written_request_steps(self, writer: Writer, request: Message, version: int) -> Steps[None]: ...


class _MessageCodec:
    """The codec of an API whose messages have a class, by the schemas of its versions."""

    def __init__(self, api: ApiKey) -> None:
        self._api = api

    def read_request(self, reader: Reader, version: int) -> Message:
        read = message_reader(request_class(self._api), self._api.request_type(version))
        return upgraded(read(reader), version)

    def write_request(self, writer: Writer, request: Message, version: int) -> None:
        cls = request_class(self._api)
        write = message_writer(cls, self._api.request_type(version))
        write(writer, lowered(_checked(cls, request), version))

    def written_request_steps(self, writer: Writer, request: Message, version: int) -> Steps[None]:
        cls = request_class(self._api)
        write = stepping_writer(cls, self._api.request_type(version))
        yield from write(writer, lowered(_checked(cls, request), version))

    def read_response_steps(self, reader: Reader, version: int) -> Steps[Message]:
        read = stepping_reader(response_class(self._api), self._api.response_type(version))
        return upgraded((yield from read(reader)), version)

    def request_steps(self, reader: Reader, version: int) -> Steps[Message]:
        read = stepping_reader(request_class(self._api), self._api.request_type(version))
        return upgraded((yield from read(reader)), version)

    def response_steps(self, writer: Writer, response: Message, version: int) -> Steps[None]:
        cls = response_class(self._api)
        write = stepping_writer(cls, self._api.response_type(version))
        yield from write(writer, lowered(_checked(cls, response), version))


class _RecordsCodec(Generic[RequestT, AnswerT]):
    """The codec of an API whose bodies carry records: it checks the class, and leaves the rest to a codec by hand."""

    def __init__(self, codec: BodyCodec[RequestT, AnswerT], request: type[RequestT], response: type[AnswerT]) -> None:
        self._codec = codec
        self._request = request
        self._response = response
        self.read_request = codec.read_request
        self.request_steps = codec.request_steps
        self.read_response_steps = codec.read_response_steps

    def write_request(self, writer: Writer, request: Message, version: int) -> None:
        self._codec.write_request(writer, _checked(self._request, request), version)

    def written_request_steps(self, writer: Writer, request: Message, version: int) -> Steps[None]:
        self.write_request(writer, request, version)
        yield from ()

    def response_steps(self, writer: Writer, response: Message, version: int) -> Steps[None]:
        return self._codec.response_steps(writer, _checked(self._response, response), version)


def _checked(cls: type[MessageT], message: Message) -> MessageT:
    if not isinstance(message, cls):
        raise TypeError(f"expected a {cls.__name__}, not {message!r}")
    return message


def release_response(body: Message | None) -> None:
    """Let go of the slices that a response holds, sent or not."""
    if isinstance(body, fetch_messages.FetchResponse):
        fetch_messages.release_records(body)
    elif isinstance(body, Message) and body.holds_slices:
        _release_shared(body)


def _release_shared(body: Message) -> None:
    from .messages.share_records import ShareFetchResponse  # when there is one, it is imported already

    assert isinstance(body, ShareFetchResponse), body
    for topic in body.responses:
        for partition in topic.partitions:
            records: Part = partition.records
            if not isinstance(records, BUFFER_TYPES):
                records.release()


class _Format(NamedTuple):
    """How one version of an API is written."""

    api: ApiKey
    codec: BodyCodec[Message, Message]
    is_flexible: bool
    has_response_tags: bool
    """In the header; those of the request's follow `is_flexible`."""


_PRODUCE: Final = _RecordsCodec(produce_wire, produce_wire.ProduceRequest, produce_wire.ProduceResponse)
_FETCH: Final = _RecordsCodec(fetch_wire, fetch_messages.FetchRequest, fetch_messages.FetchResponse)
_CODECS: Final[Mapping[ApiKey, _ApiCodec]] = {
    **{api: _MessageCodec(api) for api in MESSAGES},
    ApiKey.PRODUCE: _PRODUCE,
    ApiKey.FETCH: _FETCH,
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
    reader.elements_max = ELEMENTS_MAX_OF.get(found.api, REQUEST_ELEMENTS_MAX)
    return RequestHeader(found.api, version, correlation_id, client_id), reader


def _unsupported(api_key: int, version: int, correlation_id: int) -> UnsupportedVersionError:
    api = _APIS.get(api_key)
    if api is None:
        return UnsupportedVersionError(api_key, correlation_id, f"API key {api_key} is unknown")
    supported = f"{api.min_version} to {api.max_version} are supported"
    return UnsupportedVersionError(api_key, correlation_id, f"{api.name} version {version}, where {supported}")


def read_request_body(header: RequestHeader, reader: Reader) -> Message:
    """Return the body. Produce's records are views of the frame, writable if it is."""
    return _CODECS[header.api].read_request(reader, header.api_version)


def request_body_steps(header: RequestHeader, reader: Reader) -> Steps[Message]:
    """Read the body as `read_request_body` does, in steps."""
    return _CODECS[header.api].request_steps(reader, header.api_version)


def write_request(header: RequestHeader, body: Message) -> list[Part]:
    """The whole frame, size included."""
    writer = _request_writer(header)
    _CODECS[header.api].write_request(writer, body, header.api_version)
    return writer.finish_frame()


def request_steps(header: RequestHeader, body: Message) -> Steps[list[Part]]:
    """Write the frame that `write_request` returns, in steps; those of APIs that carry records in one."""
    writer = _request_writer(header)
    yield from _CODECS[header.api].written_request_steps(writer, body, header.api_version)
    return writer.finish_frame()


def _request_writer(header: RequestHeader) -> Writer:
    start, flexible = _request_start(header.api, header.api_version, header.client_id)
    writer = Writer(start, flexible=flexible)
    INT32.pack_into(writer.out, _CORRELATION_ID_AT, header.correlation_id)
    return writer


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


def read_response(api: ApiKey, version: int, frame: memoryview) -> Message:
    """Return the body of a response. Fetch's records are views of the frame."""
    return run_to_end(response_body_steps(api, version, frame))


def response_body_steps(
    api: ApiKey, version: int, frame: memoryview, elements_max: int = ELEMENTS_MAX
) -> Steps[Message]:
    """Read the body as `read_response` does, in steps. Array elements beyond `elements_max` are malformed."""
    _, codec, is_flexible, has_tags = _FORMATS[api, version]
    reader = Reader(frame, INT32.size, flexible=has_tags, elements_max=elements_max)
    reader.tagged_fields()
    reader.flexible = is_flexible
    body = yield from codec.read_response_steps(reader, version)
    if reader.position < reader.end:
        raise MalformedMessageError(f"{reader.remaining} bytes after a response of {api.name} version {version}")
    return body


def read_response_to(request: Request[ResponseT], version: int, frame: memoryview | None) -> ResponseT:
    """Return the response to this request. No frame is no response, as to Produce with acks=0."""
    return run_to_end(steps_of_response_to(request, version, frame))


def steps_of_response_to(
    request: Request[ResponseT], version: int, frame: memoryview | None, elements_max: int = ELEMENTS_MAX
) -> Steps[ResponseT]:
    """Read the response as `read_response_to` does, in steps."""
    if frame is None:
        return cast("ResponseT", None)
    # The codec of an API reads the class that its requests are declared with.
    return cast("ResponseT", (yield from response_body_steps(ApiKey(request.api_key), version, frame, elements_max)))


def write_response(api: ApiKey, version: int, correlation_id: int, body: Message) -> list[Part]:
    """Return the whole frame, size included: buffers and slices, to be sent in this order."""
    return run_to_end(response_steps(api, version, correlation_id, body))


def response_steps(api: ApiKey, version: int, correlation_id: int, body: Message) -> Steps[list[Part]]:
    """Write the frame that `write_response` returns, in steps."""
    _, codec, is_flexible, has_tags = _FORMATS[api, version]
    start = _SIZE_AND_CORRELATION_ID.pack(0, correlation_id)
    writer = Writer(start + b"\0" if has_tags else start, flexible=is_flexible)
    yield from codec.response_steps(writer, body, version)
    return writer.finish_frame()

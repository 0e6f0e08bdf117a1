"""One accepted connection: frames in, handlers started in order, responses out in the same order.

    bytes -> FrameAssembler -> request, in the deque `_requests` -> its task: handler -> (its turn) -> transport

| reading | why | continues when |
|---|---|---|
| on | | |
| paused | `in_flight_max` requests are under way | a response has left |
| paused | the next request's memory is not to be had | the server gives it |
| paused | its client is above a quota: the connection is muted | the time is over |
| thrown away | closing; what is left unread would make the kernel reset the connection, last response and all | never |

Rules:
* The task whose answer is next sends it, and those after it that are ready; one task at a time, so that nothing gets
  between the bytes of a slice that is being sent.
* A request that cannot be understood closes the connection with a log line that names the peer: what follows it cannot
  be trusted. ApiVersions in an unknown version is the exception (KIP-511): version 0, error UNSUPPORTED_VERSION.
* A handler outlives its connection (see `dispatch`); its answer is dropped then. Slices are released and memory is
  given back when a response has left or is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from functools import partial
from typing import Final, Protocol

from ...light_dataclass import dataclass
from ...limited_log import LimitedLog
from ..api import ApiKey
from ..codec import (
    RequestHeader,
    UnsupportedVersionError,
    read_request_header,
    release_response,
    response_steps,
)
from ..errors import OUTSIDE, ErrorCode, PeerError
from ..messages.base import Message
from ..messages.cluster import ApiVersionsResponse
from ..wire.primitives import BUFFER_TYPES, MalformedMessageError, Part, Reader
from ..wire.stepping import Steps
from .arrival import PRESSED, Arrival, Charge, RequestMemories
from .dispatch import CANCELLED_WITH_CONNECTION, Handler, RequestContext, api_versions_response
from .gates import Gate, OpenGate, RefusedRequestError, done
from .pacing import exhausted
from .server_limits import ServerLimits
from .slicing import SLICED_ELEMENTS_MIN, ConnectionClosedError, answered, only_asks
from .stream import StreamProtocol

log = LimitedLog(logging.getLogger(__name__))

CONNECTION_SHARE: Final = 4
"""One connection holds this part of all memory at most, and one request more."""


@dataclass(eq=False, slots=True)
class _Request:
    """A request under way, and what its handler has made of it once that `is_answered`."""

    api: ApiKey
    api_version: int
    correlation_id: int
    memory: Charge
    is_answered: bool = False
    response: Message | None = None
    error: BaseException | None = None
    task: asyncio.Task[None] | None = None


class Listener(Protocol):
    """What a connection needs of the listener that made it."""

    limits: ServerLimits
    memory: RequestMemories
    listener_name: str
    handlers: dict[int, Handler]
    connections: dict[ServerConnection, None]
    is_closing: bool

    def next_connection_id(self) -> int: ...

    def admit(self, address: str) -> str | None:
        """Count a new connection, and return None; or return why it is refused."""

    def gate_of(self, transport: asyncio.Transport) -> Gate:
        """Return the gate of a new connection. RefusedRequestError if it may send nothing."""

    def connection_ended(self, connection: ServerConnection) -> None:
        """The transport is closed and nothing is being sent any longer."""

    def adopt(self, handler: asyncio.Future[None]) -> None:
        """Watch over a handler that outlives its connection."""


class ServerConnection(StreamProtocol):
    """Made by the listener for each accepted connection."""

    def __init__(self, server: Listener, loop: asyncio.AbstractEventLoop, *, is_admitted: bool = False) -> None:
        """`is_admitted`: the listener has counted it already, before its TLS handshake."""
        super().__init__(loop, server.limits.request_size_max)
        self._server = server
        self._is_admitted = is_admitted
        self.id = server.next_connection_id()
        self._requests: deque[_Request] = deque()
        self._sender: asyncio.Task[None] | None = None
        """The request's task that is sending."""
        self._arrival = Arrival(server.memory, server.limits, self._read_requests)
        self._large: _Request | None = None
        """A large request is alone: nothing that follows it begins before it is answered."""
        self._held_bytes = 0
        """The memory of the requests under way."""
        self._muted: asyncio.TimerHandle | None = None
        """Ends the time in which nothing is read."""
        self._is_reading_paused = False
        self._is_closing = False
        self._has_ended = False
        self._receive_deadline_s: float | None = None
        self._send_deadline_s: float | None = None
        self._taken: tuple[float, int] | None = None
        """When it was judged last how much of a response had left, and how much that was."""
        self._last_activity_s = loop.time()
        self._gate: Gate = OpenGate(server.handlers)

    @property
    def address(self) -> str:
        """The host of the peer."""
        return self._arrival.address

    # From the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        server = self._server
        self._arrival.address = self.host
        refusal = None if self._is_admitted else server.admit(self._arrival.address)
        if refusal is not None:
            log.warning(self.host, "%s: %s refused: %s", server.listener_name, self.peer, refusal)
            self.transport.abort()
            return
        server.connections[self] = None
        try:
            self._gate = server.gate_of(self.transport)
        except RefusedRequestError as error:
            self._refuse(str(error))
            return
        if self._socket is not None and server.limits.send_buffer_size is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, server.limits.send_buffer_size)

    def bytes_received(self) -> None:
        if self._is_closing:
            self.frames.clear()
            return
        self._last_activity_s = self.loop.time()
        self._read_requests()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._sender is not None:
            self._sender.cancel()
        elif self in self._server.connections:
            self._end()

    # From handlers.

    def mute(self, duration_s: float) -> None:
        """Read nothing for so long, or for longer if that was said before. What is read already is handled."""
        until_s = self.loop.time() + duration_s
        if self._has_ended or (self._muted is not None and self._muted.when() >= until_s):
            return
        if self._muted is not None:
            self._muted.cancel()
        self._muted = self.loop.call_at(until_s, self.unmute)

    @property
    def is_muted(self) -> bool:
        return self._muted is not None

    def unmute(self) -> None:
        """Read on."""
        if self._muted is not None:
            self._muted.cancel()
        self._muted = None
        self._arrival.resume()
        self._read_requests()

    # From the server.

    def begin_close(self) -> None:
        """Answer what is under way, start nothing more, then close."""
        self._is_closing = True
        self._receive_deadline_s = None
        self.transport.resume_reading()
        self._close_when_answered()

    def abort(self) -> None:
        """Cut off the connection and everything that is under way on it."""
        for request in self._requests:
            if request.task is not None:
                request.task.cancel()
        self.transport.abort()

    def expire(self, now_s: float) -> None:
        """Close the connection if its time is up."""
        limits = self._server.limits
        if self._receive_deadline_s is not None and now_s >= self._receive_deadline_s:
            self._refuse(f"a request did not arrive within {limits.receive_timeout_s:g} s of its first byte")
        elif self._send_deadline_s is not None and now_s >= self._send_deadline_s:
            self._refuse(f"a response did not leave within {limits.send_timeout_s:g} s")
        elif self._muted is None and self.frames.is_partial and self._arrival.stalled(self.pending_bytes(), now_s):
            self._refuse(
                f"less than {limits.progress_bytes_min} bytes of a large request came in {limits.progress_window_s:g} s"
                " (while other connections wait for memory: in proportion)"
            )
        elif self._is_response_stalled(now_s):
            self._refuse(
                f"less than {limits.progress_bytes_min // PRESSED} bytes of a response left in "
                f"{limits.progress_window_s / PRESSED:g} s, while other requests wait for the memory that it has"
            )
        elif (deadline_s := self._gate.deadline_s) is not None and now_s >= deadline_s:
            self._refuse("it did not authenticate in time")
        elif not self._requests and now_s >= self._last_activity_s + limits.idle_timeout_s:
            name = self._server.listener_name
            log.info(self.host, "%s: %s closed, idle for %g s", name, self.peer, limits.idle_timeout_s)
            self.transport.abort()

    def _is_response_stalled(self, now_s: float) -> bool:
        """Whether the client takes too little of a response whose memory others wait for."""
        is_full = self._send_deadline_s is not None and not self._writable.is_set()
        if not (is_full and self._requests and self._requests[0].memory.is_pressed):
            self._taken = None
            return False
        limits, taken = self._server.limits, self.handed_bytes - self.transport.get_write_buffer_size()
        if self._taken is None:
            self._taken = now_s, taken
            return False
        began_s, before = self._taken
        if now_s < began_s + limits.progress_window_s / PRESSED:
            return False
        self._taken = now_s, taken
        return taken - before < limits.progress_bytes_min // PRESSED

    # Reading.

    def _read_requests(self) -> None:
        """Start a handler for each whole request, as far as the limits allow; then read on or pause."""
        if self._is_closing or self.transport.is_closing() or self._is_abandoned():
            return
        frames = self.frames
        try:
            while frames.is_partial and not self._is_full():
                self._check_size()
                arrived = self._arrival.next_frame(frames, self.loop.time())
                if arrived is None:
                    break
                self._receive_deadline_s = None
                self._start(*arrived)
                if self._gate.refusal is not None:
                    self._end_refused(self._gate.refusal)
                    return
        except (MalformedMessageError, UnsupportedVersionError, RefusedRequestError) as error:
            self._refuse(str(error))
            return
        if self._is_full():
            self._receive_deadline_s = None
            self._is_reading_paused = True
            self.transport.pause_reading()
            return
        if not frames.is_partial:
            self._receive_deadline_s = None
        elif self._receive_deadline_s is None:
            self._receive_deadline_s = self.loop.time() + self._server.limits.receive_timeout_s
        if self._is_reading_paused:
            self._is_reading_paused = False
            self.transport.resume_reading()

    def _is_abandoned(self) -> bool:
        """Whether the peer went away while reading was paused. The connection is closed then: what it had sent before
        would still be handled.
        """
        if not (self._is_reading_paused and self.is_cut_off()):
            return False
        self.transport.abort()
        return True

    def _is_full(self) -> bool:
        """Whether the next request has to wait, for memory or until a response has left."""
        limits = self._server.limits
        return (
            self._arrival.is_waiting
            or self._muted is not None
            or self._large is not None
            or len(self._requests) >= limits.in_flight_max
            or self._held_bytes >= limits.request_memory_max // CONNECTION_SHARE
        )

    def _check_size(self) -> None:
        """RefusedRequestError if the next request is larger than the gate lets through now."""
        size_max = self._gate.request_size_max
        if size_max is None:
            return
        size = self.frames.next_size()
        if size is not None and size > size_max:
            raise RefusedRequestError(f"a request of {size} bytes before authentication, allowed are {size_max}")

    def _start(self, frame: memoryview, memory: Charge) -> None:
        try:
            self._parse(frame, memory)
        except BaseException:
            memory.give_back()
            raise

    def _parse(self, frame: memoryview, memory: Charge) -> None:
        try:
            header, reader = read_request_header(frame)
        except UnsupportedVersionError as error:
            if error.api_key != ApiKey.API_VERSIONS:
                raise
            context = self._context(RequestHeader(ApiKey.API_VERSIONS, 0, error.correlation_id, None), memory)
            self._begin(context, error.correlation_id, memory, self._offer_versions, None)
            return
        handler, steps = self._gate.admit(header, reader)
        context = self._context(header, memory)
        try:
            next(steps)
        except StopIteration as end:
            if reader.elements < SLICED_ELEMENTS_MIN:
                self._begin(context, header.correlation_id, memory, handler, end.value)
                return
            steps = done(end.value)
        self._large = self._begin(
            context, header.correlation_id, memory, self._in_pieces(handler, reader, memory), steps
        )

    def _begin(
        self,
        context: RequestContext,
        correlation_id: int,
        memory: Charge,
        handler: Handler,
        body: object,
    ) -> _Request:
        request = _Request(context.api, context.api_version, correlation_id, memory)
        self._held_bytes += memory.size
        self._requests.append(request)
        request.task = self.loop.create_task(self._answer(request, handler, context, body))
        return request

    def _in_pieces(self, handler: Handler, reader: Reader, memory: Charge) -> Handler:
        """Return the handler of a large request that is still being read."""

        async def handle(context: RequestContext, steps: Steps[Message]) -> Message | None:
            if only_asks(context.api):
                await memory.make_room(self.host, reader.elements_max)
                if self.is_cut_off():
                    raise ConnectionClosedError(f"{self.peer} has closed its connection")
            try:
                body = await exhausted(steps)
            except MalformedMessageError:
                self.transport.abort()  # at once: what follows it must not begin
                raise
            return await answered(handler, context, body, reader.elements)

        return handle

    async def _answer(self, request: _Request, handler: Handler, context: RequestContext, body: object) -> None:
        """A request's task. An error of its handler is logged when its turn has come."""
        try:
            request.response = await handler(context, body)
        except Exception as error:  # noqa: BLE001 - the supervisor of this request
            request.error = error
        except BaseException as error:
            request.error = error
            if self._is_next(request):
                self.transport.abort()
            raise
        finally:
            request.is_answered = True
            if self._large is request:
                self._large = None
                self.loop.call_soon(self._read_requests)
        if self._is_next(request):
            await self._send_answers()

    def _is_next(self, request: _Request) -> bool:
        """Whether this one's turn to be sent has come."""
        return self._sender is None and bool(self._requests) and self._requests[0] is request

    def _context(self, header: RequestHeader, memory: Charge) -> RequestContext:
        return RequestContext(
            header.api,
            header.api_version,
            header.client_id,
            self.id,
            self.peer,
            self._server.listener_name,
            self._last_activity_s,
            principal=self._gate.principal,
            client_host=self.host,
            security_protocol=self._gate.security_protocol,
            request_bytes=memory.size,
            mute=self.mute,
            hold=memory.hold,
            is_closed=self.is_cut_off,
        )

    async def _offer_versions(self, *_: object) -> ApiVersionsResponse:
        return api_versions_response(self._server.handlers, 0, error_code=ErrorCode.unsupported_version)

    def _end_refused(self, reason: str) -> None:
        """Close the connection once the answer that says so has left."""
        name = self._server.listener_name
        log.warning(self.host, "%s: authentication of %s failed: %s", name, self.peer, reason)
        self.begin_close()

    def _refuse(self, reason: str) -> None:
        name = self._server.listener_name
        log.warning(self.host, "%s: connection of %s is closed: %s", name, self.peer, reason)
        self.transport.abort()

    # Writing.

    async def _send_answers(self) -> None:
        """Send the answers that are next and ready. Supervise the handlers' failures, and this task itself."""
        server = self._server
        self._sender = self._requests[0].task
        try:
            while self._requests and self._requests[0].is_answered:
                request = self._requests[0]
                if request.error is not None:
                    self._log_failure(request, request.error)
                    self._done_with(request)
                    self.transport.abort()
                    return
                self._send_deadline_s = self.loop.time() + server.limits.send_timeout_s
                await self._send(request)
                self._send_deadline_s = None
                self._done_with(request)
                self._last_activity_s = self.loop.time()
                if self._is_reading_paused:
                    self._read_requests()
        except OUTSIDE as error:
            log.info(self.host, "%s: connection of %s ends: %s", server.listener_name, self.peer, error)
            self.transport.abort()
        except Exception as error:
            if self.transport.is_closing():  # asyncio refuses to send a slice then, with a RuntimeError
                log.info(self.host, "%s: connection of %s ends: %s", server.listener_name, self.peer, error)
                return
            name = server.listener_name
            log.error(self.host, "%s: connection of %s is closed: internal error", name, self.peer, exc_info=error)
            self.transport.abort()
        finally:
            self._sender = None
            if self.is_lost:
                self._end()
            elif self._is_closing:
                self._close_when_answered()

    def _done_with(self, request: _Request) -> None:
        assert self._requests[0] is request, (self._requests[0], request)
        self._requests.popleft()
        self._held_bytes -= request.memory.size
        request.memory.give_back()

    def _close_when_answered(self) -> None:
        """Close the connection if that is due and no request is under way any longer."""
        if not self._requests and self._sender is None:
            self.transport.close()

    def _log_failure(self, request: _Request, error: BaseException) -> None:
        """Log the failure of a handler that gave no answer."""
        name = self._server.listener_name
        if isinstance(error, (PeerError, *OUTSIDE)):
            log.warning(self.host, "%s: %s of %s is not answered: %s", name, request.api.name, self.peer, error)
        elif isinstance(error, Exception):
            log.error(self.host, "%s: %s of %s failed", name, request.api.name, self.peer, exc_info=error)

    async def _send(self, request: _Request) -> None:
        if request.response is None:
            return
        try:
            for part in await self._encoded(request, request.response):
                await self.send_part(part)
        finally:
            release_response(request.response)

    async def _encoded(self, request: _Request, response: Message) -> list[Part]:
        parts = list(
            await exhausted(response_steps(request.api, request.api_version, request.correlation_id, response))
        )
        if request.memory.room > 0:
            request.memory.answered(sum([len(part) for part in parts if isinstance(part, BUFFER_TYPES)]))
            request.response = None  # its objects need not live until the client has taken the bytes
        self._taken = None
        return parts

    # The end: the transport is closed and no task sends any longer.

    def _end(self) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        if self._muted is not None:
            self._muted.cancel()
        for request in self._requests:
            assert request.task is not None, request
            if request.is_answered:
                self._drop(request)
                continue
            if request.api in CANCELLED_WITH_CONNECTION:
                request.task.cancel()
            request.task.add_done_callback(partial(self._drop, request))
            self._server.adopt(request.task)
        self._requests.clear()
        self._arrival.abandon()
        self.frames.clear()  # now, not when the garbage collector finds the connection
        self._server.connection_ended(self)

    def _drop(self, request: _Request, _: object = None) -> None:
        request.memory.give_back()
        if request.error is None:
            release_response(request.response)
        else:
            self._log_failure(request, request.error)

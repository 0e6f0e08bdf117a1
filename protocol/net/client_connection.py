"""One connection to a broker: many requests under way at once, responses in their order, a deadline for each.

| what happens | what the caller gets | the connection |
|---|---|---|
| cannot be dialled, is lost, speaks nonsense | `BrokerUnavailableError` | closed; all its requests fail the same way |
| no response in time | `RequestTimedOutError` | closed: responses come in order, so it is stuck |
| no turn to send in time | `RequestTimedOutError` | stays |
| the caller is cancelled | CancelledError | stays; the response is read and dropped |
| no version in common | `KafkaError` UNSUPPORTED_VERSION | stays |
| an error code in the response | the response | stays |
| authentication is refused | `AuthenticationFailedError` | closed |

The first two are ConnectionErrors, and retriable. One timer of the connection watches over the deadlines of all its
requests: they rarely pass, so that it need not be set and taken back with each.

A session that the server limits (KIP-368) is renewed before it ends: requests wait meanwhile, those under way do not.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import deque
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from typing import Final, NamedTuple

from ...light_dataclass import dataclass
from ...security import ClientIdentity, tls_failure
from ...security.core import SaslClientError
from ..api import ApiKey, VersionRange
from ..codec import RequestHeader, correlation_id_of, steps_of_response_to, write_request
from ..errors import OUTSIDE, ErrorCode, KafkaError, OperatorError
from ..fetch.arrival import ArrivedAnswer, ArrivingFetchResponse
from ..fetch.messages import FetchRequest, FetchResponse
from ..messages.base import Message, Request, ResponseT
from ..messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from ..messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from ..wire.primitives import BUFFER_TYPES, ELEMENTS_MAX, INT32, MalformedMessageError, Reader
from ..wire.produce import ACKS_NONE, ProduceRequest
from .dialing import dial
from .pacing import exhausted
from .stream import StreamProtocol
from .turns import Turns

log = logging.getLogger(__name__)

CORRELATION_ID_MASK: Final = 0x7FFF_FFFF
FETCHED_ELEMENTS_FREE: Final = 10_000
FETCHED_ELEMENTS_EACH: Final = 8
RENEWAL_AT: Final = 0.9
"""The part of a session's lifetime after which it is renewed; Java's clients draw one from 0.85 to 0.95."""

_KNOWN_KEYS: Final = frozenset(int(key) for key in ApiKey)


class BrokerUnavailableError(ConnectionError):
    """The broker cannot be reached, or its connection ended before the response; retriable."""


class AuthenticationFailedError(BrokerUnavailableError):
    """The broker refuses what this side presents, or proves nothing itself; retriable, for credentials may change."""


class RequestTimedOutError(ConnectionError):
    """The response did not come in time; retriable. Whether the broker acted on the request is not known."""


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """`HOST:PORT`, an IPv6 host in brackets. ValueError names the text."""
        host, separator, port = text.strip().rpartition(":")
        if not (separator and host and port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError(f"{text!r}: expected HOST:PORT, such as 127.0.0.1:9092")
        return cls(host.strip("[]"), int(port))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """`response_size_max` in bytes, `response_elements_max` in elements of arrays; a request beyond `in_flight_max` on
    one connection waits its turn.
    """

    response_size_max: int = 256 * 1024 * 1024
    response_elements_max: int = ELEMENTS_MAX
    in_flight_max: int = 64
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    backoff_min_s: float = 0.05
    backoff_max_s: float = 1.0


Arriving = Callable[[memoryview, int], None]
"""Called with a response's frame while it is filled, and how many bytes have arrived; at last with all of it."""


@dataclass(slots=True)
class _Pending:
    correlation_id: int
    frame: asyncio.Future[memoryview]
    deadline_s: float
    arriving: Arriving | None = None


def _not_dialled(address: Address, error: OSError) -> str:
    """What an operator can distinguish: no listener, no response, an unknown host name, anything else."""
    if isinstance(error, TimeoutError):
        return f"{address} cannot be reached: no answer in time"
    if isinstance(error, socket.gaierror):
        return f"{address} cannot be reached: the host name cannot be resolved ({error.strerror})"
    text = str(error)  # of a name with several addresses asyncio joins the texts of all errors
    refusals = text.count(f"[Errno {errno.ECONNREFUSED}]")
    if refusals and refusals == text.count("[Errno "):
        return f"{address} cannot be reached: it refuses connections"
    return f"{address} cannot be reached: {text}"


class Connection(StreamProtocol):
    """One connection, made by `connect`. Usable until `is_closed`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client_id: str, limits: ClientLimits) -> None:
        super().__init__(loop, limits.response_size_max, recycles=True)
        self.versions: dict[ApiKey, VersionRange] = {}
        """What the broker offers, of the APIs in our table."""
        self._agreed: dict[tuple[ApiKey, int | None], int] = {}
        """Versions that `version_of` has found."""
        self._client_id = client_id
        self._limits = limits
        self._pending: deque[_Pending] = deque()
        self._turns = Turns(limits.in_flight_max)
        self._correlation_id = 0
        self._watch: asyncio.TimerHandle | None = None
        """It looks not later than the first deadline of those that wait."""
        self._renewal: asyncio.Task[None] | None = None
        """Renews the session, or sleeps until it is time to."""
        self.on_lost: Callable[[], None] | None = None
        """Called when the connection has ended, for whatever reason."""
        self._is_renewed = asyncio.Event()
        self._is_renewed.set()

    @classmethod
    async def connect(
        cls,
        address: Address,
        *,
        client_id: str,
        limits: ClientLimits | None = None,
        identity: ClientIdentity | None = None,
    ) -> Connection:
        """Dial, ask for the broker's versions, authenticate. BrokerUnavailableError names the address."""
        limits = limits or ClientLimits()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(limits.connect_timeout_s):
                context = None if identity is None else identity.tls()
                connection = await dial(lambda: cls(loop, client_id, limits), *address, context)
        except OSError as error:
            raise BrokerUnavailableError(_not_dialled(address, error)) from error
        try:
            await connection._negotiate()
            if identity is not None and identity.protocol.has_sasl:
                await connection._authenticate(identity)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_closed(self) -> bool:
        return self.is_lost or self.transport.is_closing()

    def close(self) -> None:
        """End now; requests under way fail. Idempotent."""
        self._fail("closed by us")

    def version_of(self, api: ApiKey, max_version: int | None = None) -> int:
        """The newest version that both sides speak, at most `max_version`. KafkaError UNSUPPORTED_VERSION if none."""
        agreed = self._agreed.get((api, max_version))
        if agreed is not None:
            return agreed
        ours = api.versions if max_version is None else VersionRange(api.min_version, max_version)
        theirs = self.versions.get(api)
        newest = None if theirs is None else ours.newest_common(theirs)
        if newest is None:
            raise KafkaError(
                ErrorCode.unsupported_version,
                f"{self.peer} offers {api.name} {_text(theirs)}, needed is {_text(ours)}",
            )
        self._agreed[api, max_version] = newest
        return newest

    async def send(
        self, request: Request[ResponseT], *, max_version: int | None = None, timeout_s: float | None = None
    ) -> ResponseT:
        """Send in the newest common version. Return the response in its newest form; None for Produce with acks=0."""
        api = ApiKey(request.api_key)
        return await self._exchange(request, self.version_of(api, max_version), timeout_s)

    async def fetch(
        self,
        request: FetchRequest,
        *,
        timeout_s: float | None = None,
        arrived: Callable[[ArrivedAnswer], None] | None = None,
        begins: Callable[[], None] | None = None,
        partitions_max: int | None = None,
    ) -> FetchResponse:
        """Return records as views of the one buffer in which the response was received. `arrived` is called with each
        partition's answer before the response is whole, if it arrives in several pieces; and `begins`, where `arrived`
        is given too, once the first of them is there, or the only one. With `partitions_max`, those of the session, a
        response that has clearly more is refused as a bad one.
        """
        version = self.version_of(ApiKey.FETCH)
        elements_max = ELEMENTS_MAX if partitions_max is None else fetched_elements_max(partitions_max)
        arriving = None if arrived is None else _tell(arrived, begins, version, elements_max)
        return await self._exchange(request, version, timeout_s, arriving, elements_max)

    async def _exchange(
        self,
        request: Request[ResponseT],
        version: int,
        timeout_s: float | None,
        arriving: Arriving | None = None,
        elements_max: int = ELEMENTS_MAX,
    ) -> ResponseT:
        if not self._is_renewed.is_set():
            await self._is_renewed.wait()
        frame = await self._round_trip(request, version, timeout_s, arriving)
        return await self._read(request, version, frame, elements_max)

    async def _round_trip(
        self,
        request: Request[ResponseT],
        version: int,
        timeout_s: float | None,
        arriving: Arriving | None = None,
    ) -> memoryview | None:
        api = ApiKey(request.api_key)
        timeout_s = self._limits.request_timeout_s if timeout_s is None else timeout_s
        deadline_s = self.loop.time() + timeout_s
        pending = None
        try:
            if not (self._writable.is_set() and self._turns.try_take()):
                async with asyncio.timeout_at(deadline_s):
                    await self._take_turn()
            pending = self._send(api, version, request, deadline_s, arriving)
            return None if pending is None else await pending.frame
        except TimeoutError:
            if pending is not None:
                self._fail(f"{api.name} was not answered within {timeout_s:g} s")
            raise RequestTimedOutError(f"{self.peer} did not answer {api.name} within {timeout_s:g} s") from None
        except OSError as error:
            raise BrokerUnavailableError(f"{api.name} to {self.peer} failed: {tls_failure(error)}") from None

    async def _take_turn(self) -> None:
        """Wait for a turn, and until the transport takes more."""
        await self._turns.take()
        try:
            await self.drain()
        except BaseException:
            self._turns.give_back()
            raise

    def _send(
        self, api: ApiKey, version: int, body: Message, deadline_s: float, arriving: Arriving | None
    ) -> _Pending | None:
        """Whose turn it is writes the whole request without a pause in between: nothing ever leaves half of one."""
        try:
            self.check_open()
            self._correlation_id = (self._correlation_id + 1) & CORRELATION_ID_MASK
            header = RequestHeader(api, version, self._correlation_id, self._client_id)
            parts = write_request(header, body)
        except BaseException:
            self._turns.give_back()
            raise
        for part in parts:
            assert isinstance(part, BUFFER_TYPES), f"{api.name} request with {part!r}"
            self.transport.write(part)
        if isinstance(body, ProduceRequest) and body.acks == ACKS_NONE:
            self._turns.give_back()
            return None
        pending = _Pending(header.correlation_id, self.loop.create_future(), deadline_s, arriving)
        self._pending.append(pending)
        if self._watch is None or deadline_s < self._watch.when():
            self._watch_until(deadline_s)
        return pending

    def _watch_until(self, deadline_s: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self.loop.call_at(deadline_s, self._look_at_deadlines)

    def _look_at_deadlines(self) -> None:
        """Fail the requests that have waited too long; a cancelled one waits for nothing."""
        self._watch = None
        now_s = self.loop.time()
        waiting = [pending for pending in self._pending if not pending.frame.done()]
        for pending in waiting:
            if pending.deadline_s <= now_s:
                pending.frame.set_exception(TimeoutError())
        left_s = [pending.deadline_s for pending in waiting if pending.deadline_s > now_s]
        if left_s:
            self._watch_until(min(left_s))

    async def _read(
        self,
        request: Request[ResponseT],
        version: int,
        frame: memoryview | None,
        elements_max: int = ELEMENTS_MAX,
    ) -> ResponseT:
        """Return the response in this frame, a large one read in slices; no frame is none. BrokerUnavailableError."""
        steps = steps_of_response_to(request, version, frame, min(elements_max, self._limits.response_elements_max))
        try:
            try:
                next(steps)
            except StopIteration as end:
                response: ResponseT = end.value
                return response
            return await exhausted(steps)
        except MalformedMessageError as error:
            api = ApiKey(request.api_key)
            self._fail(f"bad {api.name} response: {error}")
            raise BrokerUnavailableError(f"{self.peer} sent a bad {api.name} response: {error}") from error

    async def _negotiate(self) -> None:
        """Ask for the broker's versions. A broker that does not know ours answers in version 0 (KIP-511)."""
        api, version = ApiKey.API_VERSIONS, ApiKey.API_VERSIONS.max_version
        software = ApiVersionsRequest(client_software_name="tierfetch", client_software_version=_software_version())
        frame = await self._round_trip(software, version, self._limits.connect_timeout_s)
        assert frame is not None
        response = await self._read(software, 0 if _is_unsupported(frame) else version, frame)
        if response.error_code not in (ErrorCode.none, ErrorCode.unsupported_version):
            raise BrokerUnavailableError(f"{self.peer} refuses ApiVersions: {response.error_code.name}")
        self._take_versions(response)
        if response.error_code is ErrorCode.unsupported_version:
            version = self.version_of(api)
            self._take_versions(await self._exchange(software, version, None))

    def _take_versions(self, response: ApiVersionsResponse) -> None:
        self._agreed.clear()
        self.versions = {
            ApiKey(offered.api_key): VersionRange(offered.min_version, offered.max_version)
            for offered in response.api_keys
            if offered.api_key in _KNOWN_KEYS
        }

    # Authentication.

    async def _authenticate(self, identity: ClientIdentity) -> None:
        """SaslHandshake, then SaslAuthenticate until both sides are content. AuthenticationFailedError."""
        mechanism = identity.mechanism or ""
        try:
            self.version_of(ApiKey.SASL_HANDSHAKE)
        except KafkaError:
            raise AuthenticationFailedError(
                f"{self.peer} offers no SASL: check security.protocol, which is {identity.protocol.name}"
            ) from None
        shaken = await self._sasl(SaslHandshakeRequest(mechanism=mechanism))
        if shaken.error_code is not ErrorCode.none:
            raise AuthenticationFailedError(
                f"{self.peer} refuses sasl.mechanism={mechanism} ({shaken.error_code.name.upper()}): it offers "
                f"{', '.join(shaken.mechanisms) or 'none'}"
            )
        try:
            client = await identity.sasl()
            token: bytes | None = client.first()
            lifetime_ms = 0
            while token is not None:
                answer = await self._sasl(SaslAuthenticateRequest(auth_bytes=token))
                if answer.error_code is not ErrorCode.none:
                    raise AuthenticationFailedError(
                        f"{self.peer} refuses the {mechanism} credentials: "
                        f"{answer.error_message or answer.error_code.name.upper()}"
                    )
                lifetime_ms = answer.session_lifetime_ms
                token = client.step(answer.auth_bytes)
        except SaslClientError as error:
            raise AuthenticationFailedError(f"{self.peer} cannot be trusted: {error}") from None
        if not client.is_complete:
            raise AuthenticationFailedError(f"{self.peer} ended {mechanism} without proving that it knows the password")
        if lifetime_ms > 0:
            self._renewal = self.loop.create_task(self._renew(identity, lifetime_ms), name="sasl-session")

    async def _sasl(self, request: Request[ResponseT]) -> ResponseT:
        """Exchange one of SASL's own requests, which wait for no renewal."""
        version = self.version_of(ApiKey(request.api_key))
        frame = await self._round_trip(request, version, self._limits.connect_timeout_s)
        return await self._read(request, version, frame)

    async def _renew(self, identity: ClientIdentity, lifetime_ms: int) -> None:
        """Authenticate again before the session ends; without success the connection ends with it."""
        await asyncio.sleep(lifetime_ms / 1000 * RENEWAL_AT)
        self._is_renewed.clear()
        try:
            await self._authenticate(identity)
        except (*OUTSIDE, OperatorError) as error:
            self._fail(f"re-authentication failed: {error}")
        finally:
            self._is_renewed.set()

    # From the transport.

    def bytes_received(self) -> None:
        try:
            while (frame := self.frames.frame()) is not None:
                self._response_received(frame)
            if self._pending and self._pending[0].arriving is not None:
                self._response_arriving(self._pending[0])
        except MalformedMessageError as error:
            self._fail(str(error))

    def _response_arriving(self, pending: _Pending) -> None:
        arriving = self.frames.arriving
        if arriving is None or arriving[1] < INT32.size or pending.frame.done():
            return
        frame, count = arriving
        assert pending.arriving is not None, pending
        if correlation_id_of(frame) == pending.correlation_id:
            pending.arriving(frame, count)

    def _response_received(self, frame: memoryview) -> None:
        correlation_id = correlation_id_of(frame)
        if not self._pending or self._pending[0].correlation_id != correlation_id:
            expected = self._pending[0].correlation_id if self._pending else "none"
            raise MalformedMessageError(f"response to request {correlation_id}, expected was {expected}")
        pending = self._pending.popleft()
        self._turns.give_back()
        if not pending.frame.done():
            if pending.arriving is not None:
                pending.arriving(frame, len(frame))
            pending.frame.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._fail(tls_failure(exc) if exc else "the broker closed the connection")
        if self.on_lost is not None:
            self.on_lost()

    def _fail(self, reason: str) -> None:
        """Close the connection; requests that wait for a response get the reason."""
        if self._renewal is not None and self._renewal is not asyncio.current_task():
            self._renewal.cancel()
        self._is_renewed.set()
        if not self.transport.is_closing():
            log.debug("connection to %s ends: %s", self.peer, reason)
        self.transport.abort()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        while self._pending:
            pending = self._pending.popleft()
            self._turns.give_back()
            if not pending.frame.done():
                pending.frame.set_exception(ConnectionResetError(reason))


def fetched_elements_max(partitions: int) -> int:
    """Return what a response for so many partitions has at most: topics, partitions, their tagged fields, and nodes."""
    return FETCHED_ELEMENTS_FREE + FETCHED_ELEMENTS_EACH * partitions


def _tell(
    arrived: Callable[[ArrivedAnswer], None], begins: Callable[[], None] | None, version: int, elements_max: int
) -> Arriving:
    response: ArrivingFetchResponse | None = None

    def arriving(frame: memoryview, count: int) -> None:
        nonlocal response
        if response is None and begins is not None:
            begins()
        if count == len(frame):
            return  # The caller reads the rest.
        if response is None:
            response = ArrivingFetchResponse(frame, version, elements_max)
        for answer in response.arrived(count):
            arrived(answer)

    return arriving


def _is_unsupported(frame: memoryview) -> bool:
    """Whether an ApiVersions response says UNSUPPORTED_VERSION: the code's place is the same in all versions."""
    return Reader(frame, INT32.size, flexible=False).int16() == ErrorCode.unsupported_version


def _text(versions: VersionRange | None) -> str:
    return "not at all" if versions is None else f"{versions.min_version} to {versions.max_version}"


@cache
def _software_version() -> str:
    try:
        return package_version("tierfetch")
    except PackageNotFoundError:
        return "unknown"

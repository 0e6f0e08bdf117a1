"""Nodes that are no clients, and mean harm: they listen, and answer what an honest node asks them as a test says.

    with HostileNode() as node:
        node.answers[ApiKey.FETCH] = lambda asked: ...

| an answer is | what is sent |
|---|---|
| a message | its frame |
| bytes | these, in place of a frame: they need not be one |
| an iterator of bytes | one after the other, until it ends or the other side has closed |
| None | nothing: the connection is closed |

`Impostor` is one that has registered itself as a broker of an open cluster, and sends heartbeats.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import (
    RequestHeader,
    UnsupportedVersionError,
    read_request_body,
    read_request_header,
    read_response_to,
    write_request,
    write_response,
)
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.base import Message, Request, ResponseT
from tierfetch.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
)
from tierfetch.protocol.messages.cluster import ApiVersion, ApiVersionsResponse
from tierfetch.protocol.wire.primitives import BUFFER_TYPES
from tierfetch.tests.abuse.attacks import connect, received_frame

HEARTBEAT_S: Final = 0.5
FEATURES: Final = (
    ("metadata.version", 7, 30),
    ("kraft.version", 0, 1),
    ("transaction.version", 0, 2),
    ("group.version", 0, 1),
    ("share.version", 0, 1),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that has come in."""

    header: RequestHeader
    request: Any

    @property
    def api(self) -> ApiKey:
        return self.header.api


Sent = Message | bytes | Iterator[bytes] | None
Answer = Callable[[Asked], Sent]


def offers(*apis: ApiKey) -> Answer:
    """Say in ApiVersions that these are offered, in all versions that we know."""
    offered = tuple(ApiVersion(api_key=api, min_version=api.min_version, max_version=api.max_version) for api in apis)
    return lambda _: ApiVersionsResponse(api_keys=offered)


def framed(asked: Asked, response: Message) -> bytes:
    parts = write_response(asked.api, asked.header.api_version, asked.header.correlation_id, response)
    return b"".join(bytes(part) for part in parts if isinstance(part, BUFFER_TYPES))


class HostileNode:
    """Listens on loopback; each connection has a thread."""

    def __init__(self, port: int = 0) -> None:
        self.answers: dict[ApiKey, Answer] = {ApiKey.API_VERSIONS: offers(*ApiKey)}
        self.asked: dict[ApiKey, int] = {}
        """The number of requests so far."""
        self.errors: list[str] = []
        """What went wrong here, in the test's own code."""
        self._listening = socket.create_server(("127.0.0.1", port), backlog=1000)
        self.port: int = self._listening.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._is_closed = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed.set()
        for each in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def hang_up(self) -> None:
        """Close all connections: the next ones begin with ApiVersions."""
        for each in tuple(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while not self._is_closed.is_set():
                connection, _ = self._listening.accept()
                self._open.add(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError):
                while (frame := received_frame(connection)) is not None and self._answered(connection, frame):
                    pass
        except Exception as error:  # noqa: BLE001  # for the test to see
            self.errors.append(repr(error))
        finally:
            self._open.discard(connection)
            connection.close()

    def _answered(self, connection: socket.socket, frame: bytes) -> bool:
        """Return whether the connection stays."""
        try:
            header, reader = read_request_header(memoryview(frame))
        except UnsupportedVersionError:
            return False
        asked = Asked(header, read_request_body(header, reader))
        self.asked[asked.api] = self.asked.get(asked.api, 0) + 1
        answer = self.answers.get(asked.api)
        sent = None if answer is None else answer(asked)
        if sent is None:
            return False
        if isinstance(sent, Message):
            sent = framed(asked, sent)
        for part in (sent,) if isinstance(sent, bytes) else sent:
            connection.sendall(part)
        return True


class Impostor(HostileNode):
    """A broker of an open cluster, by its own word alone."""

    def __init__(self, broker_id: int, controller_port: int, cluster_id: str) -> None:
        super().__init__()
        self.broker_id = broker_id
        self.epoch = -1
        self._controller_port = controller_port
        self._cluster_id = cluster_id

    def __enter__(self) -> Self:
        super().__enter__()
        registered = ask(self._controller_port, self._registration())
        assert registered.error_code is ErrorCode.none, registered
        self.epoch = registered.broker_epoch
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def _registration(self) -> BrokerRegistrationRequest:
        listener = BrokerRegistrationRequestListener(
            name="PLAINTEXT", host="127.0.0.1", port=self.port, security_protocol=0
        )
        features = tuple(
            BrokerRegistrationRequestFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in FEATURES
        )
        return BrokerRegistrationRequest(
            broker_id=self.broker_id,
            cluster_id=self._cluster_id,
            incarnation_id=UUID(int=(4 << 76) + (8 << 60) + self.port),
            listeners=(listener,),
            features=features,
            rack=None,
            log_dirs=(UUID(int=(4 << 76) + (8 << 60) + self.broker_id + (1 << 32)),),
        )

    def _beat(self) -> None:
        beat = BrokerHeartbeatRequest(
            broker_id=self.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=2**40,
            want_fence=False,
            want_shut_down=False,
        )
        while not self._is_closed.wait(HEARTBEAT_S):
            with contextlib.suppress(OSError, struct.error):
                ask(self._controller_port, beat)


def ask(port: int, request: Request[ResponseT], version: int | None = None) -> ResponseT:
    """Send a request on a connection of its own; return the response. ConnectionResetError if there is none."""
    api = ApiKey(request.api_key)
    version = api.max_version if version is None else version
    parts = write_request(RequestHeader(api, version, 7, "peer"), request)
    with connect(port) as connection:
        connection.sendall(b"".join(bytes(part) for part in parts if isinstance(part, BUFFER_TYPES)))
        frame = received_frame(connection)
    if frame is None:
        raise ConnectionResetError(f"{api.name} was not answered")
    return read_response_to(request, version, memoryview(frame))

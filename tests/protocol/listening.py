"""A listener with TLS or SASL, our client at it, and a client that sends what it likes."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random

from tierfetch.cli.local.certificates import Certificate, make_authority, make_certificate
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import RequestHeader, read_response, write_request
from tierfetch.protocol.fetch.messages import FetchRequest, FetchResponse
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.net.server import Server
from tierfetch.security.client import ClientIdentity
from tierfetch.security.core.credentials import ScramCredentials
from tierfetch.security.core.settings import client_settings, listener_settings
from tierfetch.security.listener import ListenerIdentity
from tierfetch.security.principal import SecurityProtocol

FETCH = FetchRequest(max_wait_ms=0, min_bytes=0, topics=())
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
AUTHORITY = make_authority()
DAY = timedelta(days=1)


def store(certificate: Certificate) -> dict[str, str]:
    """A keystore in the configuration."""
    return {"ssl.keystore.key": certificate.key_pem(), "ssl.keystore.certificate.chain": certificate.pem}


def trust(certificate: Certificate) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificate.pem}


NODE = store(make_certificate(issuer=AUTHORITY))
TRUST = trust(AUTHORITY)


class Listening:
    """A listener that answers Fetch; `contexts` are those of the requests that came."""

    def __init__(self, properties: Mapping[str, str], protocol: SecurityProtocol) -> None:
        self.contexts: list[RequestContext] = []
        self.credentials = ScramCredentials()
        self.response = FetchResponse(topics=())
        settings = listener_settings(properties, "TEST", protocol)
        self.identity = ListenerIdentity(settings, lambda: self.credentials)
        self.server = Server({ApiKey.FETCH: self._fetch}, listener_name="TEST", identity=self.identity)

    async def _fetch(self, context: RequestContext, request: FetchRequest) -> FetchResponse:
        self.contexts.append(context)
        return self.response

    async def handshakes_ended(self) -> None:
        tasks = [handshake._task for handshake in self.server.handshakes]
        await asyncio.gather(*tasks)

    @property
    def address(self) -> Address:
        return Address("localhost", self.server.port)

    async def ask(self, properties: Mapping[str, str], address: Address | None = None) -> str:
        """Send a Fetch as a client with these properties, and return the principal that the listener saw."""
        identity = ClientIdentity(client_settings(properties))
        client = KafkaClient(client_id="test", random=Random(1), identity=identity)
        try:
            connection = await client.connection(address or self.address)
            await connection.fetch(FETCH)
            return str(self.contexts[-1].principal)
        finally:
            await client.close()


@asynccontextmanager
async def listening(properties: Mapping[str, str], protocol: SecurityProtocol) -> AsyncIterator[Listening]:
    listener = Listening(properties, protocol)
    await listener.server.start("localhost", 0)
    try:
        yield listener
    finally:
        await listener.server.close(deadline_s=1)


SASL_PLAIN = {"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": f'{PLAIN} user_alice="pencil" user_bob="pen";'}
FAST = {"connection.failed.authentication.delay.ms": "0"}
ALICE = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN} username="alice" password="pencil";'}


class Raw:
    """A client that sends what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, listener: Listening) -> Raw:
        return cls(*await asyncio.open_connection(*listener.address))

    def send(self, api: ApiKey, version: int, body: object) -> None:
        for part in write_request(RequestHeader(api, version, 7, "raw"), body):
            self._writer.write(bytes(part))

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def response(self, api: ApiKey, version: int) -> object:
        size = struct.unpack(">i", await self._reader.readexactly(4))[0]
        return read_response(api, version, memoryview(await self._reader.readexactly(size)))

    async def is_closed(self) -> bool:
        try:
            return await self._reader.read() == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._writer.close()

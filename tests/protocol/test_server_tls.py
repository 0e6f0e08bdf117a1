"""The same over TLS, where slices cannot go through `sendfile`."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from random import Random

import pytest

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.fetch.messages import FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse
from tierfetch.protocol.net.client import Address, BrokerUnavailableError, KafkaClient
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.net.server import Server
from tierfetch.tests.protocol.wire_fakes import FileSlice

FETCH = FetchRequest(max_wait_ms=0, min_bytes=0, topics=())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for localhost and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    try:
        subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl command here to make a certificate with")
    return certificate, key


async def test_slices_go_through_tls(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(range(256)) * 8000)

    async def on_fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
        partitions = tuple(FetchPartitionResponse(i, records=FileSlice(path, 0, 2_048_000)) for i in range(3))
        return FetchResponse(topics=(FetchTopicResponse(partitions, "t"),))

    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(*certificate)
    server = Server({ApiKey.FETCH: on_fetch}, listener_name="SSL")
    await server.start("localhost", 0, ssl=server_context)
    client_context = ssl.create_default_context(cafile=str(certificate[0]))
    client = KafkaClient(client_id="test", random=Random(1), ssl=client_context)
    try:
        response = await client.fetch(Address("localhost", server.port), FETCH)
        assert all(partition.records == path.read_bytes() for partition in response.topics[0].partitions)
        stranger = KafkaClient(client_id="test", random=Random(1), ssl=ssl.create_default_context())
        with pytest.raises(BrokerUnavailableError, match="certificate"):
            await stranger.fetch(Address("localhost", server.port), FETCH)
        await stranger.close()
    finally:
        await client.close()
        await server.close(deadline_s=1)

"""The metrics endpoint as an HTTP client sees it."""

from __future__ import annotations

import asyncio
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import pytest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from tierfetch.broker import http_endpoint
from tierfetch.broker.http_endpoint import HttpEndpoint
from tierfetch.broker.metrics_endpoint import monitoring_endpoint
from tierfetch.cli.local.certificates import make_authority, make_certificate
from tierfetch.security.core.node import metrics_settings
from tierfetch.security.core.settings import SecurityConfigError
from tierfetch.tests.broker.waiting import until

HOST = "127.0.0.1"
BEYOND_SOCKETS = 20_000_000
"""More bytes than the buffers of a connection hold while its client reads nothing."""
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def two_families() -> Iterator[Metric]:
    yield GaugeMetricFamily("first", "One.", value=1)
    yield GaugeMetricFamily("second", "Two.", value=2)


@pytest.fixture
async def endpoint() -> AsyncIterator[HttpEndpoint]:
    endpoint = monitoring_endpoint(two_families)
    await endpoint.start(HOST, 0)
    yield endpoint
    await endpoint.close()


async def exchange(endpoint: HttpEndpoint, request: bytes) -> bytes:
    """Everything that comes back until the connection ends, which may be by a reset."""
    reader, writer = await asyncio.open_connection(HOST, endpoint.port)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_a_scrape(endpoint: HttpEndpoint) -> None:
    head, _, body = (await exchange(endpoint, REQUEST)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Type: text/plain; version=0.0.4" in head
    assert f"Content-Length: {len(body)}".encode() in head
    assert body.decode().splitlines() == [
        "# HELP first One.",
        "# TYPE first gauge",
        "first 1.0",
        "# HELP second Two.",
        "# TYPE second gauge",
        "second 2.0",
    ]


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /metrics?name=x HTTP/1.0", b"200 OK"),
        (b"GET / HTTP/1.1\r\nHost: x", b"404 Not Found"),
        (b"GET /metrics/x HTTP/1.1\r\nHost: x", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\nHost: x", b"405 Method Not Allowed"),
        (b"GET /metrics HTTP/1.1", b"400 Bad Request"),
        (b"GET /metrics", b"400 Bad Request"),
        (b"\x00\x00\x00\x1a\x00\x12", b"400 Bad Request"),
    ],
)
async def test_other_requests(endpoint: HttpEndpoint, request_line: bytes, status: bytes) -> None:
    answer = await exchange(endpoint, request_line + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status + b"\r\n")


async def test_a_request_without_an_end_is_cut_off(endpoint: HttpEndpoint) -> None:
    answer = await exchange(endpoint, b"GET /" + b"x" * (3 * http_endpoint.REQUEST_HEAD_MAX))
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")


async def test_a_head_request_has_the_length_and_no_body(endpoint: HttpEndpoint) -> None:
    head, _, body = (await exchange(endpoint, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 97" in head
    assert body == b""


async def get(endpoint: HttpEndpoint, path: bytes) -> tuple[bytes, bytes]:
    """Return status line and body."""
    answer = await exchange(endpoint, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0], body


async def test_a_node_that_waits_is_healthy_and_not_ready() -> None:
    waits: list[str | None] = ["its registration", None]
    endpoint = monitoring_endpoint(two_families, lambda: waits[0])
    await endpoint.start(HOST, 0)
    try:
        assert await get(endpoint, b"/health") == (b"HTTP/1.1 200 OK", b'{"alive": true}\n')
        assert await get(endpoint, b"/ready") == (
            b"HTTP/1.1 503 Service Unavailable",
            b'{"ready": false, "waiting_for": "its registration"}\n',
        )
        waits.pop(0)
        assert await get(endpoint, b"/ready") == (b"HTTP/1.1 200 OK", b'{"ready": true}\n')
    finally:
        await endpoint.close()


async def test_a_peer_that_says_nothing_is_cut_off(endpoint: HttpEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "SILENCE_TIMEOUT_S", 0.02)
    assert await exchange(endpoint, b"GET /me") == b""


async def test_silent_peers_keep_no_scrape_out(endpoint: HttpEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "REQUESTS_MAX", 2)
    silent = [await asyncio.open_connection(HOST, endpoint.port) for _ in range(3)]
    assert (await exchange(endpoint, REQUEST)).startswith(b"HTTP/1.1 200 OK")
    closed = [reader.at_eof() or reader.exception() is not None for reader, _ in silent]
    assert closed[:2] == [True, True], "the oldest are closed first"
    for _, writer in silent:
        writer.close()
    await until(lambda: not endpoint._requests)


async def test_a_peer_that_reads_nothing_counts_as_a_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "REQUESTS_MAX", 1)
    endpoint = monitoring_endpoint(lambda: [GaugeMetricFamily("large", "x" * BEYOND_SOCKETS, value=1)])
    await endpoint.start(HOST, 0)
    _, writer = await asyncio.open_connection(HOST, endpoint.port)
    writer.write(REQUEST)
    await until(lambda: bool(endpoint._requests) and not endpoint._silent)
    assert await exchange(endpoint, REQUEST) == b"", "refused: it is being answered"
    writer.transport.abort()
    await endpoint.close()


async def test_a_large_scrape_that_is_read_slowly_ends_without_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """It is closed with bytes in the buffer."""
    endpoint = monitoring_endpoint(lambda: [GaugeMetricFamily("large", "x" * BEYOND_SOCKETS, value=1)])
    await endpoint.start(HOST, 0)
    reader, writer = await asyncio.open_connection(HOST, endpoint.port)
    writer.write(REQUEST)
    await until(lambda: bool(endpoint._requests) and not endpoint._silent)
    assert len(await reader.read()) > BEYOND_SOCKETS
    writer.close()
    await until(lambda: not endpoint._requests)
    await endpoint.close()
    assert "internal error" not in caplog.text


async def test_closing_cuts_off_what_is_under_way(endpoint: HttpEndpoint) -> None:
    reader, writer = await asyncio.open_connection(HOST, endpoint.port)
    await until(lambda: bool(endpoint._requests))
    await endpoint.close()
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    writer.close()


async def test_a_fault_of_a_family_ends_its_scrape_alone(caplog: pytest.LogCaptureFixture) -> None:
    def families() -> Iterator[Metric]:
        raise RuntimeError("a broken gauge")
        yield

    endpoint = monitoring_endpoint(families)
    await endpoint.start(HOST, 0)
    assert await exchange(endpoint, REQUEST) == b""
    assert "internal error in an HTTP request" in caplog.text
    assert "a broken gauge" in caplog.text
    await endpoint.close()


AUTHORITY = make_authority()
NODE = make_certificate(issuer=AUTHORITY)
TLS = {
    "listener.name.metrics.ssl.keystore.key": NODE.key_pem(),
    "listener.name.metrics.ssl.keystore.certificate.chain": NODE.pem,
}
BASIC = {
    "listener.name.metrics.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.metrics.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' user_prometheus="scrape:me";',
    "connection.failed.authentication.delay.ms": "0",
}


SCRAM = {"listener.name.metrics.sasl.enabled.mechanisms": "SCRAM-SHA-256"}


@asynccontextmanager
async def secured(protocol: str, properties: Mapping[str, str]) -> AsyncIterator[HttpEndpoint]:
    settings = metrics_settings({"listener.security.protocol.map": f"METRICS:{protocol}", **properties})
    endpoint = monitoring_endpoint(two_families)
    await endpoint.start(HOST, 0, settings)
    try:
        yield endpoint
    finally:
        await endpoint.close()


def scraped(endpoint: HttpEndpoint, user: str | None = None) -> tuple[int, bytes]:
    """What Python's own HTTP client gets, over TLS with the authority's certificate."""
    context = ssl.create_default_context(cadata=AUTHORITY.pem)
    headers = {} if user is None else {"Authorization": f"Basic {b64encode(user.encode()).decode()}"}
    request = urllib.request.Request(f"https://localhost:{endpoint.port}/metrics", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, (error.headers["WWW-Authenticate"] or "").encode()


async def test_scrapes_over_tls(caplog: pytest.LogCaptureFixture) -> None:
    async with secured("SSL", TLS) as endpoint:
        status, body = await asyncio.to_thread(scraped, endpoint)
        assert status == 200
        assert b"second 2.0" in body
        assert await exchange(endpoint, REQUEST) == b""


@pytest.mark.parametrize(
    ("user", "status"),
    [
        ("prometheus:scrape:me", 200),
        ("prometheus:scrape", 401),
        ("stranger:scrape:me", 401),
        ("prometheus", 401),
        ("", 401),
        (None, 401),
    ],
)
async def test_scrapes_with_a_password(user: str | None, status: int) -> None:
    async with secured("SASL_SSL", {**TLS, **BASIC}) as endpoint:
        found, said = await asyncio.to_thread(scraped, endpoint, user)
        assert found == status
        assert b"first 1.0" in said if status == 200 else said == b'Basic realm="metrics", charset="UTF-8"'


def _has_refused(endpoint: HttpEndpoint, count: int) -> bool:
    return len(endpoint._refused) == count


async def test_wrong_passwords_keep_no_scrape_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "REFUSED_MAX", 10)
    slow = {**BASIC, "connection.failed.authentication.delay.ms": "60000"}
    wrong = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YTpi\r\n\r\n"
    right = b64encode(b"prometheus:scrape:me")
    async with secured("SASL_PLAINTEXT", slow) as endpoint:
        guesses = []
        for number in range(1, 11):
            guesses.append(asyncio.create_task(exchange(endpoint, wrong)))
            await until(partial(_has_refused, endpoint, number))
        assert await exchange(endpoint, wrong) == b"", "one too many is cut off"
        answer = await exchange(endpoint, REQUEST[:-2] + b"Authorization: Basic " + right + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert (await get(endpoint, b"/ready"))[0] == b"HTTP/1.1 200 OK", "which needs no password"
        for guess in guesses:
            guess.cancel()
        await asyncio.gather(*guesses, return_exceptions=True)


async def test_silent_peers_keep_no_scrape_over_tls_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have not even begun the handshake."""
    monkeypatch.setattr(http_endpoint, "SILENCE_TIMEOUT_S", 60.0)
    async with secured("SSL", TLS) as endpoint:
        silent = [await asyncio.open_connection(HOST, endpoint.port) for _ in range(2 * http_endpoint.REQUESTS_MAX)]
        status, _ = await asyncio.to_thread(scraped, endpoint)
        assert status == 200
        for _, writer in silent:
            writer.close()


def test_other_mechanisms_are_refused() -> None:
    with pytest.raises(
        SecurityConfigError, match=r"listener\.name\.metrics\.sasl\.enabled\.mechanisms: expected PLAIN"
    ):
        metrics_settings({"listener.security.protocol.map": "METRICS:SASL_PLAINTEXT", **BASIC, **SCRAM})


@pytest.mark.parametrize(("host", "is_open"), [("127.0.0.1", False), ("0.0.0.0", True)])
async def test_an_open_endpoint_says_so(host: str, is_open: bool, caplog: pytest.LogCaptureFixture) -> None:
    endpoint = monitoring_endpoint(two_families)
    await endpoint.start(host, 0)
    await endpoint.close()
    assert ("are open" in caplog.text) is is_open


async def test_the_parts_of_a_family_are_one_family() -> None:
    def families() -> Iterator[Metric]:
        for number in range(3):
            part = GaugeMetricFamily("size", "How large.", labels=["name"])
            part.add_metric([str(number)], number)
            yield part
        yield CounterMetricFamily("asked", "How often.", value=1)

    endpoint = monitoring_endpoint(families)
    await endpoint.start(HOST, 0)
    try:
        answer = await exchange(endpoint, REQUEST)
    finally:
        await endpoint.close()
    lines = answer.partition(b"\r\n\r\n")[2].decode().splitlines()
    assert lines == [
        "# HELP size How large.",
        "# TYPE size gauge",
        'size{name="0"} 0.0',
        'size{name="1"} 1.0',
        'size{name="2"} 2.0',
        "# HELP asked_total How often.",
        "# TYPE asked_total counter",
        "asked_total 1.0",
    ]

"""What the log says at start of a listener that others than this machine can reach."""

from __future__ import annotations

import logging

import pytest

from tierfetch.cli.local.certificates import make_certificate
from tierfetch.security.core.credentials import ScramCredentials
from tierfetch.security.core.settings import listener_settings
from tierfetch.security.listener import open_listener
from tierfetch.security.principal import SecurityProtocol

NODE = make_certificate()
TLS = {"ssl.keystore.key": NODE.key_pem(), "ssl.keystore.certificate.chain": NODE.pem}
SCRAM = {"sasl.enabled.mechanisms": "SCRAM-SHA-512"}
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": NODE.pem}
MUTUAL = {**TLS, **TRUST, "ssl.client.auth": "required"}
EVERYTHING = (
    "no encryption and no authentication: every host that reaches it may read, write, administer, and pose as a node"
)
READABLE = "no encryption: records are readable on the way, and so are the passwords of PLAIN"
NAMELESS = "no authentication: clients without a certificate are User:ANONYMOUS (ssl.client.auth)"


@pytest.mark.parametrize("listener", ["EXTERNAL", "CONTROLLER"])
@pytest.mark.parametrize(
    ("protocol", "properties", "host", "expected"),
    [
        (SecurityProtocol.PLAINTEXT, {}, "0.0.0.0", EVERYTHING),
        (SecurityProtocol.PLAINTEXT, {}, "", EVERYTHING),
        (SecurityProtocol.PLAINTEXT, {}, "::", EVERYTHING),
        (SecurityProtocol.PLAINTEXT, {}, "kafka-1", EVERYTHING),
        (SecurityProtocol.PLAINTEXT, {}, "127.0.0.1", None),
        (SecurityProtocol.PLAINTEXT, {}, "localhost", None),
        (SecurityProtocol.PLAINTEXT, {}, "::1", None),
        (SecurityProtocol.SASL_PLAINTEXT, SCRAM, "kafka-1", READABLE),
        (SecurityProtocol.SSL, TLS, "kafka-1", NAMELESS),
        (SecurityProtocol.SSL, {**MUTUAL, "ssl.client.auth": "requested"}, "kafka-1", NAMELESS),
        (SecurityProtocol.SSL, MUTUAL, "kafka-1", None),
        (SecurityProtocol.SASL_SSL, {**TLS, **SCRAM}, "kafka-1", None),
    ],
)
async def test_an_open_listener_says_what_is_open(
    listener: str,
    protocol: SecurityProtocol,
    properties: dict[str, str],
    host: str,
    expected: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = listener_settings(properties, listener, protocol)
    await open_listener(settings, ScramCredentials, host)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    where = host or "every address"
    assert said == ([] if expected is None else [f"listener {listener} on {where} is open: {expected}"])

"""Parsers are imported when an identity that needs them is made, at a node's start: no connection waits for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

LISTENER = """
from tierfetch.security.core.credentials import ScramCredentials
from tierfetch.security.core.settings import listener_settings
from tierfetch.security.listener import ListenerIdentity
from tierfetch.security.principal import SecurityProtocol
settings = listener_settings({"sasl.enabled.mechanisms": "SCRAM-SHA-512"}, "X", SecurityProtocol.SASL_PLAINTEXT)
ListenerIdentity(settings, ScramCredentials)
"""
CLIENT = """
from tierfetch.security.client import ClientIdentity
from tierfetch.security.core.settings import client_settings
ClientIdentity(client_settings({
    "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "%s", "sasl.jaas.config": "%s"
}))
"""
PASSWORD = "org.apache.kafka.common.security.scram.ScramLoginModule required username='a' password='b';"
TOKEN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId='a' clientSecret='b';"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (LISTENER, "scramp"),
        (CLIENT % ("SCRAM-SHA-256", PASSWORD), "scramp"),
        (CLIENT % ("OAUTHBEARER", TOKEN), "tierfetch.security.token_source"),
    ],
    ids=["a listener with SCRAM", "a client with SCRAM", "a client with tokens"],
)
def test_an_identity_has_imported_what_its_connections_need(program: str, expected: str) -> None:
    code = f"{program}\nimport sys; print({expected!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("True", "")

"""How the clients of this run connect: in plaintext, or as the file says that `TIERFETCH_COMMAND_CONFIG` names.

With `pytest --secure` the clusters of the harness are secured, and the variable names their administrator's file. Also
for processes that tests start: they inherit it.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any

from javaproperties import loads

from tierfetch.cli.command_config import VARIABLE
from tierfetch.security.core.jaas import parse_jaas


def _login() -> dict[str, str] | None:
    path = os.environ.get(VARIABLE)
    return None if path is None else loads(Path(path).read_text())


def librdkafka(servers: str) -> dict[str, Any]:
    """Return the connection of a client of confluent-kafka."""
    login = _login()
    if login is None:
        return {"bootstrap.servers": servers}
    jaas = parse_jaas(login["sasl.jaas.config"])
    return {
        "bootstrap.servers": servers,
        "security.protocol": login["security.protocol"],
        "sasl.mechanism": login["sasl.mechanism"],
        "sasl.username": jaas.options["username"],
        "sasl.password": jaas.options["password"],
        "ssl.ca.location": login["ssl.truststore.location"],
    }


def kafka_python(servers: str) -> dict[str, Any]:
    """Return the connection of a client of kafka-python, or of aiokafka."""
    login = _login()
    if login is None:
        return {"bootstrap_servers": servers.split(",")}
    jaas = parse_jaas(login["sasl.jaas.config"])
    return {
        "bootstrap_servers": servers.split(","),
        "security_protocol": login["security.protocol"],
        "sasl_mechanism": login["sasl.mechanism"],
        "sasl_plain_username": jaas.options["username"],
        "sasl_plain_password": jaas.options["password"],
        "ssl_context": ssl.create_default_context(cafile=login["ssl.truststore.location"]),
    }

"""How the commands use librdkafka: its connection as `--command-config` says, its log, its messages."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from ...protocol import metadata_of
from ...security import librdkafka_properties
from ...security.core import SecurityConfigError
from ..cluster_session import run
from ..command_config import current_identity
from ..options import addresses
from .formats import Record

if TYPE_CHECKING:
    from confluent_kafka import Message

CLIENT_ID: Final = "tierfetch-cli"


def connection(bootstrap: Sequence[str]) -> dict[str, object]:
    """Return the properties of a client of the running command. UsageError, ClickException where nobody answers.

    librdkafka goes on trying an address where nobody listens, and then names none: our own client asks first.
    """
    run(bootstrap, lambda admin: admin.send(metadata_of([])))
    servers = ",".join(str(address) for address in addresses(bootstrap))
    found: dict[str, object] = {"bootstrap.servers": servers, "client.id": CLIENT_ID}
    try:
        identity = current_identity()
        return found if identity is None else found | librdkafka_properties(identity.settings)
    except SecurityConfigError as error:
        raise click.ClickException(str(error)) from None


def silent_logger() -> logging.Logger:
    """Return a logger for librdkafka's own lines, which repeat what its errors say."""
    logger = logging.getLogger("tierfetch.librdkafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def record_of(message: Message) -> Record:
    """Return a record that librdkafka has read, or written."""
    kind, timestamp_ms = message.timestamp()
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return Record(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp_ms if kind else None,
        key=message.key(),
        value=message.value(),
        headers=_headers(message),
    )


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    """Return the headers as bytes, whatever of its types librdkafka has them in."""
    found = message.headers() or []
    pairs = found.items() if isinstance(found, dict) else found
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]

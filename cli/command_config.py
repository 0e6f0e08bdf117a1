"""`--command-config FILE`: how a command's connections are protected and identified, as Java's tools take it.

The option belongs to the command that runs: click's context keeps the identity, and `make_client` makes every client of
that command.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ..protocol.net.client import KafkaClient
from ..security.client import ClientIdentity
from ..security.client_file import OPTION, read_client_file
from ..security.core.settings import SecurityConfigError

Command = TypeVar("Command", bound=Callable[..., Any])

_KEY: Final = "tierfetch.cli.identity"


def command_config_option(command: Command) -> Command:
    """Add the option to a command; the command's function does not get it."""
    return click.option(
        OPTION,
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        expose_value=False,
        callback=_read,
        help="Client properties with the names of Java's clients, such as security.protocol and sasl.jaas.config.",
    )(command)


def _read(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is None:
        return
    try:
        use_identity(read_client_file(path), context)
    except SecurityConfigError as error:
        raise click.ClickException(str(error)) from None


def use_identity(identity: ClientIdentity | None, context: click.Context | None = None) -> None:
    """Have the running command connect as this."""
    (context or click.get_current_context()).meta[_KEY] = identity


def has_identity() -> bool:
    """Whether the running command was given one."""
    context = click.get_current_context(silent=True)
    return context is not None and _KEY in context.meta


def make_client(client_id: str = "tierfetch-cli") -> KafkaClient:
    """Return a client that connects as the running command was told to; in plaintext outside a command."""
    context = click.get_current_context(silent=True)
    identity = None if context is None else context.meta.get(_KEY)
    return KafkaClient(client_id=client_id, random=random.Random(), identity=identity)

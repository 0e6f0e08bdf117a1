"""`--command-config FILE`: how a command's connections are protected and identified, as Java's tools take it.

The option belongs to the command that runs: click's context keeps the identity, and `make_client` makes every client of
that command.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import click
from click.core import ParameterSource

from ..protocol.net import KafkaClient
from ..security import COMMAND_CONFIG, ClientIdentity, read_client_file
from ..security.core import SecurityConfigError

Command = TypeVar("Command", bound=Callable[..., object])

_KEY: Final = "tierfetch.cli.identity"
_IS_GIVEN: Final = "tierfetch.cli.identity_is_given"
VARIABLE: Final = "TIERFETCH_COMMAND_CONFIG"
"""The environment variable that stands for the option."""


def command_config_option(command: Command) -> Command:
    """Add the option to a command; the command's function does not get it."""
    return click.option(
        COMMAND_CONFIG,
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        expose_value=False,
        is_eager=True,
        callback=_read,
        envvar=VARIABLE,
        show_envvar=True,
        help="Client properties with the names of Java's clients, such as security.protocol and sasl.jaas.config.",
    )(command)


def _read(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    if path is None:
        return
    assert parameter.name is not None, "an option has a name"
    context.meta[_IS_GIVEN] = context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    try:
        use_identity(read_client_file(path), context)
    except SecurityConfigError as error:
        raise click.ClickException(str(error)) from None


def use_identity(identity: ClientIdentity | None, context: click.Context | None = None) -> None:
    """Have the running command connect as this."""
    (context or click.get_current_context()).meta[_KEY] = identity


def current_identity() -> ClientIdentity | None:
    """Return how the running command connects, None for plaintext. SecurityConfigError."""
    context = click.get_current_context(silent=True)
    if context is not None:
        identity: ClientIdentity | None = context.meta.get(_KEY)
        return identity
    path = os.environ.get(VARIABLE)
    return read_client_file(Path(path), VARIABLE) if path else None


def has_identity() -> bool:
    """Whether the running command was given one on its command line: another file that it was given there, such as a
    broker's, counts for more than the variable.
    """
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(_IS_GIVEN) is True


def make_client(client_id: str = "tierfetch-cli", identity: ClientIdentity | None = None) -> KafkaClient:
    """Return a client that connects as `identity`, else as the running command is configured. Outside a command, what
    `TIERFETCH_COMMAND_CONFIG` names says how; without it, in plaintext. SecurityConfigError if it cannot be used.
    """
    if identity is None:
        identity = current_identity()
    return KafkaClient(client_id=client_id, random=random.Random(), identity=identity)

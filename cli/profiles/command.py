"""`tierfetch profile`: name clusters, so that commands need no addresses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import click
from rich.table import Table
from rich.text import Text

from ...protocol import OperatorError
from ...security import read_client_file
from ..options import addresses, json_option, report, table_console
from .choice import ORDER
from .store import Profile, Profiles, read_profiles, write_profiles

T = TypeVar("T")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@click.group("profile", epilog=f"Which cluster a command asks, in this order: --bootstrap, {ORDER}.")
def profile() -> None:
    """Name clusters and how to connect to them, for the --profile option of other commands.

    \b
      tierfetch profile add prod --bootstrap kafka-1:9092,kafka-2:9092 --command-config client.properties
      tierfetch profile use prod
      tierfetch topics list

    Profiles are kept in the user's configuration folder. They hold no secrets: a command config stays where it is.
    """


@profile.command("add")
@click.argument("name")
@click.option(
    "--bootstrap",
    multiple=True,
    required=True,
    metavar="HOST:PORT",
    help="A broker of the cluster; repeatable, or several separated by commas.",
)
@click.option(
    "--command-config",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Client properties with the names of Java's clients; its path is kept, not its contents.",
)
@click.option("--use", "is_used", is_flag=True, help="Use the profile from now on.")
@click.option("--replace", is_flag=True, help="Replace a profile of this name.")
@json_option
def add(
    name: str, bootstrap: tuple[str, ...], command_config: Path | None, is_used: bool, replace: bool, as_json: bool
) -> None:
    """Add the profile NAME.

    \b
      tierfetch profile add prod --bootstrap kafka-1:9092,kafka-2:9092 --command-config client.properties --use
    """
    if not _NAME.fullmatch(name):
        raise click.UsageError(f"a profile's name has letters, digits, '.', '_' and '-': {name!r} has others, or none")
    servers = tuple(str(address) for address in addresses(bootstrap))
    path = None if command_config is None else command_config.absolute()
    if path is not None:
        _done(lambda: read_client_file(path))
    known = _done(read_profiles)
    if name in known.profiles and not replace:
        raise click.ClickException(f"there is a profile {name!r} already: give --replace, or another name")
    added = Profile(bootstrap=servers, command_config=path)
    in_use = name if is_used else known.in_use
    _write(Profiles(in_use=in_use, profiles={**known.profiles, name: added}))
    hint = "" if in_use == name else f"; use it with --profile {name}, or always: tierfetch profile use {name}"
    report(as_json, {"added": name, **_row(name, added, in_use)}, f"added profile {name}{hint}")


@profile.command("list")
@json_option
def list_profiles(as_json: bool) -> None:
    """List the profiles, and which one is in use.

    \b
      tierfetch profile list
    """
    known = _done(read_profiles)
    rows = [_row(name, found, known.in_use) for name, found in sorted(known.profiles.items())]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    if not rows:
        click.echo("There is no profile yet: tierfetch profile add NAME --bootstrap HOST:PORT")
        return
    table = Table("profile", "in use", "bootstrap", "command config")
    for row in rows:
        servers = ",".join(known.profiles[str(row["profile"])].bootstrap)
        is_used = "yes" if row["in_use"] else ""
        table.add_row(*map(Text, (str(row["profile"]), is_used, servers, str(row["command_config"] or ""))))
    table_console().print(table)


@profile.command("use", short_help="Use the profile NAME from now on.")
@click.argument("name", required=False)
@click.option("--none", "is_none", is_flag=True, help="Use no profile any longer.")
@json_option
def use(name: str | None, is_none: bool, as_json: bool) -> None:
    """Have commands ask the cluster of the profile NAME unless they are given another.

    \b
      tierfetch profile use prod
      tierfetch profile use --none
    """
    if (name is None) == (not is_none):
        raise click.UsageError("name a profile, or give --none")
    known = _done(read_profiles)
    if name is not None:
        _check_known(known, name)
    _write(Profiles(in_use=name, profiles=known.profiles))
    report(as_json, {"in_use": name}, "no profile is in use" if name is None else f"profile {name} is in use")


@profile.command("remove")
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove the profile NAME. Its command config stays.

    \b
      tierfetch profile remove prod
    """
    known = _done(read_profiles)
    _check_known(known, name)
    profiles = {each: found for each, found in known.profiles.items() if each != name}
    _write(Profiles(in_use=None if known.in_use == name else known.in_use, profiles=profiles))
    report(as_json, {"removed": name}, f"removed profile {name}")


def _check_known(known: Profiles, name: str) -> None:
    if name not in known.profiles:
        names = ", ".join(sorted(known.profiles)) or "none"
        raise click.ClickException(f"there is no profile {name!r}; there are: {names}")


def _row(name: str, found: Profile, in_use: str | None) -> dict[str, object]:
    config = None if found.command_config is None else str(found.command_config)
    return {
        "profile": name,
        "in_use": name == in_use,
        "bootstrap": list(found.bootstrap),
        "command_config": config,
    }


def _write(profiles: Profiles) -> None:
    _done(lambda: write_profiles(profiles))


def _done(work: Callable[[], T]) -> T:
    """Return what `work` returns; what an operator must correct is said in one line."""
    try:
        return work()
    except OperatorError as error:
        raise click.ClickException(str(error)) from None

"""`tierfetch plugins`: what is installed, and the options of each plugin."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import TypedDict

import click
from rich.table import Table
from rich.text import Text

from ...plugin_options import Option
from ...plugin_registry import InstalledPlugin, list_plugins
from ..options import json_option, table_console


class _OptionRow(TypedDict):
    """An option as `--json` shows it. `default` is None where the option is required."""

    key: str
    type: str
    default: str | None
    unit: str
    description: str


class _PluginRow(TypedDict):
    """A plugin as `--json` shows it. `error` is None where it can be loaded."""

    kind: str
    name: str
    distribution: str
    version: str
    summary: str
    error: str | None
    configured_by: str
    options: list[_OptionRow]


@click.command("plugins")
@click.argument("name", required=False)
@json_option
def plugins(name: str | None, as_json: bool) -> None:
    """List the installed plugins: bootstrap policies, tiers, replica placements, replica selectors. With NAME, show the
    options of that plugin, as they are written in a node's properties file.

    A plugin that cannot be loaded is listed with its error. docs/plugins.md says how to write one.

    \b
      tierfetch plugins
      tierfetch plugins s3
    """
    found = list_plugins()
    shown = found if name is None else _named(found, name)
    if as_json:
        click.echo(json.dumps([_row(plugin) for plugin in shown], indent=1))
    elif name is None:
        table_console().print(_listing(shown))
    else:
        for plugin in shown:
            _print_options(plugin)


def _named(found: Sequence[InstalledPlugin], name: str) -> list[InstalledPlugin]:
    named = [plugin for plugin in found if plugin.name == name]
    if not named:
        known = sorted({plugin.name for plugin in found})
        near = difflib.get_close_matches(name, known, n=1)
        guess = f": did you mean {near[0]}?" if near else "."
        raise click.UsageError(f"no plugin {name!r} is installed{guess} There are {', '.join(known)}")
    return named


def _listing(shown: Sequence[InstalledPlugin]) -> Table:
    table = Table("kind", "name", "package", "version", "what it does")
    for plugin in shown:
        text = plugin.summary if plugin.error is None else f"cannot be loaded: {plugin.error}"
        style = None if plugin.error is None else "red"
        cells = (plugin.kind.name, plugin.name, plugin.distribution, plugin.version, text)
        table.add_row(*map(Text, cells), style=style)
    return table


def _print_options(plugin: InstalledPlugin) -> None:
    if plugin.error is not None:
        raise click.ClickException(plugin.error)
    click.echo(f"{plugin.kind.name} {plugin.name} ({plugin.distribution} {plugin.version}): {plugin.summary}")
    click.echo(f"{plugin.kind.key}={plugin.name} on {plugin.kind.nodes}")
    if not plugin.options:
        click.echo("It has no options.")
        return
    table = Table("option", "type", "default", "unit", "what it is")
    for row in _row(plugin)["options"]:
        default = "required" if row["default"] is None else row["default"]
        table.add_row(*map(Text, (row["key"], row["type"], default, row["unit"], row["description"])))
    table_console().print(table)


def _row(plugin: InstalledPlugin) -> _PluginRow:
    return {
        "kind": plugin.kind.name,
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "summary": plugin.summary,
        "error": plugin.error,
        "configured_by": plugin.kind.key,
        "options": [option_row(plugin, option) for option in plugin.options],
    }


def option_row(plugin: InstalledPlugin, option: Option) -> _OptionRow:
    """Return an option with the key that a properties file has."""
    return {
        "key": f"{plugin.kind.prefix_of(plugin.name)}{option.name}",
        "type": option.type,
        "default": option.default,
        "unit": option.unit,
        "description": option.description,
    }

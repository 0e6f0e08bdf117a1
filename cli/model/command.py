"""The group `tierfetch model`; a subcommand's module is imported when it is run."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "replace": ("replace", "replace", "A broker dies and comes back empty: when is all in sync again?"),
    "compare": ("replace", "compare", "The same replacement under every bootstrap policy, side by side."),
    "rebalance": ("rebalance", "rebalance", "Brokers come, brokers go, or a plan is carried out."),
    "capture": ("capture", "capture_command", "The inventory of a live cluster, Apache Kafka's or tierfetch's."),
    "calibrate": ("calibrate", "calibrate_command", "What this machine and a live cluster really do."),
    "failover": ("failover", "failover", "Brokers die: who is without a leader, who carries the load?"),
}


class ModelGroup(click.Group):
    """Commands by module, function and one line of help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, function, _ = _COMMANDS[cmd_name]
        try:
            command: click.Command = getattr(importlib.import_module(f".{module}", __package__), function)
        except ModuleNotFoundError as error:
            if error.name not in ("numpy", "plotly"):
                raise
            raise click.ClickException(f"{error.name} is not installed: pip install 'tierfetch[model]'") from None
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][2]) for name in self.list_commands(ctx)])


@click.command("model", cls=ModelGroup)
def model() -> None:
    """How long it takes, before anybody touches a cluster.

    \b
    Describe the cluster in a file (docs/model.md), or take it from a running one, then ask:
      tierfetch model replace --cluster cluster.yaml --broker 3 --html report.html
      tierfetch model compare --cluster cluster.yaml --broker 3
      tierfetch model rebalance --cluster cluster.yaml --add 2
      tierfetch model failover --cluster cluster.yaml --broker 3
    """

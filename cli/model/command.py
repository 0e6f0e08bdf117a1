"""The group `tierfetch model`."""

from __future__ import annotations

import click

from ..lazy_group import LazyGroup

_COMMANDS = {
    "replace": ("replace", "replace", "A broker dies and comes back empty: when is all in sync again?"),
    "compare": ("replace", "compare", "The same replacement under every bootstrap policy, side by side."),
    "rebalance": ("rebalance", "rebalance", "Brokers come, brokers go, or a plan is carried out."),
    "capture": ("capture", "capture_command", "The inventory of a live cluster, Apache Kafka's or tierfetch's."),
    "calibrate": ("calibrate", "calibrate_command", "What this machine and a live cluster really do."),
    "failover": ("failover_command", "failover", "Brokers die: who is without a leader, who carries the load?"),
}


@click.command("model", cls=LazyGroup, package=__package__, modules=_COMMANDS)
def model() -> None:
    """How long it takes, before you touch a cluster.

    \b
    Describe the cluster in a file (docs/model.md), or take it from a running one, then ask:
      tierfetch model replace --cluster cluster.yaml --broker 3 --html report.html
      tierfetch model compare --cluster cluster.yaml --broker 3
      tierfetch model rebalance --cluster cluster.yaml --add 2
      tierfetch model failover --cluster cluster.yaml --broker 3
    """

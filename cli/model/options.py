"""Options that the model's commands share. Like the commands themselves they are there without numpy, for `--help`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict, TypeVar

import click

from ...model import Policy
from ..options import OutputFile, json_option, throttle_rate

Command = TypeVar("Command", bound=Callable[..., object])


calibration_option = click.option(
    "--calibration",
    "calibration_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="What was measured of the systems; without it what ships with tierfetch.",
)


class ClusterOptions(TypedDict):
    """What `cluster_options` passes to a command."""

    cluster_path: Path
    calibration_path: Path | None
    throttle: float | None
    as_json: bool
    html_path: Path | None


def cluster_options(command: Command) -> Command:
    """`--cluster`, `--calibration`, `--throttle`, `--json`, `--html`."""
    options = (
        click.option(
            "--cluster",
            "cluster_path",
            required=True,
            type=click.Path(path_type=Path, dir_okay=False),
            help="The inventory: YAML or JSON (docs/model.md).",
        ),
        calibration_option,
        click.option(
            "--throttle",
            type=throttle_rate,
            metavar="RATE",
            help='Replication throttle of each broker, such as "50 MiB/s", in place of the inventory\'s.',
        ),
        json_option,
        click.option(
            "--html",
            "html_path",
            type=OutputFile(),
            help="Write a report with charts here: one file, nothing is loaded from elsewhere.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


policy_option = click.option(
    "--policy",
    type=click.Choice([policy.value for policy in Policy]),
    help="Where new replicas begin, in place of the inventory's; kafka* are Apache Kafka's.",
)

"""`tierfetch model capture`: the inventory of a live cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Final

import click
import yaml
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from ..cluster_session import Admin, bootstrap_option, run
from ..options import OutputFile, json_option, pairs, window_option, write_text
from .estimate import FILL_IN, TIER_UNKNOWN, UNKNOWN_TO_ALL, Captured, capture
from .observe import Observer
from .snapshot import Snapshot

TICK_S: Final = 0.25
LINE_WIDTH: Final = 120
KNOWABLE: Final = (*UNKNOWN_TO_ALL, "disk_bytes", *(f"tier.{key}" for key in TIER_UNKNOWN))

Wait = Callable[[float], Awaitable[None]]
"""Seconds between the two looks at the log ends."""


@click.command("capture")
@bootstrap_option
@click.option("--out", type=OutputFile(), help="Write it here (.yaml, .json), not to stdout.")
@click.option("--name", default="cluster", show_default=True, help="What reports call the cluster.")
@json_option
@window_option("Seconds between the two looks that produce rates come from; 0: none are measured.")
@click.option(
    "--known",
    "known",
    multiple=True,
    metavar="KEY=VALUE",
    help=f"What you know of every broker and of the tier, such as cores=16; keys: {', '.join(KNOWABLE)}. Repeatable.",
)
def capture_command(
    bootstrap: tuple[str, ...],
    out: Path | None,
    name: str,
    as_json: bool,
    window_s: float,
    known: tuple[str, ...],
) -> None:
    """Write the inventory of a live cluster, Apache Kafka's or tierfetch's, for the other `model` commands.

    \b
      tierfetch model capture --bootstrap kafka-1:9092 --out cluster.yaml \\
          --known cores=16 --known nic_in_bytes_per_s='10 Gbit/s' --known nic_out_bytes_per_s='10 Gbit/s'

    Only reading requests are sent. What no response says (network, disks, cores, the tier's latency) stands as FILL-IN
    in the file until you give it here or write it there; the other commands refuse it by name.
    """
    given = _known(known)
    terminal = Console(stderr=True)
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=terminal,
        disable=not terminal.is_terminal,
        transient=True,
    ) as bars:
        bar = bars.add_task("connect", total=None)

        async def wait(seconds: float) -> None:
            bars.update(bar, description=f"producers, for {seconds:g} s", total=seconds, completed=0)
            waited = 0.0
            while waited < seconds:
                await asyncio.sleep(min(TICK_S, seconds - waited))
                waited += TICK_S
                bars.update(bar, completed=waited)
            bars.update(bar, total=None)

        def progress(what: str) -> None:
            bars.update(bar, description=what)

        def observed(admin: Admin) -> Coroutine[None, None, tuple[Snapshot, Snapshot | None]]:
            return observe(Observer(admin, progress=progress), window_s, wait)

        first, second = run(bootstrap, observed)
    captured = capture(first, second, given, name)
    _say(captured, terminal)
    if out is None or as_json:
        click.echo(rendered(captured, as_json=as_json), nl=False)
    if out is None:
        return
    write_text(out, rendered(captured, as_json=out.suffix == ".json"))
    topics = captured.document["topics"]
    partitions = sum(len(topic["partitions"]) for topic in topics)
    brokers = len(captured.document["brokers"])
    terminal.print(f"{out}: {brokers} brokers, {len(topics):,} topics, {partitions:,} partitions", soft_wrap=True)


async def observe(observer: Observer, window_s: float, wait: Wait) -> tuple[Snapshot, Snapshot | None]:
    """Both looks; None for the second where no rates are wanted. KafkaError, OSError."""
    first = await observer.everything()
    if window_s <= 0:
        return first, None
    await wait(window_s)
    return first, await observer.growth(first)


def rendered(captured: Captured, *, as_json: bool) -> str:
    """The file: YAML with the blanks to fill in and what was odd as comments on top, or bare JSON."""
    if as_json:
        return json.dumps(captured.document, indent=1) + "\n"
    lines = [f"# {FILL_IN}: {each}" for each in captured.unknown] + [f"# note: {each}" for each in captured.remarks]
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    body = yaml.dump(captured.document, Dumper=dumper, sort_keys=False, default_flow_style=None, width=LINE_WIDTH)
    return "".join(f"{line}\n" for line in lines) + body


def _known(options: tuple[str, ...]) -> Mapping[str, str]:
    given = pairs(options, "--known", "cores=16")
    for key in given:
        if key not in KNOWABLE:
            raise click.UsageError(f"--known {key}: no such key; there are {', '.join(KNOWABLE)}")
    return given


def _say(captured: Captured, terminal: Console) -> None:
    for each in captured.remarks:
        terminal.print(f"note: {each}", style="yellow", highlight=False, soft_wrap=True)
    for each in captured.unknown:
        terminal.print(f"{FILL_IN}: {each}", style="bold red", highlight=False, soft_wrap=True)

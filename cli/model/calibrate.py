"""`tierfetch model calibrate`: what this machine and, if wished, a live cluster really do, as the model's JSON file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ... import byte_text
from ...model import CalibrationError, Calibrations, MachineRates, Past, System, learned
from ...remote import PluginError, RemoteStorageError, load_remote_storage
from ..admin.outlook_text import read_history
from ..cluster_session import Admin, explicit_bootstrap_option, run
from ..options import OutputFile, json_option, pairs, table_console
from . import probes
from .observe import Observer
from .pace import LeaderPace, paces

T = TypeVar("T")

DISK_MB: Final = 256
TIER_SEGMENT_MB: Final = 32
READ_MB: Final = 64
MB: Final = 1_000_000


class Steps:
    """A line on the terminal for each, with the seconds it takes."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars

    def run(self, what: str, work: Callable[[], T]) -> T:
        bar = self._bars.add_task(what, total=None)
        try:
            return work()
        finally:
            self._bars.update(bar, total=1, completed=1)


@click.command("calibrate")
@click.option("--out", type=OutputFile(), required=True, help="Write the calibration here.")
@click.option(
    "--base",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Begin with this calibration, not with the one that ships with the package.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    help="Probe the disk below this directory: choose one of a broker's.",
)
@click.option(
    "--size-mb", type=click.IntRange(1, 100_000), default=DISK_MB, show_default=True, help="Megabytes for each probe."
)
@click.option("--tier", "plugin", metavar="PLUGIN", help="Probe this tier too: local, s3, fsspec, or another plugin.")
@click.option(
    "--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of the tier's plugin; repeatable."
)
@explicit_bootstrap_option("Probe this live cluster's pace too.")
@click.option(
    "--read-mb",
    type=click.IntRange(1, 10_000),
    default=READ_MB,
    show_default=True,
    help="Megabytes to read from each leader.",
)
@click.option(
    "--from-history",
    "histories",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Learn from what `reassign` and `brokers wait` have kept: predictions and what they came to. Repeatable.",
)
@json_option
def calibrate_command(
    out: Path,
    base: Path | None,
    directory: Path,
    size_mb: int,
    plugin: str | None,
    options: tuple[str, ...],
    bootstrap: tuple[str, ...],
    read_mb: int,
    histories: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Measure this machine, and a live cluster's pace; write the calibration for the other `model` commands.

    \b
      tierfetch model calibrate --out calibration.json --dir /var/lib/kafka
      tierfetch model calibrate --out calibration.json --tier s3 --option bucket=tier --bootstrap kafka-1:9092
      tierfetch model calibrate --out calibration.json --from-history tierfetch-moves.history

    Probes move real bytes: through loopback, a file that is removed again, a topic of the tier that no cluster has, and
    reads of a consumer from each leader. Fixed seconds (process start, ISR expansion) stay those of --base: they are
    measured by replacing brokers, which this command does not.
    """
    try:
        found = Calibrations.default() if base is None else Calibrations.read(base)
    except CalibrationError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{base}: {error.strerror}") from None
    past = [each for path in histories for each in read_history(path)]
    check_base(found, past)
    leaders: dict[int, LeaderPace] = {}
    with _steps() as steps:
        machine = steps.run("disk, loopback, checksums", lambda: measured_machine(directory, size_mb * MB))
        if plugin is not None:
            machine = machine.model_copy(update=steps.run(f"tier {plugin}", lambda: _tier_figures(plugin, options)))
        if bootstrap:
            system, leaders = steps.run("leaders of the live cluster", lambda: _live(bootstrap, read_mb * MB))
            found = limited_by(found, system, leaders)
    found = found.model_copy(update={"machine": machine})
    found, said = taught(found, past) if histories else (found, [])
    found.write(out)
    if as_json:
        click.echo(found.model_dump_json(indent=1))
        return
    table = _table(machine)
    _add_leaders(table, leaders)
    table_console().print(table)
    for line in said:
        click.echo(line)
    click.echo(f"written: {out}")


@contextmanager
def _steps() -> Iterator[Steps]:
    terminal = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=terminal, disable=not terminal.is_terminal, transient=True) as bars:
        yield Steps(bars)


def measured_machine(directory: Path, size_bytes: int) -> MachineRates:
    """Without a tier."""
    disk = probes.disk(directory, size_bytes)
    return MachineRates(
        cores=os.cpu_count() or 1,
        loopback_bytes_per_s=probes.loopback_bytes_per_s(4 * size_bytes),
        disk_read_bytes_per_s=disk.read_bytes_per_s,
        disk_write_bytes_per_s=disk.write_bytes_per_s,
        fsync_s=disk.fsync_s,
        crc_bytes_per_s=probes.crc_bytes_per_s(4 * size_bytes),
    )


def _tier_figures(plugin: str, options: tuple[str, ...]) -> dict[str, float]:
    """The tier's fields of `MachineRates`."""

    async def probe() -> probes.TierFigures:
        storage = load_remote_storage(plugin, pairs(options, "--option", "dir=tier"), key_prefix="--option ")
        try:
            return await probes.tier(storage, TIER_SEGMENT_MB * MB)
        finally:
            await storage.close()

    try:
        figures = asyncio.run(probe())
    except (PluginError, RemoteStorageError) as error:
        raise click.ClickException(str(error)) from None
    return {
        "tier_put_bytes_per_s": figures.put_bytes_per_s,
        "tier_get_bytes_per_s": figures.get_bytes_per_s,
        "tier_request_s": figures.request_s,
    }


def _live(bootstrap: tuple[str, ...], read_bytes: int) -> tuple[System, dict[int, LeaderPace]]:
    async def probe(admin: Admin) -> tuple[System, dict[int, LeaderPace]]:
        snapshot = await Observer(admin, ledgers=None).everything()
        cluster = await admin.cluster()
        is_ours = any("bootstrap.policy" in broker.configs for broker in snapshot.brokers.values())
        system: System = "tierfetch" if is_ours else "kafka"
        return system, await paces(snapshot, cluster.brokers, cluster.topic_ids, read_bytes)

    return run(bootstrap, probe)


def limited_by(found: Calibrations, system: System, leaders: dict[int, LeaderPace]) -> Calibrations:
    """No follower copies faster than a reader that throws everything away: the slowest leader's pace is the limit.
    What it limits is a new measurement, of which no history says anything yet.
    """
    rates = [pace.fetch_bytes_per_s for pace in leaders.values() if pace.fetch_bytes_per_s is not None]
    if not rates or system not in found.systems:
        return found
    usual = found.systems[system]
    limit = min(rates)
    if limit >= usual.fetch_bytes_per_s:
        return found
    limited = usual.model_copy(update={"fetch_bytes_per_s": limit, "taught": None})
    return found.model_copy(update={"systems": {**found.systems, system: limited}})


def check_base(found: Calibrations, past: Sequence[Past]) -> None:
    """ClickException for constants that were learned themselves, of systems that the history has moves of."""
    for system in sorted({each.system for each in past} & set(found.systems)):
        if found.systems[system].taught is not None:
            raise click.ClickException(
                f"{system}: this calibration was learned from a history: as --base give the one that was measured, from"
                " which it was learned; or none, if that was the one that ships with the package"
            )


def taught(found: Calibrations, past: Sequence[Past]) -> tuple[Calibrations, list[str]]:
    """Return the constants with what past moves of each system say, and a line about each. Only moves that were
    predicted with these constants, or with what was learned from them, say something of them."""
    said = []
    for system, usual in found.systems.items():
        own = [each for each in past if each.system == system]
        if not own:
            continue
        ours = [each for each in own if each.base == usual.digest]
        if not ours:
            said.append(f"{system}: 0 of {len(own)} moves count: they were predicted with another calibration")
            continue
        lesson = learned(ours)
        better = usual.learned(lesson.scale, lesson.model, f"{lesson.moves} moves of its history")
        found = found.model_copy(update={"systems": {**found.systems, system: better}})
        said.append(
            f"{system}: {lesson.moves} of {len(own)} moves count; fixed times and paces times {lesson.scale:.2f}, error"
            f" of the model {better.spread.model - 1:.0%} in nine of ten cases"
        )
    return found, said or ["the history has no move of a system that was measured"]


def _table(machine: MachineRates) -> Table:
    table = Table("what", "measured", title="This machine")
    for what, rate in (
        ("loopback", machine.loopback_bytes_per_s),
        ("disk write, with fsync", machine.disk_write_bytes_per_s),
        ("disk read", machine.disk_read_bytes_per_s),
        ("CRC-32C", machine.crc_bytes_per_s),
        ("tier put", machine.tier_put_bytes_per_s),
        ("tier get", machine.tier_get_bytes_per_s),
    ):
        if rate is not None:
            table.add_row(what, byte_text.rate(rate))
    table.add_row("fsync of a small write", f"{machine.fsync_s * 1000:.2f} ms")
    if machine.tier_request_s is not None:
        table.add_row("small request to the tier", f"{machine.tier_request_s * 1000:.2f} ms")
    return table


def _add_leaders(table: Table, leaders: dict[int, LeaderPace]) -> None:
    for broker, pace in leaders.items():
        rate = "leads no records" if pace.fetch_bytes_per_s is None else byte_text.rate(pace.fetch_bytes_per_s)
        table.add_row(f"broker {broker}: fetch; round trip", f"{rate}; {pace.round_trip_s * 1000:.2f} ms")

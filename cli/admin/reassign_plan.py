"""`tierfetch reassign plan`: which replicas go where, from an inventory or a live cluster, as a file and as tables."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar, Unpack

import click
from click.core import ParameterSource
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ...byte_text import rate, size
from ...model import CalibrationError, Inventory, InventoryError, Policy
from ...planning import Goal, PlanError, PlanOptions
from ..cluster_session import Admin, bootstrap_option, run
from ..model.capture import observe
from ..model.estimate import UNKNOWN_TO_ALL, Captured, assume_size, capture, named
from ..model.observe import Observer
from ..model.options import calibration_option, policy_option
from ..model.quantities import between, clause, count, duration
from ..model.snapshot import Snapshot
from ..options import (
    FiniteRange,
    OutputFile,
    byte_size,
    json_option,
    table_console,
    throttle_rate,
    wave_option,
    window_option,
    write_text,
)

if TYPE_CHECKING:
    from ...model import Calibrations, ClusterArrays, Outlook
    from ...planning import ReplicaPlan

BROKERS_SHOWN_MAX: Final = 40
PREDICTED_MOVES_MAX: Final = 20_000
OUTLOOK_RESOLUTION: Final = 1e-2
UNKNOWN_DISK: Final = 2.0**62
USUAL_TIER: Final = {"latency_ms": "30", "bandwidth_bytes_per_s": "100 Gbit/s"}
NO_THROTTLE: Final = "no request returns what brokers can do: give --throttle, or an inventory by --cluster"
Command = TypeVar("Command", bound=Callable[..., object])


def _ids(_: click.Context, __: click.Parameter, given: Sequence[str]) -> tuple[int, ...]:
    try:
        return tuple(int(each) for text in given for each in text.split(","))
    except ValueError:
        raise click.BadParameter("expected broker ids, such as 4 or 4,5") from None


def _id_option(name: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, multiple=True, callback=_ids, metavar="ID[,ID...]", help=text)


_PlanOptions = TypedDict(
    "_PlanOptions",
    {
        "replace": list[int],
        "with": list[int],
        "remove": list[int],
        "add": list[int],
        "rebalance": bool,
        "policy": str | None,
        "calibration_path": Path | None,
        "throttle": float | None,
        "headroom": float,
        "tolerance": float,
        "partitions_per_broker": int,
        "unknown_size": float | None,
        "tier_first": bool,
        "roll_s": float,
        "repair_racks": bool,
        "keep_leaders": bool,
        "out": Path | None,
        "as_json": bool,
    },
)
"""The options of `plan`; `with` is no name that a class could have."""


@click.command("plan", short_help="Plan with as few moves and bytes as possible.")
@click.option(
    "--cluster",
    "cluster_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="An inventory (tierfetch model capture), in place of a live cluster.",
)
@bootstrap_option
@window_option("Seconds over which produce rates of a live cluster are taken; 0: none.")
@_id_option("--replace", "Brokers whose replicas go to those of --with, one to one.")
@_id_option("--with", "See --replace.")
@_id_option("--remove", "Brokers that shall hold nothing.")
@_id_option("--add", "Brokers that shall take their share of the others'.")
@click.option("--rebalance", is_flag=True, help="Move replicas from the fullest brokers to the emptiest.")
@policy_option
@calibration_option
@click.option(
    "--throttle",
    type=throttle_rate,
    metavar="RATE",
    help="Throttle of each broker, such as '50 MiB/s'; by default what --headroom leaves.",
)
@click.option(
    "--headroom",
    type=FiniteRange(min=0),
    default=0.25,
    show_default=True,
    help="The share by which producers and consumers may grow while replicas move.",
)
@click.option(
    "--tolerance",
    type=FiniteRange(min=0, max=1),
    default=0.1,
    show_default=True,
    help="The share of the mean by which brokers may differ: replicas, bytes, leaders.",
)
@wave_option("That come to, and go from, a broker in one wave.")
@click.option(
    "--unknown-size",
    type=byte_size,
    metavar="SIZE",
    help="The size to assume where a partition's is unknown, such as '10 GiB'; without it no plan is made.",
)
@click.option("--tier-first", is_flag=True, help="Have leaders roll and tier first: less to copy, smaller segments.")
@click.option(
    "--roll-after",
    "roll_s",
    type=FiniteRange(min=1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="With --tier-first: the age at which leaders roll a segment.",
)
@click.option("--repair-racks", is_flag=True, help="Also move replicas that share a rack.")
@click.option("--keep-leaders", is_flag=True, help="Do not even out preferred leaders.")
@click.option("--out", type=OutputFile(), help="Write the plan here.")
@json_option
def plan(
    cluster_path: Path | None, bootstrap: tuple[str, ...], window_s: float, **options: Unpack[_PlanOptions]
) -> None:
    """Plan with as few moves and bytes as possible, and say how few any plan needs.

    \b
      tierfetch reassign plan --replace 3 --with 7 --bootstrap kafka:9092 --out plan.json
      tierfetch reassign plan --cluster cluster.yaml --add 11,12 --throttle '50 MiB/s' --out plan.json

    Bytes are those that are not in the tier. The file is read by kafka-reassign-partitions too.
    """
    from ...planning import plan_file_of, plan_replicas
    from ..model.inputs import calibrations_of

    is_live_named = click.get_current_context().get_parameter_source("bootstrap") is not ParameterSource.DEFAULT
    if cluster_path is not None and is_live_named:
        raise click.UsageError("name one: an inventory by --cluster FILE, or a live cluster by --bootstrap HOST:PORT")
    calibrations = calibrations_of(options["calibration_path"])
    dead: frozenset[int] = frozenset()
    if cluster_path is not None:
        arrays = _from_file(cluster_path)
    else:
        arrays, dead = _from_cluster(bootstrap, window_s, options["unknown_size"])
    began_s = time.perf_counter()
    try:
        found = plan_replicas(arrays, replace(_goal(arrays, options), closed=dead), _options(options))
    except PlanError as error:
        raise click.ClickException(str(error)) from None
    planned_s = time.perf_counter() - began_s
    console = Console(stderr=True)
    for line in found.warnings:
        console.print(f"[yellow]warning:[/] {escape(line)}", highlight=False)
    if not len(found.changed):
        click.echo("nothing to do: every broker is within the tolerance" if not options["as_json"] else "{}")
        return
    outlook = _outlook(arrays, found, _options(options), calibrations, is_live=cluster_path is None)
    text = plan_file_of(arrays, found, outlook).to_text()
    if options["out"] is not None:
        write_text(options["out"], text)
    if options["as_json"]:
        click.echo(json.dumps(_summary(arrays, found, planned_s, outlook), indent=1))
        return
    _print(arrays, found, planned_s)
    if outlook is not None:
        click.echo(_outlook_text(outlook))
    if options["out"] is None:
        click.echo(text, nl=False)
    else:
        click.echo(f"{options['out']}: carry it out with `tierfetch reassign execute {options['out']}`")


def _goal(arrays: ClusterArrays, options: _PlanOptions) -> Goal:
    """UsageError unless there is one goal, of brokers that exist."""
    wanted = [name for name in ("replace", "remove", "add", "rebalance") if options[name]]
    if len(wanted) != 1:
        raise click.UsageError("give one of --replace ... --with ..., --remove, --add, --rebalance")
    ids = {name: _indexes(arrays, options[name]) for name in ("replace", "with", "remove", "add")}
    if len(set(ids["replace"])) != len(ids["replace"]):
        raise click.UsageError("--replace names a broker twice")
    if len(ids["replace"]) != len(ids["with"]):
        raise click.UsageError("--replace and --with need as many brokers each")
    match wanted[0]:
        case "replace":
            return Goal.replace(dict(zip(ids["replace"], ids["with"], strict=True)))
        case "remove":
            return Goal.remove(ids["remove"])
        case "add":
            return Goal.add(ids["add"])
        case _:
            return Goal.rebalance()


def _indexes(arrays: ClusterArrays, ids: Sequence[int]) -> list[int]:
    try:
        return [arrays.broker_index(each) for each in ids]
    except KeyError as error:
        raise click.UsageError(str(error.args[0])) from None


def _options(options: _PlanOptions) -> PlanOptions:
    tolerance = options["tolerance"]
    return PlanOptions(
        policy=Policy(options["policy"]) if options["policy"] else None,
        replica_tolerance=tolerance,
        disk_tolerance=tolerance,
        leader_tolerance=tolerance,
        balances_leaders=not options["keep_leaders"],
        repairs_racks=options["repair_racks"],
        throttle_bytes_per_s=options["throttle"],
        headroom=options["headroom"],
        partitions_per_broker=options["partitions_per_broker"],
        tier_first=options["tier_first"],
        roll_s=options["roll_s"],
    )


def _from_file(path: Path) -> ClusterArrays:
    from ...model import ClusterArrays

    try:
        return ClusterArrays.from_inventory(Inventory.read(path))
    except InventoryError as error:
        raise click.ClickException("\n".join(error.problems)) from None
    except OSError as error:
        raise click.ClickException(f"{path}: cannot be read: {error.strerror}") from None


def _from_cluster(
    bootstrap: tuple[str, ...], window_s: float, unknown_size: float | None
) -> tuple[ClusterArrays, frozenset[int]]:
    """And the brokers that are not alive. What no request returns of brokers (network, disks) counts as unlimited.
    ClickException names partitions of unknown size, unless one is given for them.
    """
    import numpy as np

    from ...model import ClusterArrays

    first, second = run(bootstrap, lambda admin: _observed(admin, window_s))
    known = dict.fromkeys(UNKNOWN_TO_ALL, "1") | {f"tier.{key}": value for key, value in USUAL_TIER.items()}
    captured = capture(first, second, known, "cluster")
    for each in captured.remarks:
        click.echo(f"note: {each}", err=True)
    document = captured.document
    _assume_sizes(captured, unknown_size)
    for broker in document["brokers"]:
        if not isinstance(broker.get("disk_bytes"), int | float):
            broker["disk_bytes"] = UNKNOWN_DISK
    try:
        arrays = ClusterArrays.from_inventory(Inventory.from_document(document))
    except InventoryError as error:
        raise click.ClickException("\n".join(error.problems)) from None
    free = np.full(arrays.broker_count, np.inf)
    dead = frozenset(np.flatnonzero(~np.isin(arrays.broker_ids, list(first.brokers))).tolist())
    disks = np.where(arrays.disk_bytes < UNKNOWN_DISK, arrays.disk_bytes, np.inf)
    arrays = replace(arrays, nic_in=free, nic_out=free, disk_read=free, disk_write=free, cores=free, disk_bytes=disks)
    return arrays, dead


def _assume_sizes(captured: Captured, unknown_size: float | None) -> None:
    if not captured.unsized:
        return
    unsized = f"of unknown size: {named(captured.unsized)}"
    if unknown_size is None:
        raise click.ClickException(
            f"{unsized}; say what each counts with --unknown-size '10 GiB', or write the sizes into the file of"
            " `tierfetch model capture` and give it with --cluster"
        )
    assume_size(captured.document, unknown_size)
    click.echo(f"note: {unsized}; each counts {size(unknown_size)}", err=True)


async def _observed(admin: Admin, window_s: float) -> tuple[Snapshot, Snapshot | None]:
    return await observe(Observer(admin), window_s, asyncio.sleep)


# --- what is shown --------------------------------------------------------------------------------------------------


def _outlook(
    arrays: ClusterArrays, found: ReplicaPlan, options: PlanOptions, calibrations: Calibrations, *, is_live: bool
) -> Outlook | None:
    """How long the moves take. None where nothing is known that limits them (a live cluster, without a throttle), where
    they never end, of a system that was not measured, and of more moves than are predicted while a person waits.
    """
    import numpy as np

    from ...model import outlook_of, predict

    throttle = found.throttle_bytes_per_s
    is_limited = bool(np.isfinite(throttle)) or not is_live
    if not is_limited or not 0 < len(found.moves) <= PREDICTED_MOVES_MAX:
        return None
    policy = options.policy or arrays.policy
    try:
        calibration = calibrations.of(policy)
    except CalibrationError:
        return None
    arrays = replace(arrays, throttle_bytes_per_s=throttle)
    prediction = predict(arrays, found.moves, policy, calibration, resolution=OUTLOOK_RESOLUTION)
    waits_s = 0.0 if found.tier_step is None else found.tier_step.wait_s
    return outlook_of(arrays, prediction, 1 + found.move_bytes, waits_s)


def _outlook_text(outlook: Outlook) -> str:
    most = f" (most of that: {outlook.effects[0].name})" if outlook.effects else ""
    within = between(outlook.low_s, outlook.high_s)
    return f"predicted to take {duration(outlook.median_s)}, in 80 % of the cases {within}{most}"


def _summary(arrays: ClusterArrays, found: ReplicaPlan, planned_s: float, outlook: Outlook | None) -> dict[str, object]:
    import numpy as np

    bound, throttle = found.bound, found.throttle_bytes_per_s
    step = found.tier_step
    return {
        "moves": bound.moves,
        "moves_min": bound.moves_min,
        "bytes": round(bound.bytes),
        "bytes_min": round(bound.bytes_min),
        "partitions": len(found.changed),
        "waves": found.wave_count,
        "throttle_bytes_per_s": round(throttle) if np.isfinite(throttle) else None,
        "transfer_s": _transfer_s(found),
        "predicted_s": None
        if outlook is None
        else {"low": outlook.low_s, "median": outlook.median_s, "high": outlook.high_s},
        "tier_first_saves_bytes": None if step is None else round(step.saved_bytes),
        "tier_first_puts": None if step is None else step.puts,
        "tier_first_put_cost": None if step is None else step.put_cost,
        "planned_s": round(planned_s, 4),
        "warnings": list(found.warnings),
        "brokers": [
            {
                "id": int(arrays.broker_ids[broker]),
                "replicas": [int(found.before.replicas[broker]), int(found.after.replicas[broker])],
                "disk_bytes": [round(found.before.disk_bytes[broker]), round(found.after.disk_bytes[broker])],
                "leaders": [int(found.before.leaders[broker]), int(found.after.leaders[broker])],
            }
            for broker in range(arrays.broker_count)
        ],
    }


def _transfer_s(found: ReplicaPlan) -> float | None:
    """Return the seconds of all waves at the throttle, each set by the broker that receives most; None without one."""
    import numpy as np

    if not np.isfinite(found.throttle_bytes_per_s) or not len(found.moves):
        return None
    brokers = int(found.moves.target.max()) + 1
    cells = found.moves.wave.astype(np.int64) * brokers + found.moves.target
    received = np.bincount(cells, weights=found.move_bytes, minlength=found.wave_count * brokers)
    busiest = received.reshape(-1, brokers).max(axis=1)
    return round(float(busiest.sum()) / found.throttle_bytes_per_s, 1)


def _cost(cost: float) -> str:
    return f" ({cost:,.2f} in the inventory's currency)" if cost else ""


def _print(arrays: ClusterArrays, found: ReplicaPlan, planned_s: float) -> None:
    import numpy as np

    console, bound = table_console(), found.bound
    console.print(
        f"{clause(bound.moves, 'replica', 'moves', 'move')}, {size(bound.bytes)} to copy, in"
        f" {count(found.wave_count, 'wave')} ({duration(planned_s)} to plan)",
        highlight=False,
    )
    console.print(
        f"any plan needs at least {bound.moves_min:,} moves, and {size(bound.bytes_min)} with at most as many moves"
        f" as this one: at most {bound.moves_gap:.1%} of the moves and {bound.bytes_gap:.1%} of the bytes are too many",
        highlight=False,
    )
    if transfer_s := _transfer_s(found):
        throttle = rate(found.throttle_bytes_per_s)
        console.print(f"throttle {throttle} a broker: {duration(transfer_s)} at least", highlight=False)
    elif not np.isfinite(found.throttle_bytes_per_s):
        console.print(f"[yellow]no throttle:[/] {NO_THROTTLE}", highlight=False)
    if found.tier_step is not None:
        step = found.tier_step
        console.print(
            f"tiering first saves {size(step.saved_bytes)}, and takes {duration(step.wait_s)} and"
            f" {count(step.puts, 'write')} to the tier at least{_cost(step.put_cost)}",
            highlight=False,
        )
    table = Table("broker", "rack", "replicas", "", "on disk", "", "leads", "")
    before, after = found.before, found.after
    shown = [
        broker
        for broker in range(arrays.broker_count)
        if before.replicas[broker] != after.replicas[broker] or before.leaders[broker] != after.leaders[broker]
    ]
    for broker in shown[:BROKERS_SHOWN_MAX]:
        table.add_row(
            str(arrays.broker_ids[broker]),
            escape(arrays.rack_names[arrays.racks[broker]]),
            f"{before.replicas[broker]:,}",
            f"-> {after.replicas[broker]:,}",
            size(before.disk_bytes[broker]),
            f"-> {size(after.disk_bytes[broker])}",
            f"{before.leaders[broker]:,.0f}",
            f"-> {after.leaders[broker]:,.0f}",
        )
    console.print(table)
    if len(shown) > BROKERS_SHOWN_MAX:
        console.print(f"... and {len(shown) - BROKERS_SHOWN_MAX} brokers more", highlight=False)

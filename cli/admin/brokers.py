"""`tierfetch brokers`: who is there, what they hold."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TypedDict

import click
from rich.table import Table

from ... import byte_text
from ...extras import needing
from ...light_dataclass import dataclass
from ...model import CalibrationError, Outlook, Past
from ...planning import Key, sizes_differ
from ...protocol import BROKER_ENDPOINTS, OUTSIDE, cluster_of
from ...protocol.messages.brokers import UnregisterBrokerRequest
from ...protocol.messages.cluster import DescribeClusterBroker, MetadataResponsePartition
from ...protocol.net import Address
from ..cluster_session import Admin, bootstrap_option, run
from ..model.options import calibration_option
from ..options import FiniteRange, json_option, report, table_console, yes_option
from .broker_wait import BrokerProgress, WaitingBar, wait_for
from .local_state import LocalState, local_state, warming_text
from .outlook_text import HISTORY_NAME, history_option, keep_if_possible, outcome_text
from .reassign_cluster import PlanCluster


@click.group("brokers")
def brokers() -> None:
    """List brokers and what they hold, wait for one to catch up, or remove one for good.

    \b
      tierfetch brokers list
      tierfetch brokers wait 3 --warm
      tierfetch brokers unregister 3
    """


@brokers.command("list", short_help="Brokers with their partitions, leaderships and bytes.")
@bootstrap_option
@json_option
def list_brokers(bootstrap: tuple[str, ...], as_json: bool) -> None:
    """List all brokers, fenced ones too, with their partitions, leaderships and bytes.

    Failed: replicas whose log does not let them serve, as on a full disk. Thin: replicas that began at the end of the
    tier, and lead last. Warming: what is still to come from the tier for these, and for how long.

    \b
      tierfetch brokers list --bootstrap kafka-1:9092
    """
    rows = run(bootstrap, _rows)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    columns = ("broker", "address", "rack", "state", "replicas", "leads", "out of sync", "failed", "thin")
    table = Table(*columns, "local bytes", "warming")
    for row in rows:
        size = row["local_bytes"]
        shown = [value for key, value in row.items() if key not in {"local_bytes", "warming"}]
        cells = ["-" if value is None else str(value) for value in shown]
        cells += ["?" if size is None else byte_text.size(size), warming_text(row["warming"])]
        table.add_row(*cells, style="red" if row["state"] == "fenced" or row["out_of_service"] else None)
    table_console().print(table)


@brokers.command("unregister")
@click.argument("broker", type=int)
@click.option(
    "--force", is_flag=True, help="Remove it even if it is alive: other brokers lead until it is back in sync."
)
@bootstrap_option
@json_option
@yes_option("A broker that still runs registers again. Continue?")
def unregister_broker(broker: int, force: bool, bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Remove BROKER, which will not come back, from the cluster.

    \b
      tierfetch brokers unregister 3 --yes
    """

    async def unregister(admin: Admin) -> None:
        if not force and await _is_alive(admin, broker):
            raise click.ClickException(
                f"broker {broker} is alive: it would lose its leaderships, and register again at once. Stop it first,"
                " or give --force"
            )
        await admin.send(UnregisterBrokerRequest(broker_id=broker))

    run(bootstrap, unregister)
    report(as_json, {"unregistered": broker}, f"broker {broker} is forgotten")


async def _is_alive(admin: Admin, broker: int) -> bool:
    """Whether it is registered and not fenced."""
    described = await admin.send(cluster_of(BROKER_ENDPOINTS))
    return any(each.broker_id == broker for each in described.brokers)


@brokers.command("wait", short_help="Wait until every replica of a broker is in sync.")
@click.argument("broker", type=int)
@click.option("--warm", is_flag=True, help="Wait also until no replica is thin or fetches from the tier.")
@click.option(
    "--timeout",
    "timeout_s",
    type=FiniteRange(min=0),
    default=3600.0,
    show_default=True,
    help="Give up after this many seconds.",
)
@click.option(
    "--cluster",
    "cluster_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="An inventory of before (tierfetch model capture): shows when a replaced broker will be in sync.",
)
@calibration_option
@history_option
@bootstrap_option
@json_option
def wait_for_broker(
    broker: int,
    warm: bool,
    timeout_s: float,
    cluster_path: Path | None,
    calibration_path: Path | None,
    history_path: Path | None,
    bootstrap: tuple[str, ...],
    as_json: bool,
) -> None:
    """Wait until every replica of BROKER is in sync, such as after a restart or a replacement.

    Shows how far it is, and for how long. Exit code 1 if the time is over.

    \b
      tierfetch brokers wait 3 --warm --timeout 600
    """
    foreseen = _Foreseen() if cluster_path is None else _foreseen(cluster_path, broker, calibration_path)
    outlook = foreseen.outlook
    began_s = time.monotonic()
    with WaitingBar(outlook=outlook) as bar:

        async def work(admin: Admin) -> BrokerProgress:
            if outlook is not None and (differs := await _difference(admin, foreseen.held_bytes)):
                click.echo(f"note: the cluster is not as predicted for: {differs}", err=True)
                bar.events[differs] = None
            return await wait_for(admin, broker, bar.show, with_warming=warm, timeout_s=timeout_s)

        done = run(bootstrap, work)
    seconds = round(time.monotonic() - began_s, 3)
    if outlook is not None and bar.saw_it_all and bar.in_sync_s is not None:
        past = Past.of(
            outlook,
            bar.in_sync_s,
            at_ms=int(time.time() * 1000),
            cluster_id=foreseen.cluster,
            what=f"replace broker {broker}",
            broken="; ".join(bar.events),
        )
        keep_if_possible(history_path or Path(HISTORY_NAME), past)
        click.echo(outcome_text(outlook, bar.in_sync_s), err=True)
    if as_json:
        click.echo(json.dumps({**done.as_json(), "seconds": seconds}, indent=1))
    else:
        click.echo(f"{done}, after {seconds:.1f} s")


@dataclass(frozen=True, slots=True)
class _Foreseen:
    """How long a broker's replacement takes from now on, the cluster's name in the inventory, and what leaders hold of
    the partitions that come back, as that says.
    """

    outlook: Outlook | None = None
    cluster: str = ""
    held_bytes: Mapping[Key, int] = field(default_factory=dict)


async def _difference(admin: Admin, expected: Mapping[Key, int]) -> str:
    """In what the sizes on leaders' disks are others than the inventory's; "" too where no broker says."""
    cluster = PlanCluster(admin)
    try:
        await cluster.state(sorted({topic for topic, _ in expected}))
        return sizes_differ(expected, await cluster.held_bytes(expected))
    except OUTSIDE:
        return ""


def _foreseen(cluster_path: Path, broker: int, calibration_path: Path | None) -> _Foreseen:
    """What the inventory leads to. ClickException."""
    with needing("model"):
        import numpy as np

        from ...model import ClusterArrays, Inventory, outlook_of, predict, replacement_moves
        from ..model.inputs import calibrations_of

    try:
        arrays = ClusterArrays.from_inventory(Inventory.read(cluster_path))
        moves = replacement_moves(arrays, arrays.broker_index(broker))
    except KeyError as error:
        raise click.UsageError(str(error.args[0])) from None
    except OSError as error:
        raise click.ClickException(f"{cluster_path}: cannot be read: {error.strerror}") from None
    try:
        calibration = calibrations_of(calibration_path).of(arrays.policy)
    except CalibrationError as error:
        raise click.ClickException(str(error)) from None
    found = predict(arrays, moves, arrays.policy, calibration)
    names = [(arrays.topic_names[arrays.topic[each]], int(arrays.index[each])) for each in moves.partition]
    held = dict(zip(names, arrays.local_bytes[moves.partition].astype(int).tolist(), strict=True))
    return _Foreseen(outlook_of(arrays, found, np.ones(len(moves))), arrays.name, held)


class BrokerRow(TypedDict):
    """A broker as `--json` shows it; None where it was not asked, or did not answer."""

    broker: int
    address: str
    rack: str | None
    state: str
    replicas: int
    leads: int
    out_of_sync: int
    out_of_service: int | None
    thin: int | None
    local_bytes: int | None
    warming: dict[str, int | None] | None


async def _rows(admin: Admin) -> list[BrokerRow]:
    described = await admin.send(cluster_of(BROKER_ENDPOINTS, include_fenced_brokers=True))
    cluster = await admin.cluster()
    parts = [part for topic in cluster.topics for part in topic.partitions]
    rows: list[BrokerRow] = []
    for broker in sorted(described.brokers, key=lambda broker: broker.broker_id):
        state = None if broker.is_fenced else await local_state(admin, Address(broker.host, broker.port))
        rows.append(broker_row(broker, parts, state))
    return rows


def broker_row(
    broker: DescribeClusterBroker, parts: Sequence[MetadataResponsePartition], state: LocalState | None
) -> BrokerRow:
    """Return what is known of a broker; `parts` are all partitions of the cluster."""
    number = broker.broker_id
    warming = None if state is None else state.total_warming()
    return {
        "broker": number,
        "address": f"{broker.host}:{broker.port}",
        "rack": broker.rack,
        "state": "fenced" if broker.is_fenced else "alive",
        "replicas": sum(number in part.replica_nodes for part in parts),
        "leads": sum(number == part.leader_id for part in parts),
        "out_of_sync": sum(number in part.replica_nodes and number not in part.isr_nodes for part in parts),
        "out_of_service": None if state is None else len(state.out_of_service),
        "thin": None if state is None else len(state.warm_in_ms),
        "local_bytes": None if state is None else state.size_bytes,
        "warming": None if warming is None else warming.as_json(),
    }

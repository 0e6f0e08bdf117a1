"""`tierfetch log-dirs`: the log directories of each broker, and where each replica is (DescribeLogDirs)."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import TypedDict

import click
from rich.table import Table

from ... import byte_text
from ...protocol import OUTSIDE, ErrorCode
from ...protocol.messages.cluster import DescribeLogDirsRequest, DescribeLogDirsResult
from ...protocol.net import Address
from ..cluster_session import Admin, bootstrap_option, run
from ..options import json_option, table_console


@click.group("log-dirs")
def log_dirs() -> None:
    """Log directories of brokers.

    \b
      tierfetch log-dirs describe --broker 1 --topic orders
      tierfetch reassign execute move.json     moves replicas between them: log_dirs in the plan
    """


class _Replica(TypedDict):
    """A replica in one log directory, as `--json` shows it; `future`: it is a copy that will take the place."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    future: bool
    out_of_service: bool


class _Directory(TypedDict):
    """A log directory, as `--json` shows it; bytes are None where the broker or its disk does not report them."""

    broker: int
    directory: str | None
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: list[_Replica]


@log_dirs.command("describe", short_help="Bytes of each log directory, and the replicas in it.")
@click.option("--broker", "brokers", type=int, multiple=True, help="Only this broker; may be repeated.")
@click.option("--topic", "topics", multiple=True, help="Only replicas of this topic, each in a row; may be repeated.")
@click.option("--replicas", "shows_replicas", is_flag=True, help="A row for each replica, of all topics.")
@bootstrap_option
@json_option
def describe(
    brokers: tuple[int, ...], topics: tuple[str, ...], shows_replicas: bool, bootstrap: tuple[str, ...], as_json: bool
) -> None:
    """Bytes of each log directory, and the replicas in it; those that are being moved always have a row.

    Lag: the offsets that a replica lacks up to its high watermark; of a future log, up to the end of the log whose
    place it will take, ? while that is not known. Exit code 1 if a broker did not answer; the others are shown.

    \b
      tierfetch log-dirs describe --broker 1 --topic orders
    """
    rows = run(bootstrap, lambda admin: _rows(admin, brokers, topics))
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    else:
        _print(rows, shows_all=shows_replicas or bool(topics))
    if silent := [f"broker {row['broker']}: {row['error']}" for row in rows if row["directory"] is None]:
        raise click.ClickException("\n".join(silent))


def _print(rows: Sequence[_Directory], *, shows_all: bool) -> None:
    console = table_console()
    table = Table("broker", "directory", "state", "total", "usable", "replicas", "bytes", "moving in")
    for row in rows:
        replicas = row["replicas"]
        cells = (
            str(row["broker"]),
            row["directory"] or "?",
            row["error"] or "online",
            *("?" if found is None else byte_text.size(found) for found in (row["total_bytes"], row["usable_bytes"])),
            str(sum(not replica["future"] for replica in replicas)),
            byte_text.size(sum(replica["size_bytes"] for replica in replicas)),
            str(sum(replica["future"] for replica in replicas)),
        )
        table.add_row(*cells, style="red" if row["error"] else None)
    console.print(table)
    shown = [(row, replica) for row in rows for replica in row["replicas"] if shows_all or replica["future"]]
    if not shown:
        return
    table = Table("broker", "directory", "topic", "partition", "bytes", "lag", "state")
    for row, replica in shown:
        state = "future" if replica["future"] else "failed" if replica["out_of_service"] else "current"
        lag = "?" if replica["offset_lag"] < 0 else str(replica["offset_lag"])
        size = byte_text.size(replica["size_bytes"])
        place = (str(row["broker"]), row["directory"], replica["topic"], str(replica["partition"]))
        table.add_row(*place, size, lag, state, style="red" if replica["out_of_service"] else None)
    console.print(table)


async def _rows(admin: Admin, brokers: Sequence[int], topics: Collection[str]) -> list[_Directory]:
    """Ask every broker that is alive, or those named. KafkaError if a topic does not exist."""
    cluster = await admin.cluster(sorted(topics) or None)
    rows: list[_Directory] = []
    for broker in sorted(set(brokers or cluster.brokers)):
        rows += await _of_broker(admin, broker, cluster.brokers.get(broker), topics)
    return rows


async def _of_broker(admin: Admin, broker: int, address: Address | None, topics: Collection[str]) -> list[_Directory]:
    if address is None:
        return [_silent(broker, "is not alive, or there is no such broker")]
    try:
        answer = await admin.send_to(address, DescribeLogDirsRequest(topics=None))
    except OUTSIDE as error:
        return [_silent(broker, str(error))]
    return [_row(broker, result, topics) for result in answer.results]


def _silent(broker: int, why: str) -> _Directory:
    return {
        "broker": broker,
        "directory": None,
        "error": why,
        "total_bytes": None,
        "usable_bytes": None,
        "replicas": [],
    }


def _row(broker: int, result: DescribeLogDirsResult, topics: Collection[str]) -> _Directory:
    is_offline = result.error_code is ErrorCode.kafka_storage_error
    error = None if result.error_code is ErrorCode.none else "offline" if is_offline else result.error_code.name
    return {
        "broker": broker,
        "directory": result.log_dir,
        "error": error,
        "total_bytes": result.total_bytes if result.total_bytes >= 0 else None,
        "usable_bytes": result.usable_bytes if result.usable_bytes >= 0 else None,
        "replicas": [
            {
                "topic": topic.name,
                "partition": part.partition_index,
                "size_bytes": part.partition_size,
                "offset_lag": part.offset_lag,
                "future": part.is_future_key,
                "out_of_service": part.is_out_of_service,
            }
            for topic in result.topics
            if not topics or topic.name in topics
            for part in topic.partitions
        ],
    }

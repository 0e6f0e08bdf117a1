"""`tierfetch transactions`: list, describe, producers, find-hanging and abort; what kafka-transactions.sh does."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, TypedDict

import click
from rich.table import Table

from ...protocol import ErrorCode, KafkaError, TopicPartition
from ..admin.leaders import partitions_of
from ..cluster_session import Admin, Cluster, bootstrap_option, run
from ..options import FiniteRange, json_option, report, table_console, yes_option
from .asking import (
    describe_producers,
    describe_transaction,
    fence,
    list_transactions,
    write_abort_marker,
)
from .hanging import NO_TRANSACTION, Described, Producer, hanging, old_open

MARGIN_S: Final = 300
"""What a coordinator may take to end a transaction after its timeout."""
LONGEST_S: Final = 900
"""The default of `transaction.max.timeout.ms`."""
STATES: Final = (
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Empty",
    "PrepareEpochFence",
    "Dead",
)


@click.group("transactions")
def transactions() -> None:
    """Transactions: which are open, which hang, and how to end one.

    \b
      tierfetch transactions list --state Ongoing
      tierfetch transactions find-hanging
      tierfetch transactions abort --id payments-7
    """


@transactions.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(STATES), help="Only this one; repeatable.")
@click.option("--producer-id", "producer_ids", multiple=True, type=int, help="Only this one; repeatable.")
@click.option(
    "--longer-than", "longer_than_s", type=FiniteRange(min=0), help="Only those open for more than these seconds."
)
@bootstrap_option
@json_option
def list_command(
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than_s: float | None,
    bootstrap: tuple[str, ...],
    as_json: bool,
) -> None:
    """List transactional ids, with their states and the broker that coordinates each.

    \b
      tierfetch transactions list --longer-than 60
    """

    async def work(admin: Admin) -> list[dict[str, object]]:
        found = await list_transactions(
            admin,
            await admin.cluster(()),
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=-1 if longer_than_s is None else int(longer_than_s * 1000),
        )
        keys = ("transactional_id", "producer_id", "state", "coordinator")
        return [dict(zip(keys, row, strict=True)) for row in found]

    rows = run(bootstrap, work)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    elif not rows:
        click.echo("no transactional id" + (" is so" if states or producer_ids or longer_than_s is not None else ""))
    else:
        _print_table(("transactional id", "producer id", "state", "coordinator"), [list(row.values()) for row in rows])


@transactions.command("describe")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@bootstrap_option
@json_option
def describe_command(ids: tuple[str, ...], bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Show the state of transactional ids, for how long they are open, and the partitions in them.

    \b
      tierfetch transactions describe payments-7
    """

    async def work(admin: Admin) -> list[dict[str, object]]:
        return [_document(*(await describe_transaction(admin, each))) for each in ids]

    found = run(bootstrap, work)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for one in found:
        since = "" if one["started_at"] is None else f", open since {one['started_at']} ({one['open_for_s']} s)"
        click.echo(f"{one['transactional_id']}: {one['state']}{since}, timeout {one['timeout_ms']} ms")
        click.echo(
            f"  producer {one['producer_id']}, epoch {one['producer_epoch']}; coordinated by {one['coordinator']}"
        )
        parts = one["partitions"]
        assert isinstance(parts, list)
        click.echo(f"  partitions: {', '.join(parts) or 'none'}")


class _ProducerRow(TypedDict):
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_record_at: str
    open_since_offset: int | None


@transactions.command("producers")
@click.argument("topic")
@click.option("--partition", "numbers", type=click.IntRange(0), multiple=True, help="Only this one; repeatable.")
@bootstrap_option
@json_option
def producers_command(topic: str, numbers: tuple[int, ...], bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Show the idempotent and transactional producers that the leaders of TOPIC know, and what they have open.

    \b
      tierfetch transactions producers orders --partition 3
    """

    async def work(admin: Admin) -> list[Producer]:
        cluster = await admin.cluster([topic])
        found = await describe_producers(admin, cluster, partitions_of(cluster, numbers))
        return [each for _, some in sorted(found.items()) for each in some]

    _print_producers(run(bootstrap, work), as_json, "no producer with an id has written there lately")


@transactions.command("find-hanging", short_help="Open transactions that no coordinator will end.")
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@click.option(
    "--longest",
    "longest_s",
    type=FiniteRange(min=0),
    default=float(LONGEST_S),
    show_default=True,
    help="The brokers' transaction.max.timeout.ms, in seconds.",
)
@bootstrap_option
@json_option
def find_hanging_command(topics: tuple[str, ...], longest_s: float, bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Find open transactions of partitions that no coordinator knows, in all topics if none is named.

    Readers of committed records wait for them for ever. A transaction is looked at once its last record is older than
    --longest and five minutes. Exit code 1 if there are any: tierfetch transactions abort ends each.

    \b
      tierfetch transactions find-hanging orders
    """
    limit_ms = int((longest_s + MARGIN_S) * 1000)

    async def work(admin: Admin) -> list[Producer]:
        cluster = await admin.cluster(list(topics) or None)
        found = await describe_producers(admin, cluster, partitions_of(cluster))
        candidates = old_open(
            [each for _, some in sorted(found.items()) for each in some],
            now_ms=int(time.time() * 1000),
            longer_than_ms=limit_ms,
        )
        return await _hanging(admin, cluster, candidates)

    found = run(bootstrap, work)
    _print_producers(found, as_json, "no transaction hangs")
    if not as_json:
        for each in found:
            click.echo(
                f"tierfetch transactions abort --topic {each.partition.topic} --partition {each.partition.partition}"
                f" --start-offset {each.start_offset}"
            )
    if found:
        raise SystemExit(1)


@transactions.command("abort", short_help="Abort one open transaction.")
@click.option("--id", "transactional_id", metavar="ID", help="What this transactional id has open.")
@click.option("--topic", help="The topic with a transaction that hangs.")
@click.option("--partition", type=click.IntRange(0), help="Its partition.")
@click.option("--start-offset", type=click.IntRange(0), help="Where the transaction begins there.")
@bootstrap_option
@json_option
@yes_option("What was written in the transaction is never read as committed. Continue?")
def abort_command(
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    bootstrap: tuple[str, ...],
    as_json: bool,
) -> None:
    """Abort what a transactional id has open, or a transaction that hangs in one partition.

    With --id its coordinator aborts it in every partition, and refuses its present producer from then on. With a
    partition and an offset, as find-hanging shows them, the leader ends it there, past any coordinator.

    \b
      tierfetch transactions abort --id payments-7
      tierfetch transactions abort --topic orders --partition 3 --start-offset 120000 --yes
    """
    if transactional_id is not None and topic is None and partition is None and start_offset is None:
        before = run(bootstrap, lambda admin: _abort_id(admin, transactional_id))
        is_done = before == "Ongoing"
        said = f"aborted what {transactional_id} had open" if is_done else f"{transactional_id} had nothing open"
        report(as_json, {"transactional_id": transactional_id, "state_before": before, "aborted": is_done}, said)
        return
    if transactional_id is not None or topic is None or partition is None or start_offset is None:
        raise click.UsageError("either --id, or --topic, --partition and --start-offset are needed")
    name = TopicPartition(topic, partition)
    producer = run(bootstrap, lambda admin: _abort_hanging(admin, name, start_offset))
    document = {"topic": topic, "partition": partition, "start_offset": start_offset, "producer_id": producer}
    report(as_json, document, f"aborted the transaction of producer {producer} in {name} from offset {start_offset} on")


async def _abort_id(admin: Admin, transactional_id: str) -> str:
    """Return the state that it had."""
    described, _ = await describe_transaction(admin, transactional_id)
    if described.state == "Ongoing":
        await fence(admin, transactional_id)
    return described.state


async def _abort_hanging(admin: Admin, name: TopicPartition, start_offset: int) -> int:
    """Return the producer's id. KafkaError if no transaction begins there."""
    cluster = await admin.cluster([name.topic])
    producers = (await describe_producers(admin, cluster, partitions_of(cluster, (name.partition,)))).get(name)
    if producers is None:
        raise KafkaError(ErrorCode.leader_not_available, f"{name} has no leader: try again")
    found = [each for each in producers if each.start_offset == start_offset]
    if not found:
        opened = ", ".join(str(each.start_offset) for each in producers if each.start_offset != NO_TRANSACTION)
        raise KafkaError(
            ErrorCode.invalid_request,
            f"{name} has no transaction that begins at {start_offset}; those open begin at: {opened or 'none is'}",
        )
    await write_abort_marker(admin, cluster, found[0])
    return found[0].producer_id


async def _hanging(admin: Admin, cluster: Cluster, candidates: Sequence[Producer]) -> list[Producer]:
    """Return those that no coordinator will end; nothing is asked where there are no candidates."""
    if not candidates:
        return []
    wanted = sorted({each.producer_id for each in candidates})
    listed = await list_transactions(admin, cluster, producer_ids=wanted)
    ids = {producer_id: transactional_id for transactional_id, producer_id, _, _ in listed}
    described: dict[str, Described | None] = {}
    for transactional_id in sorted(set(ids.values())):
        try:
            described[transactional_id], _ = await describe_transaction(admin, transactional_id)
        except KafkaError as error:
            if error.code is not ErrorCode.transactional_id_not_found:
                raise
            described[transactional_id] = None
    return hanging(candidates, ids, described)


def _document(found: Described, coordinator: object) -> dict[str, object]:
    is_open = found.start_ms is not None and found.state in ("Ongoing", "PrepareCommit", "PrepareAbort")
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "started_at": _moment(found.start_ms) if is_open and found.start_ms is not None else None,
        "open_for_s": round(time.time() - found.start_ms / 1000) if is_open and found.start_ms is not None else None,
        "coordinator": str(coordinator),
        "partitions": sorted(str(each) for each in found.partitions),
    }


def _print_producers(found: Sequence[Producer], as_json: bool, nothing: str) -> None:
    rows: list[_ProducerRow] = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "coordinator_epoch": each.coordinator_epoch,
            "last_sequence": each.last_sequence,
            "last_record_at": _moment(each.last_timestamp_ms),
            "open_since_offset": None if each.start_offset == NO_TRANSACTION else each.start_offset,
        }
        for each in found
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    elif not rows:
        click.echo(nothing)
    else:
        _print_table([key.replace("_", " ") for key in rows[0]], [list(row.values()) for row in rows])


def _print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(*headings)
    for row in rows:
        table.add_row(*("-" if value is None else str(value) for value in row))
    table_console().print(table)


def _moment(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""`tierfetch delete-records`: raise the log start offset of partitions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, TypedDict

import click
from rich.table import Table

from ...protocol import ErrorCode, TopicPartition
from ...protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ...protocol.net import Address
from ..cluster_session import Admin, bootstrap_option, run
from ..options import json_option, table_console, yes_option
from .leaders import by_leader, of_each_leader, partitions_of

TIMEOUT_MS: Final = 30_000
HIGH_WATERMARK: Final = -1
"""In place of an offset: everything that is committed."""


class _Row(TypedDict):
    topic: str
    partition: int
    log_start_offset: int | None
    error: str | None


@click.command("delete-records", short_help="Delete the records of partitions below an offset.")
@click.argument("topic")
@click.option("--partition", "numbers", type=click.IntRange(0), multiple=True, help="Only this one; repeatable.")
@click.option("--before", type=click.IntRange(0), help="Delete records below this offset.")
@click.option("--all", "is_all", is_flag=True, help="Delete all records that are committed.")
@bootstrap_option
@json_option
@yes_option("These records are deleted, on brokers and in the tier. Continue?")
def delete_records(
    topic: str,
    numbers: tuple[int, ...],
    before: int | None,
    is_all: bool,
    bootstrap: tuple[str, ...],
    as_json: bool,
) -> None:
    """Delete the records of TOPIC below an offset, on its brokers and in the tier.

    \b
      tierfetch delete-records orders --partition 3 --before 120000
      tierfetch delete-records orders --all

    Exit code 1 if a partition refuses, which its row explains; the others are done.
    """
    if (before is None) is not is_all:
        raise click.UsageError("one of --before OFFSET and --all is needed")
    rows = run(bootstrap, lambda admin: _delete(admin, topic, numbers, HIGH_WATERMARK if before is None else before))
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    else:
        table = Table("topic", "partition", "begins at", "error")
        for row in rows:
            begin, error = row["log_start_offset"], row["error"]
            cells = (row["topic"], str(row["partition"]), "-" if begin is None else str(begin), error or "")
            table.add_row(*cells, style="red" if error else None)
        table_console().print(table)
    if any(row["error"] for row in rows):
        raise SystemExit(1)


async def _delete(admin: Admin, topic: str, numbers: tuple[int, ...], before: int) -> list[_Row]:
    cluster = await admin.cluster([topic])
    partitions = partitions_of(cluster, numbers)

    async def ask(
        address: Address, asked: Sequence[TopicPartition]
    ) -> dict[TopicPartition, DeleteRecordsPartitionResult]:
        parts = tuple(DeleteRecordsPartition(partition_index=one.partition, offset=before) for one in asked)
        request = DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name=topic, partitions=parts),), timeout_ms=TIMEOUT_MS
        )
        response = await admin.send_to(address, request)
        return {
            TopicPartition(each.name, result.partition_index): result
            for each in response.topics
            for result in each.partitions
        }

    answers = await of_each_leader(by_leader(cluster, partitions), ask)
    return [_row(partition, answers.get(partition)) for partition in partitions]


def _row(partition: TopicPartition, answer: DeleteRecordsPartitionResult | None) -> _Row:
    code = ErrorCode.leader_not_available if answer is None else answer.error_code
    is_done = answer is not None and code is ErrorCode.none
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "log_start_offset": answer.low_watermark if answer is not None and is_done else None,
        "error": None if is_done else code.name.upper(),
    }

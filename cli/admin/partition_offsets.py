"""`tierfetch offsets`: where each partition begins and ends, in the tier and on the disks of its replicas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

import click
from rich.table import Table

from ...protocol import ErrorCode, TopicPartition
from ...protocol.messages.cluster import MetadataResponsePartition
from ...protocol.messages.offsets import ListOffsetsPartitionResponse
from ...protocol.net import Address
from ..cluster_session import Admin, bootstrap_option, run
from ..options import json_option, table_console
from .leaders import list_of_one, list_offsets, partitions_of

QUESTIONS: Final = {"earliest": -2, "local": -4, "tiered": -5, "pending": -6, "latest": -1}
"""The timestamps that stand for special offsets (KIP-405, KIP-1005, KIP-1023)."""


class _Row(TypedDict):
    topic: str
    partition: int
    earliest: int | None
    local: int | None
    tiered: int | None
    pending: int | None
    latest: int | None


@click.command("offsets", short_help="First, local, tiered, pending and last offset of each partition.")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--partition", "numbers", type=click.IntRange(0), multiple=True, help="Only this one; repeatable.")
@click.option("--replicas", "by_replica", is_flag=True, help="A row for each replica, as its own broker says.")
@bootstrap_option
@json_option
def offsets(
    names: tuple[str, ...], numbers: tuple[int, ...], by_replica: bool, bootstrap: tuple[str, ...], as_json: bool
) -> None:
    """Show where each partition of the topics begins and ends, as its leader says.

    \b
      earliest  the first offset that can be read, from the tier or from disk
      local     the first offset on the leader's disk
      tiered    the last offset that is in the tier
      pending   the next offset to be copied to the tier: where an empty follower begins
      latest    the offset of the next record that is committed

    \b
      tierfetch offsets orders
      tierfetch offsets orders --partition 3 --json
      tierfetch offsets orders --replicas

    "-" stands for an offset that there is not, such as one of the tier in a topic without remote storage, or one that
    the broker's version does not know. With --replicas `latest` is the end of each log, committed or not, and leaders
    alone know what is in the tier.
    """
    rows: Sequence[Mapping[str, object]] = run(
        bootstrap, lambda admin: (_replica_rows if by_replica else _rows)(admin, names, numbers)
    )
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    table = Table("topic", "partition", *(("broker", "role") if by_replica else ()), *QUESTIONS)
    for row in rows:
        table.add_row(*("-" if value is None else str(value) for value in row.values()))
    table_console().print(table)


async def _rows(admin: Admin, names: tuple[str, ...], numbers: tuple[int, ...]) -> list[_Row]:
    cluster = await admin.cluster(names)
    partitions = partitions_of(cluster, numbers)
    answers = {key: await list_offsets(admin, cluster, partitions, timestamp) for key, timestamp in QUESTIONS.items()}
    return [_row(one, {key: known_offset(found.get(one)) for key, found in answers.items()}) for one in partitions]


async def _replica_rows(admin: Admin, names: tuple[str, ...], numbers: tuple[int, ...]) -> list[dict[str, object]]:
    """Ask the broker of each replica. One that does not answer has no offsets in its rows."""
    cluster = await admin.cluster(names)
    parts = {
        TopicPartition(topic.name, part.partition_index): part for topic in cluster.topics for part in topic.partitions
    }
    wanted = partitions_of(cluster, numbers)
    brokers = sorted({broker for one in wanted for broker in parts[one].replica_nodes})
    found: dict[int, dict[str, dict[TopicPartition, ListOffsetsPartitionResponse]]] = {}
    for broker in brokers:
        held = [one for one in wanted if broker in parts[one].replica_nodes]
        found[broker] = await _of_replicas(admin, cluster.brokers.get(broker), held)
    return [
        {"topic": one.topic, "partition": one.partition, "broker": broker, "role": _role(parts[one], broker)}
        | {key: known_offset(answers.get(one)) for key, answers in found[broker].items()}
        for one in wanted
        for broker in parts[one].replica_nodes
    ]


async def _of_replicas(
    admin: Admin, address: Address | None, held: Sequence[TopicPartition]
) -> dict[str, dict[TopicPartition, ListOffsetsPartitionResponse]]:
    answers: dict[str, dict[TopicPartition, ListOffsetsPartitionResponse]] = {key: {} for key in QUESTIONS}
    if address is None:
        return answers
    for key, timestamp in QUESTIONS.items():
        try:
            answers[key] = await list_of_one(admin, address, held, timestamp, asks_any_replica=True)
        except OSError:
            break
    return answers


def _role(part: MetadataResponsePartition, broker: int) -> str:
    if broker == part.leader_id:
        return "leader"
    return "in sync" if broker in part.isr_nodes else "out of sync"


def _row(partition: TopicPartition, offsets: dict[str, int | None]) -> _Row:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "earliest": offsets["earliest"],
        "local": offsets["local"],
        "tiered": offsets["tiered"],
        "pending": offsets["pending"],
        "latest": offsets["latest"],
    }


def known_offset(answer: ListOffsetsPartitionResponse | None) -> int | None:
    """Return the offset of an answer that has one."""
    if answer is None or answer.error_code is not ErrorCode.none or answer.offset < 0:
        return None
    return answer.offset

"""`tierfetch topics`: list, describe, create, alter, grow, shrink and delete topics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, TypedDict

import click
from rich.table import Table

from ...protocol import ErrorCode, TopicPartition
from ...protocol.messages.cluster import MetadataResponsePartition
from ...protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from ...protocol.wire import ResourceType
from ..cluster_session import Admin, ListedTopic, bootstrap_option, check, run
from ..model.quantities import count as counted
from ..options import json_option, pairs, report, table_console, yes_option
from .local_state import local_state, warming_text
from .near_keys import suggesting_keys
from .topic_changes import TopicChange, plan_change, read_topic, send_change

TIMEOUT_MS: Final = 30_000


@click.group("topics")
def topics() -> None:
    """List, describe, create, alter, grow, shrink and delete topics.

    \b
      tierfetch topics create orders --partitions 12 --replication 3 --config remote.storage.enable=true
      tierfetch topics describe orders
      tierfetch topics alter orders --partitions 24 --set local.retention.ms=3600000
    """


@topics.command("list")
@bootstrap_option
@json_option
def list_topics(bootstrap: tuple[str, ...], as_json: bool) -> None:
    """List all topics with their numbers of partitions and replicas.

    \b
      tierfetch topics list
    """
    cluster = run(bootstrap, lambda admin: admin.cluster())
    rows = [_summary(topic) for topic in cluster.topics]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    table = Table("topic", "partitions", "replicas", "out of sync", "without a leader")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    table_console().print(table)


@topics.command("describe", short_help="Leader, replicas and ISR of each partition.")
@click.argument("names", nargs=-1, required=True)
@bootstrap_option
@json_option
def describe_topics(names: tuple[str, ...], bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Show leader, replicas and ISR of each partition, and the brokers on which the replica cannot serve (failed),
    is thin, or is being filled from the tier (warming).

    \b
      tierfetch topics describe orders
    """
    rows = run(bootstrap, lambda admin: _described(admin, names))
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    table = Table("topic", "partition", "leader", "epoch", "replicas", "in sync", "failed", "thin", "warming")
    for row in rows:
        cells = [_text(value) for key, value in row.items() if key != "warming"]
        cells.append("; ".join(f"{broker}: {warming_text(each)}" for broker, each in row["warming"].items()))
        is_hurt = row["leader"] < 0 or row["failed"]
        table.add_row(*cells, style="red" if is_hurt else "yellow" if _is_short(row) else None)
    table_console().print(table)


@topics.command("create")
@click.argument("name")
@click.option(
    "--partitions", type=click.IntRange(1), help="Number of partitions; by default the cluster's num.partitions."
)
@click.option(
    "--replication",
    type=click.IntRange(1),
    help="Replicas of each partition; by default the cluster's default.replication.factor.",
)
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="A config of the topic; repeatable.")
@bootstrap_option
@json_option
def create_topic(
    name: str,
    partitions: int | None,
    replication: int | None,
    configs: tuple[str, ...],
    bootstrap: tuple[str, ...],
    as_json: bool,
) -> None:
    """Create the topic NAME.

    \b
      tierfetch topics create orders --partitions 12 --replication 3 --config remote.storage.enable=true
    """
    wanted = pairs(configs, "--config", "retention.ms=86400000")
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions or -1,
        replication_factor=replication or -1,
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in wanted.items()),
    )

    async def create(admin: Admin) -> CreatableTopicResult:
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS)
        (created,) = (await admin.send(request)).topics
        with suggesting_keys(ResourceType.TOPIC, wanted):
            check(created, f"topic {created.name}")
        return created

    created = run(bootstrap, create)
    counts = {"partitions": created.num_partitions, "replicas": created.replication_factor}
    report(as_json, {"created": name, **counts}, f"created {name}")


@topics.command("alter", short_help="Add partitions; set and unset configs.")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(1), help="The new number of partitions; more than there are.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set this config; repeatable.")
@click.option(
    "--unset", "unsets", multiple=True, metavar="KEY", help="Remove this config, so that the default holds; repeatable."
)
@click.option("--dry-run", is_flag=True, help="Show what would change; the cluster checks it, and changes nothing.")
@bootstrap_option
@json_option
def alter_topic(
    name: str,
    partitions: int | None,
    sets: tuple[str, ...],
    unsets: tuple[str, ...],
    dry_run: bool,
    bootstrap: tuple[str, ...],
    as_json: bool,
) -> None:
    """Change the topic NAME: add partitions, set configs, and remove configs. All is checked before anything changes.

    \b
      tierfetch topics alter orders --partitions 24 --set local.retention.ms=3600000 --unset segment.bytes --dry-run
    """
    given = pairs(sets, "--set", "retention.ms=86400000")
    if partitions is None and not given and not unsets:
        raise click.UsageError("nothing to change: --partitions N, --set KEY=VALUE or --unset KEY")

    async def alter(admin: Admin) -> TopicChange:
        count, own = await read_topic(admin, name, unsets)
        change = plan_change(name, count, own, partitions=partitions, sets=given, unsets=unsets)
        await send_change(admin, change, given, unsets, validate_only=dry_run)
        return change

    change = run(bootstrap, alter)
    if change.is_empty:
        text = f"{name} is so already: nothing changes"
    else:
        head = f"{name} would change:" if dry_run else f"changed {name}:"
        text = "\n  ".join([head, *change.lines()])
    report(as_json, {**change.as_json(), "dry_run": dry_run}, text)


@topics.command("grow")
@click.argument("name")
@click.option("--to", "count", type=click.IntRange(1), required=True, help="The new number of partitions.")
@bootstrap_option
@json_option
def grow_topic(name: str, count: int, bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Add partitions to the topic NAME. New records of a key may go to another partition than its old ones.

    \b
      tierfetch topics grow orders --to 24
    """
    _change_count(bootstrap, CreatePartitionsTopic(name=name, count=count, assignments=None))
    report(as_json, {"topic": name, "partitions": count}, f"{name} has {counted(count, 'partition')}")


@topics.command("shrink", short_help="Remove the last partitions, with their records.")
@click.argument("name")
@click.option(
    "--to", "count", type=click.IntRange(1), required=True, help="The new number of partitions; the first ones stay."
)
@bootstrap_option
@json_option
@yes_option("The records of the removed partitions are lost. Continue?")
def shrink_topic(name: str, count: int, bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Remove the last partitions of the topic NAME, with their records. Only tierfetch clusters can, with the feature
    tierfetch.version at 1.

    \b
      tierfetch topics shrink orders --to 6
    """
    change = CreatePartitionsTopic(name=name, count=count, assignments=None, remove_last_partitions=True)
    _change_count(bootstrap, change)
    report(as_json, {"topic": name, "partitions": count}, f"{name} has {counted(count, 'partition')}")


@topics.command("delete")
@click.argument("names", nargs=-1, required=True)
@bootstrap_option
@json_option
@yes_option("Their records are lost, on brokers and in the tier. Continue?")
def delete_topics(names: tuple[str, ...], bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Delete topics with all their records, on brokers and in the tier.

    \b
      tierfetch topics delete orders payments --yes
    """

    async def delete(admin: Admin) -> None:
        topics = tuple(DeleteTopicState(name=name, topic_id=None) for name in names)
        answers = (await admin.send(DeleteTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS))).responses
        deleted = [answer.name for answer in answers if answer.error_code is ErrorCode.none]
        if as_json or deleted:
            report(as_json, {"deleted": deleted}, f"deleted {', '.join(map(str, deleted))}")
        for answer in answers:
            check(answer, f"topic {answer.name}")

    run(bootstrap, delete)


def _change_count(bootstrap: Sequence[str], topic: CreatePartitionsTopic) -> None:
    async def change(admin: Admin) -> None:
        request = CreatePartitionsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS, validate_only=False)
        (changed,) = (await admin.send(request)).results
        check(changed, f"topic {changed.name}")

    run(bootstrap, change)


def _summary(topic: ListedTopic) -> dict[str, object]:
    parts = topic.partitions
    return {
        "topic": topic.name,
        "partitions": len(parts),
        "replicas": max((len(part.replica_nodes) for part in parts), default=0),
        "out_of_sync": sum(len(part.isr_nodes) < len(part.replica_nodes) for part in parts),
        "leaderless": sum(part.leader_id < 0 for part in parts),
    }


class _PartitionRow(TypedDict):
    """A partition as `--json` shows it."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]


class _DescribedRow(_PartitionRow):
    """A partition with what its brokers say of their replicas."""

    failed: list[int]
    thin: list[int]
    warming: dict[int, dict[str, int | None]]


async def _described(admin: Admin, names: Sequence[str]) -> list[_DescribedRow]:
    cluster = await admin.cluster(names)
    states = {broker: await local_state(admin, address) for broker, address in sorted(cluster.brokers.items())}
    rows: list[_DescribedRow] = []
    for topic in cluster.topics:
        for part in sorted(topic.partitions, key=lambda part: part.partition_index):
            name = TopicPartition(topic.name, part.partition_index)
            warming = {
                broker: state.warming[name].as_json()
                for broker, state in states.items()
                if state is not None and name in state.warming
            }
            known = {broker: state for broker, state in states.items() if state is not None}
            failed = {broker for broker, state in known.items() if name in state.out_of_service}
            rows.append(
                {
                    **_partition(topic.name, part),
                    "failed": sorted(failed.union(part.offline_replicas)),
                    "thin": sorted(broker for broker, state in known.items() if name in state.warm_in_ms),
                    "warming": warming,
                }
            )
    return rows


def _partition(topic: str, part: MetadataResponsePartition) -> _PartitionRow:
    return {
        "topic": topic,
        "partition": part.partition_index,
        "leader": part.leader_id,
        "leader_epoch": part.leader_epoch,
        "replicas": list(part.replica_nodes),
        "isr": list(part.isr_nodes),
    }


def _is_short(row: _PartitionRow) -> bool:
    return len(row["isr"]) < len(row["replicas"])


def _text(value: object) -> str:
    if isinstance(value, list):
        return " ".join(str(item) for item in value)
    return "none" if value == -1 else str(value)

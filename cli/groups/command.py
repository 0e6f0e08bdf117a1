"""`tierfetch groups`: list, describe, lag, reset and delete."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TypedDict

import click
from rich.table import Table

from ...protocol import ErrorCode, KafkaError, TopicPartition
from ...protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsResponseDescribedGroup
from ...protocol.messages.offsets import ListOffsetsPartitionResponse
from ..admin.leaders import list_offsets, partitions_of
from ..admin.partition_offsets import QUESTIONS
from ..cluster_session import Admin, Cluster, bootstrap_option, check, run
from ..options import json_option, table_console, yes_option
from .coordinators import (
    commit_offsets,
    committed_offsets,
    coordinator_of,
    describe_group,
    list_groups,
    patiently,
)
from .lag import LagRow, lag_rows, total_lag
from .reset import Anchor, Target, new_offset, parse


@click.group("groups")
def groups() -> None:
    """Consumer groups: their members, what they have committed, and how far they lag.

    \b
      tierfetch groups list
      tierfetch groups lag billing
      tierfetch groups reset billing --topic orders --to 2026-01-31T12:00:00Z
    """


class _ListRow(TypedDict):
    group: str
    state: str
    protocol: str
    coordinator: str


@groups.command("list")
@bootstrap_option
@json_option
def list_command(bootstrap: tuple[str, ...], as_json: bool) -> None:
    """List all groups, with their states and the broker that coordinates each.

    \b
      tierfetch groups list
    """
    rows = run(bootstrap, _listed)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    if not rows:
        click.echo("no group has committed anything, and none has members")
        return
    table = Table("group", "state", "protocol", "coordinator")
    for row in rows:
        table.add_row(row["group"], row["state"], row["protocol"], row["coordinator"])
    table_console().print(table)


@groups.command("describe", short_help="State and members of groups.")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@bootstrap_option
@json_option
def describe_command(names: tuple[str, ...], bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Show the state and members of groups, with the partitions assigned to each member. See also `groups lag`.

    \b
      tierfetch groups describe billing
    """

    async def work(admin: Admin) -> list[dict[str, object]]:
        cluster = await admin.cluster()
        return [await _described(admin, cluster, name) for name in names]

    found = run(bootstrap, work)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for group in found:
        click.echo(f"{group['group']}: {group['state']}, assignor {group['assignor'] or '-'}, lag {group['lag'] or 0}")
        table = Table("member", "client", "host", "partitions")
        members = group["members"]
        assert isinstance(members, list)
        for member in members:
            table.add_row(member["member"], member["client"], member["host"], ", ".join(member["partitions"]) or "-")
        table_console().print(table)


@groups.command("lag", short_help="How far a group lags, for each partition.")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@bootstrap_option
@json_option
def lag_command(names: tuple[str, ...], bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Show what groups have committed, where their partitions end, and the difference: the records still to be read.

    \b
      tierfetch groups lag billing
    """

    async def work(admin: Admin) -> dict[str, list[LagRow]]:
        cluster = await admin.cluster()
        return {name: (await group_lag(admin, cluster, name))[1] for name in names}

    found = run(bootstrap, work)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for name, rows in found.items():
        total = total_lag(rows)
        click.echo(f"{name}: {'nothing committed' if total is None else f'{total} records to read'}")
        table = Table("topic", "partition", "committed", "end", "lag", "member", "client", "host")
        for row in rows:
            table.add_row(*("-" if value is None else str(value) for value in row.values()))
        if rows:
            table_console().print(table)


class _ResetRow(TypedDict):
    topic: str
    partition: int
    committed: int | None
    new: int


@groups.command("reset", short_help="Have a group continue at another offset.")
@click.argument("group")
@click.option("--topic", "topics", multiple=True, required=True, help="A topic of the group; repeatable.")
@click.option("--partition", "numbers", type=click.IntRange(0), multiple=True, help="Only this one; repeatable.")
@click.option("--to", "target", required=True, metavar="WHERE", help="See above.")
@click.option("--dry-run", is_flag=True, help="Show the new offsets, and commit nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
@json_option
def reset_command(
    group: str,
    topics: tuple[str, ...],
    numbers: tuple[int, ...],
    target: str,
    dry_run: bool,
    yes: bool,
    bootstrap: tuple[str, ...],
    as_json: bool,
) -> None:
    """Have GROUP, which must have no members, continue at other offsets.

    \b
      --to earliest              the first offset of each partition, in the tier or on disk
      --to latest                the end of each partition
      --to 120000                this offset
      --to +100, --to -100       this much after, or before, what it has committed
      --to 2026-01-31T12:00:00Z  the first record of this time or later; UTC where no zone is given

    Offsets outside of a partition become its first or its last.

    \b
      tierfetch groups reset billing --topic orders --to earliest
    """
    try:
        where = parse(target)
    except ValueError as error:
        raise click.UsageError(f"--to {error}") from None

    def show(rows: list[_ResetRow]) -> None:
        table = Table("topic", "partition", "committed", "new")
        for row in rows:
            table.add_row(*("-" if value is None else str(value) for value in row.values()))
        table_console().print(table)

    async def work(admin: Admin) -> list[_ResetRow]:
        cluster = await admin.cluster(topics)
        await _check_is_empty(admin, group)
        rows = await _planned(admin, cluster, group, numbers, where)
        if not rows:
            raise click.ClickException(f"group {group} has committed nothing there that --to {target} could count from")
        if not as_json:
            show(rows)
        if not dry_run:
            if not yes:
                click.confirm(f"Have {group} continue there?", abort=True, err=as_json)
            offsets = {TopicPartition(row["topic"], row["partition"]): row["new"] for row in rows}
            await commit_offsets(admin, cluster, group, offsets)
        return rows

    rows = run(bootstrap, work)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    else:
        click.echo("nothing was committed: --dry-run" if dry_run else f"{group} continues there")


@groups.command("delete")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@bootstrap_option
@json_option
@yes_option("What they have committed is lost. Continue?")
def delete_command(names: tuple[str, ...], bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Delete groups, which must have no members, with what they have committed.

    \b
      tierfetch groups delete billing
    """

    async def delete(admin: Admin, name: str) -> None:
        request = DeleteGroupsRequest(groups_names=(name,))
        response = await admin.send_to(await coordinator_of(admin, name), request)
        try:
            check(response.results[0], f"group {name}")
        except KafkaError as error:
            if error.code is ErrorCode.non_empty_group:
                raise KafkaError(error.code, f"group {name} has members: stop them first") from None
            raise

    deleted: list[str] = []

    async def work(admin: Admin) -> None:
        for name in names:
            await patiently(partial(delete, admin, name))
            deleted.append(name)
            if not as_json:
                click.echo(f"deleted {name}")

    try:
        run(bootstrap, work)
    finally:
        if as_json:
            click.echo(json.dumps({"deleted": deleted}, indent=1))


async def _listed(admin: Admin) -> list[_ListRow]:
    cluster = await admin.cluster()
    rows: list[_ListRow] = []
    for group in await list_groups(admin, cluster):
        rows.append(
            {
                "group": group.group_id,
                "state": group.group_state,
                "protocol": group.protocol_type or "-",
                "coordinator": str(await coordinator_of(admin, group.group_id)),
            }
        )
    return rows


async def _described(admin: Admin, cluster: Cluster, name: str) -> dict[str, object]:
    group, rows = await group_lag(admin, cluster, name)
    partitions: dict[str, list[str]] = {member.member_id: [] for member in group.members}
    for row in rows:
        if row["member"] is not None:
            partitions[row["member"]].append(f"{row['topic']}-{row['partition']}")
    return {
        "group": name,
        "state": group.group_state,
        "assignor": group.protocol_data,
        "lag": total_lag(rows),
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.client_host,
                "partitions": partitions[member.member_id],
            }
            for member in group.members
        ],
    }


async def group_lag(
    admin: Admin, cluster: Cluster, name: str
) -> tuple[DescribeGroupsResponseDescribedGroup, list[LagRow]]:
    """Return the group with its rows. ClickException if it is unknown: no members, nothing committed."""
    group = await describe_group(admin, name)
    committed = await committed_offsets(admin, cluster, name)
    if group.group_state == "Dead" and not committed:
        raise click.ClickException(f"group {name} does not exist: it has no members, and has committed nothing")
    rows = lag_rows(group, committed, {})
    asked = [TopicPartition(row["topic"], row["partition"]) for row in rows]
    return group, lag_rows(group, committed, await list_offsets(admin, cluster, asked, QUESTIONS["latest"]))


async def _check_is_empty(admin: Admin, name: str) -> None:
    group = await describe_group(admin, name)
    if group.members:
        clients = ", ".join(sorted({f"{member.client_id} at {member.client_host}" for member in group.members}))
        raise click.ClickException(f"group {name} has members ({clients}): stop them first")


async def _planned(
    admin: Admin, cluster: Cluster, group: str, numbers: tuple[int, ...], where: Target
) -> list[_ResetRow]:
    """Return a row for each partition with an offset to commit."""
    partitions = partitions_of(cluster, numbers)
    committed = await committed_offsets(admin, cluster, group)
    earliest = _found(await list_offsets(admin, cluster, partitions, QUESTIONS["earliest"]))
    latest = _found(await list_offsets(admin, cluster, partitions, QUESTIONS["latest"]))
    at_time: Mapping[TopicPartition, int] = {}
    if where.anchor is Anchor.TIME:
        at_time = _found(await list_offsets(admin, cluster, partitions, where.number))
    rows: list[_ResetRow] = []
    for partition in partitions:
        if partition not in earliest or partition not in latest:
            raise KafkaError(ErrorCode.leader_not_available, f"{partition} has no leader that answers: try again")
        before = committed.get(partition)
        new = new_offset(
            where,
            earliest=earliest[partition],
            latest=latest[partition],
            committed=before,
            at_time=at_time.get(partition),
        )
        if new is not None:
            rows.append({"topic": partition.topic, "partition": partition.partition, "committed": before, "new": new})
    return rows


def _found(answers: Mapping[TopicPartition, ListOffsetsPartitionResponse]) -> dict[TopicPartition, int]:
    """Return the offsets of the partitions that have one; -1 stands for none."""
    return {
        partition: answer.offset
        for partition, answer in answers.items()
        if answer.error_code is ErrorCode.none and answer.offset >= 0
    }

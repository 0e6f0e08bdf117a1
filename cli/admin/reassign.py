"""`tierfetch reassign`: move replicas, watch them arrive, cancel.

Plans are the JSON of kafka-reassign-partitions:

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import click
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ..options import json_option, table_console
from .session import Admin, bootstrap_option, check, run

TIMEOUT_MS: Final = 30_000
WATCH_INTERVAL_S: Final = 0.5


class PlannedPartition(BaseModel):
    """Where the replicas of one partition shall be, the preferred leader first."""

    model_config = ConfigDict(extra="ignore")

    topic: str
    partition: int = Field(ge=0)
    replicas: list[int] = Field(min_length=1)


class Plan(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="ignore")

    version: Literal[1] = 1
    partitions: list[PlannedPartition] = Field(min_length=1)


def read_plan(path: Path) -> Plan:
    try:
        return Plan.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise click.ClickException(f"{path}: {where}: {first['msg']}") from None
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None


@click.group("reassign")
def reassign() -> None:
    """Move replicas to other brokers.

    \b
      tierfetch reassign execute plan.json     returns when every replica has moved
      tierfetch reassign list                  what is under way
      tierfetch reassign cancel plan.json      back to where they were
    """


@reassign.command("list")
@bootstrap_option
@json_option
def list_reassignments(bootstrap: tuple[str, ...], as_json: bool) -> None:
    """What is under way."""
    rows = run(bootstrap, lambda admin: under_way(admin, None))
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    table = Table("topic", "partition", "replicas", "adding", "removing")
    for row in rows:
        cells = [" ".join(map(str, value)) if isinstance(value, list) else str(value) for value in row.values()]
        table.add_row(*cells)
    table_console().print(table)


@reassign.command("execute")
@click.argument("plan_file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--no-wait", is_flag=True, help="Return as soon as the controller has taken it.")
@bootstrap_option
def execute(plan_file: Path, no_wait: bool, bootstrap: tuple[str, ...]) -> None:
    """Move the replicas as PLAN_FILE says. Survives the end of this command: `list` shows how far it is."""
    plan = read_plan(plan_file)

    async def work(admin: Admin) -> None:
        await alter(admin, [(part.topic, part.partition, part.replicas) for part in plan.partitions])
        if not no_wait:
            await watch(admin, plan)

    run(bootstrap, work)
    click.echo(f"{len(plan.partitions)} partitions {'begin to move' if no_wait else 'have moved'}")


@reassign.command("cancel")
@click.argument("plan_file", type=click.Path(path_type=Path, dir_okay=False))
@bootstrap_option
def cancel(plan_file: Path, bootstrap: tuple[str, ...]) -> None:
    """Stop what is under way of PLAN_FILE's partitions: their replicas stay, or go back, where they were."""
    plan = read_plan(plan_file)

    async def work(admin: Admin) -> int:
        wanted = {(part.topic, part.partition) for part in plan.partitions}
        moving = [(row["topic"], row["partition"]) for row in await under_way(admin, None)]
        found = [(topic, partition, None) for topic, partition in moving if (topic, partition) in wanted]
        if found:
            await alter(admin, found)
        return len(found)

    click.echo(f"{run(bootstrap, work)} moves cancelled")


async def alter(admin: Admin, moves: Sequence[tuple[str, int, list[int] | None]]) -> None:
    """KafkaError of the first partition that is refused. Replicas None: cancel."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, partition, replicas in moves:
        topics.setdefault(topic, []).append({"partition_index": partition, "replicas": replicas})
    body = {
        "timeout_ms": TIMEOUT_MS,
        "allow_replication_factor_change": True,
        "topics": [{"name": topic, "partitions": parts} for topic, parts in topics.items()],
    }
    answer = await admin.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, body)
    for topic in answer.responses:
        for part in topic.partitions:
            if part.error_code is not ErrorCode.no_reassignment_in_progress:
                check(part, f"{topic.name}-{part.partition_index}")


async def under_way(admin: Admin, topics: Sequence[dict[str, Any]] | None) -> list[dict[str, Any]]:
    body = {"timeout_ms": TIMEOUT_MS, "topics": topics}
    answer = await admin.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, body)
    return [
        {
            "topic": topic.name,
            "partition": part.partition_index,
            "replicas": list(part.replicas),
            "adding": list(part.adding_replicas),
            "removing": list(part.removing_replicas),
        }
        for topic in sorted(answer.topics, key=lambda topic: topic.name)
        for part in sorted(topic.partitions, key=lambda part: part.partition_index)
    ]


async def watch(admin: Admin, plan: Plan) -> None:
    """Until none of the plan's partitions moves any more, with a bar."""
    wanted = {(part.topic, part.partition) for part in plan.partitions}
    terminal = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=terminal, disable=not terminal.is_terminal) as bars:
        bar = bars.add_task("partitions moved", total=len(wanted))
        while True:
            moving = {(row["topic"], row["partition"]) for row in await under_way(admin, None)} & wanted
            bars.update(bar, completed=len(wanted) - len(moving))
            if not moving:
                return
            await asyncio.sleep(WATCH_INTERVAL_S)

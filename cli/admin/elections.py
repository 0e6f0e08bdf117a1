"""`tierfetch elect-leaders`: give partitions back to their preferred leaders, or accept an unclean one."""

from __future__ import annotations

import json
from typing import Final, TypedDict

import click
from rich.table import Table

from ...protocol import ErrorCode
from ...protocol.messages.topics import ElectLeadersRequest, ElectLeadersRequestTopicPartitions
from ..cluster_session import Admin, bootstrap_option, run
from ..options import json_option, table_console
from .leaders import partitions_of

PREFERRED: Final = 0
UNCLEAN: Final = 1
TIMEOUT_MS: Final = 30_000
_UNCHANGED: Final = frozenset({ErrorCode.election_not_needed})


class _Row(TypedDict):
    topic: str
    partition: int
    result: str
    is_failed: bool


@click.command("elect-leaders", short_help="Have preferred replicas lead, or accept an unclean election.")
@click.argument("names", metavar="[TOPIC]...", nargs=-1)
@click.option("--partition", "numbers", type=click.IntRange(0), multiple=True, help="Only this one; repeatable.")
@click.option("--unclean", is_flag=True, help="A replica outside the ISR may lead. Committed records may be lost.")
@click.option("--yes", is_flag=True, help="Do not ask, with --unclean.")
@bootstrap_option
@json_option
def elect_leaders(
    names: tuple[str, ...],
    numbers: tuple[int, ...],
    unclean: bool,
    yes: bool,
    bootstrap: tuple[str, ...],
    as_json: bool,
) -> None:
    """Have the first replica of each partition lead, of all topics if none is named.

    \b
      tierfetch elect-leaders
      tierfetch elect-leaders orders --partition 3 --unclean

    Exit code 1 if a partition could not be given its preferred leader, which its row explains.
    """
    if unclean and not names:
        raise click.UsageError("--unclean needs the topics by name")
    if numbers and not names:
        raise click.UsageError("--partition needs its topic by name")
    if unclean and not yes:
        click.confirm("Committed records that only other replicas have are lost. Continue?", abort=True)
    rows = run(bootstrap, lambda admin: _elect(admin, names, numbers, UNCLEAN if unclean else PREFERRED))
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    elif not rows:
        click.echo("every partition has its preferred leader")
    else:
        table = Table("topic", "partition", "result")
        for row in rows:
            table.add_row(row["topic"], str(row["partition"]), row["result"], style="red" if row["is_failed"] else None)
        table_console().print(table)
    if any(row["is_failed"] for row in rows):
        raise SystemExit(1)


async def _elect(admin: Admin, names: tuple[str, ...], numbers: tuple[int, ...], election_type: int) -> list[_Row]:
    """Return a row for each partition with an election or an error; one that needed none only where it was named."""
    asked = None
    if names:
        by_topic: dict[str, list[int]] = {}
        for partition in partitions_of(await admin.cluster(names), numbers):
            by_topic.setdefault(partition.topic, []).append(partition.partition)
        asked = tuple(
            ElectLeadersRequestTopicPartitions(topic=name, partitions=tuple(found)) for name, found in by_topic.items()
        )
    response = await admin.send(
        ElectLeadersRequest(topic_partitions=asked, timeout_ms=TIMEOUT_MS, election_type=election_type)
    )
    return [
        {
            "topic": topic.topic,
            "partition": result.partition_id,
            "result": _text(result.error_code, result.error_message),
            "is_failed": result.error_code is not ErrorCode.none and result.error_code not in _UNCHANGED,
        }
        for topic in sorted(response.replica_election_results, key=lambda topic: topic.topic)
        for result in sorted(topic.partition_result, key=lambda result: result.partition_id)
        if names or result.error_code not in _UNCHANGED
    ]


def _text(code: ErrorCode, message: str | None) -> str:
    if code is ErrorCode.none:
        return "elected"
    return "leads already" if code in _UNCHANGED else f"{code.name.upper()}: {message or 'refused'}"

"""`tierfetch configs`: what is set for topics, brokers and groups, and setting it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import click
from rich.table import Table

from ...protocol import configs_of
from ...protocol.messages.configs import (
    DescribeConfigsResourceResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from ...protocol.wire import ConfigSource, ResourceType
from ..cluster_session import Admin, bootstrap_option, check, run
from ..options import json_option, pairs, report, table_console
from .near_keys import check_removals, suggesting_keys, unknown_removals

_SET, _DELETE = 0, 1
_SOURCES: Final[Mapping[int, str]] = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_GROUP_CONFIG: "group",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "this broker, dynamic",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers, dynamic",
    ConfigSource.STATIC_BROKER_CONFIG: "broker's file",
    ConfigSource.DEFAULT_CONFIG: "default",
}


def _resource(topic: str | None, broker: str | None, group: str | None) -> tuple[int, str]:
    """The broker "default" stands for all of them."""
    if [topic, broker, group].count(None) != 2:
        raise click.UsageError("name one --topic, one --broker or one --group")
    if topic is not None:
        return ResourceType.TOPIC, topic
    if broker is None:
        return ResourceType.GROUP, str(group)
    if broker != "default" and not (broker.isascii() and broker.isdecimal()):
        raise click.UsageError(f'--broker {broker}: expected the id of a broker, or "default"')
    return ResourceType.BROKER, "" if broker == "default" else broker


@click.group("configs")
def configs() -> None:
    """Show and change configs of topics, brokers and groups.

    \b
      tierfetch configs describe --topic orders
      tierfetch configs alter --topic orders --set local.retention.ms=3600000
      tierfetch configs alter --broker default --set follower.fetch.last.tiered.offset.enable=true
      tierfetch configs alter --group payments --set share.auto.offset.reset=earliest
    """


@configs.command("describe")
@click.option("--topic", metavar="NAME", help="The topic.")
@click.option("--broker", metavar="ID", help='The broker; "default" shows what is set for all brokers.')
@click.option("--group", metavar="NAME", help="The group, which need not be there yet.")
@click.option("--all", "show_all", is_flag=True, help="Show keys at their defaults too.")
@bootstrap_option
@json_option
def describe_configs(
    topic: str | None,
    broker: str | None,
    group: str | None,
    show_all: bool,
    bootstrap: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the configs in force for a topic, a broker or a group, and where each value comes from.

    \b
      tierfetch configs describe --topic orders
      tierfetch configs describe --broker 3 --all
    """
    resource_type, name = _resource(topic, broker, group)

    described = run(bootstrap, lambda admin: _described(admin, resource_type, name))
    found = [
        {"name": entry.name, "value": entry.value, "source": _SOURCES.get(entry.config_source, "unknown")}
        for entry in sorted(described, key=lambda entry: entry.name)
    ]
    shown = [entry for entry in found if show_all or entry["source"] != "default"]
    if as_json:
        click.echo(json.dumps(shown, indent=1))
        return
    table = Table("config", "value", "from")
    for entry in shown:
        table.add_row(entry["name"], "(hidden)" if entry["value"] is None else entry["value"], entry["source"])
    table_console().print(table)


async def _described(admin: Admin, resource_type: int, name: str) -> tuple[DescribeConfigsResourceResult, ...]:
    """Return all configs of a topic, a broker or a group. KafkaError, ClickException."""
    request = configs_of(resource_type, [(name, None)])
    if resource_type == ResourceType.BROKER and name:
        brokers = (await admin.cluster([])).brokers
        if int(name) not in brokers:
            raise click.ClickException(f"broker {name} is not alive; there are {sorted(brokers)}")
        answer = await admin.send_to(brokers[int(name)], request)
    else:
        answer = await admin.send(request)
    (result,) = answer.results
    check(result, f"configs of {name or 'all brokers'}")
    return result.configs


@configs.command("alter")
@click.option("--topic", metavar="NAME", help="The topic.")
@click.option("--broker", metavar="ID", help='The broker; "default" changes all brokers.')
@click.option("--group", metavar="NAME", help="The group, which need not be there yet.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set this config; repeatable.")
@click.option(
    "--remove",
    "removals",
    multiple=True,
    metavar="KEY",
    help="Remove this config, so that the default holds; repeatable.",
)
@bootstrap_option
@json_option
def alter_configs(
    topic: str | None,
    broker: str | None,
    group: str | None,
    sets: tuple[str, ...],
    removals: tuple[str, ...],
    bootstrap: tuple[str, ...],
    as_json: bool,
) -> None:
    """Set or remove configs of a topic, of brokers or of a group. Changes take effect without a restart.

    \b
      tierfetch configs alter --topic orders --set retention.ms=86400000 --remove segment.bytes
    """
    resource_type, name = _resource(topic, broker, group)
    changes = [
        *(
            IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=_SET, value=value)
            for key, value in pairs(sets, "--set", "retention.ms=86400000").items()
        ),
        *(
            IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=_DELETE, value=None)
            for key in removals
        ),
    ]
    if not changes:
        raise click.UsageError("nothing to change: --set KEY=VALUE or --remove KEY")

    async def alter(admin: Admin) -> None:
        if unknown_removals(resource_type, removals):
            described = {entry.name for entry in await _described(admin, resource_type, name)}
            check_removals(resource_type, removals, described)
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=resource_type, resource_name=name, configs=tuple(changes)
        )
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        (result,) = (await admin.send(request)).responses
        with suggesting_keys(resource_type, [change.name for change in changes]):
            check(result, f"configs of {name or 'all brokers'}")

    run(bootstrap, alter)
    done = {
        "topic": topic,
        "broker": broker,
        "group": group,
        "set": pairs(sets, "--set", ""),
        "removed": list(removals),
    }
    report(as_json, done, f"changed {len(changes)} of {name or 'all brokers'}")

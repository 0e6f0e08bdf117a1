"""What `cluster up --config` gives to every broker, looked at before anything starts.

| a key | what becomes of it |
|---|---|
| that differs between nodes (`node.id`, `listeners`, ...) | refused, with the option that is meant |
| of controllers alone | refused; with --combined it is theirs |
| unknown | refused, with the nearest one: a broker would only warn, in a log that is not looked at |
| of Kafka's that has no effect here | a warning |
| with a wrong value | refused, with what is expected |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import click

from ..broker import only_of_controllers, parse_combined
from ..broker.config import KEYS, parse_broker_config, unknown_keys
from ..log.core import ConfigError, nearest_key
from .local import LocalCluster, LocalServers

SOURCE: Final = "--config"
OF_ONE_NODE: Final[Mapping[str, str]] = {
    "node.id": "brokers count from 1, controllers from 101",
    "broker.id": "brokers count from 1, controllers from 101",
    "process.roles": "--combined has every broker be a controller too",
    "listeners": "--port says where the first broker listens",
    "advertised.listeners": "--port says where the first broker listens",
    "log.dir": "--dir says where the data is",
    "log.dirs": "--dir says where the data is",
    "metrics.port": "metrics are on the ports after those of the controllers",
    "controller.listener.names": "--port says where the first broker listens, controllers on the ports after brokers",
    "controller.quorum.voters": "--controllers says how many there are",
    "controller.quorum.bootstrap.servers": "--controllers says how many there are",
}


def check_configs(given: Mapping[str, str], nodes: LocalCluster) -> list[str]:
    """Return warnings for what was `given` on the command line, which `nodes` have. ClickException."""
    is_combined = isinstance(nodes, LocalServers)
    if problems := list(_problems(given, is_combined=is_combined)):
        raise _refused(problems)
    warnings: dict[str, None] = {}
    for node in nodes.nodes:
        properties = nodes.properties(node)
        try:
            found = parse_combined(properties, SOURCE)[1] if is_combined else parse_broker_config(properties, SOURCE)[1]
        except ConfigError as error:
            raise _refused(str(error).splitlines()) from None
        warnings |= dict.fromkeys(found)
    return list(warnings)


def _refused(problems: Sequence[str]) -> click.ClickException:
    return click.ClickException("\n".join([*dict.fromkeys(problems), "nothing was started"]))


def _problems(given: Mapping[str, str], *, is_combined: bool) -> Iterator[str]:
    of_controllers = only_of_controllers(given)
    unknown = set(unknown_keys(given)) - of_controllers
    for key in given:
        if key in OF_ONE_NODE:
            yield f"{SOURCE} {key}: it is not the same for all brokers: {OF_ONE_NODE[key]}"
        elif key in of_controllers and not is_combined:
            yield f"{SOURCE} {key}: controllers obey it, and --config is for brokers: --combined"
        elif key in unknown:
            nearest = nearest_key(key, KEYS - set(OF_ONE_NODE))
            guess = "docs/config-keys.md has all keys" if nearest is None else f"did you mean {nearest}?"
            yield f"{SOURCE} {key}: unknown key; {guess}"

"""`tierfetch configs --group`, as Kafka's `kafka-configs --group`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tierfetch.cli.main import cli
from tierfetch.testing import InProcessCluster

INTERVAL = "consumer.heartbeat.interval.ms"


@pytest.mark.tierfetch(brokers=1, tier=None)
def test_configs_of_a_group_are_set_shown_and_removed(tierfetch_cluster: InProcessCluster) -> None:
    def configs(*words: str) -> object:
        command = ["configs", *words, "--group", "payments", "--bootstrap", tierfetch_cluster.bootstrap, "--json"]
        result = CliRunner().invoke(cli, command)
        assert result.exit_code == 0, result.output
        return json.loads(result.output)

    assert configs("describe") == []
    changed = {"topic": None, "broker": None, "group": "payments", "set": {INTERVAL: "6000"}, "removed": []}
    assert configs("alter", "--set", f"{INTERVAL}=6000") == changed
    tierfetch_cluster.wait_until(lambda: configs("describe"))
    assert configs("describe") == [{"name": INTERVAL, "value": "6000", "source": "group"}]
    assert {"name": "share.auto.offset.reset", "value": "latest", "source": "default"} in configs("describe", "--all")  # type: ignore[operator]
    configs("alter", "--remove", INTERVAL)


@pytest.mark.parametrize("words", [(), ("--group", "g", "--topic", "t"), ("--topic", "t", "--broker", "1")], ids=str)
def test_one_thing_is_named(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, ["configs", "describe", *words, "--bootstrap", "127.0.0.1:1"])
    assert result.exit_code == 2
    assert "name one --topic, one --broker or one --group" in result.output

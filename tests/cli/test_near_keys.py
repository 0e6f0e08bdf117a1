"""A config that the cluster does not know: the command names the one that was probably meant."""

from __future__ import annotations

from collections.abc import Sequence

import click
import pytest
from click.testing import CliRunner

from tierfetch.cli.admin.near_keys import LENGTH_MAX, check_removals, near_key, suggesting_keys
from tierfetch.cli.main import cli
from tierfetch.log.core import TOPIC_CONFIG_TYPES
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.wire.config_resources import ResourceType
from tierfetch.testing import InProcessCluster


@pytest.mark.parametrize(
    ("keys", "near"),
    [
        (["retention.m"], "retention.ms"),
        (["log.retention.ms"], "retention.ms"),
        (["retention.ms", "max.mesage.bytes"], "max.message.bytes"),
        (["retention.ms"], None),
        (["flavour"], None),
        (["retention.ms" * LENGTH_MAX], None),
        ([], None),
    ],
)
def test_the_nearest_key_of_a_topic(keys: Sequence[str], near: str | None) -> None:
    assert near_key(keys, TOPIC_CONFIG_TYPES, TOPIC_CONFIG_TYPES) == near


def test_a_key_that_is_known_and_may_not_be_set_is_not_misspelt() -> None:
    assert near_key(["log.retention.hours"], {"log.retention.hours"}, {"log.retention.ms"}) is None


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (ErrorCode.invalid_config, "INVALID_CONFIG: no; did you mean 'retention.ms'?"),
        (ErrorCode.topic_authorization_failed, "TOPIC_AUTHORIZATION_FAILED: no"),
    ],
)
def test_only_a_wrong_config_is_explained(code: ErrorCode, said: str) -> None:
    with pytest.raises(KafkaError) as raised, suggesting_keys(ResourceType.TOPIC, ["retention.m"]):
        raise KafkaError(code, "no")
    assert str(raised.value) == said


def test_a_key_that_only_the_cluster_knows_may_be_removed() -> None:
    check_removals(ResourceType.TOPIC, ["retention.ms", "of.another.kafka"], {"of.another.kafka"})
    check_removals(ResourceType.BROKER, ["listener.name.x.ssl.keystore.location", "unclean.leader.election.enable"], ())
    with pytest.raises(click.ClickException, match=r"unknown config 'of.another.kafka', nothing was changed$"):
        check_removals(ResourceType.TOPIC, ["of.another.kafka"], {"retention.ms"})


@pytest.mark.tierfetch(brokers=1, tier=None)
def test_every_command_that_sets_configs_says_what_was_meant(tierfetch_cluster: InProcessCluster) -> None:
    tierfetch_cluster.create_topic("t")

    def refused(*words: str) -> str:
        result = CliRunner().invoke(cli, [*words, "--bootstrap", tierfetch_cluster.bootstrap])
        assert result.exit_code == 1, result.output
        (line,) = result.output.splitlines()
        return line

    meant = "unknown topic config 'retention.m'; did you mean 'retention.ms'?"
    assert refused("topics", "create", "u", "--config", "retention.m=1").endswith(meant)
    assert refused("topics", "alter", "t", "--set", "retention.m=1").endswith(meant)
    assert refused("configs", "alter", "--topic", "t", "--set", "retention.m=1").endswith(meant)
    assert refused("configs", "alter", "--broker", "default", "--set", "log.retention.m=1").endswith(
        "; did you mean 'log.retention.ms'?"
    )
    nothing = "unknown config 'retention.m', nothing was changed; did you mean 'retention.ms'?"
    assert refused("topics", "alter", "t", "--unset", "retention.m").endswith(nothing)
    assert refused("configs", "alter", "--topic", "t", "--remove", "retention.m").endswith(nothing)
    meant_of_group = (
        "unknown config 'share.session.timeout', nothing was changed; did you mean 'share.session.timeout.ms'?"
    )
    assert refused("configs", "alter", "--group", "g", "--remove", "share.session.timeout").endswith(meant_of_group)
    assert refused("configs", "alter", "--group", "g", "--set", "share.session.timeout=1").endswith(
        "; did you mean 'share.session.timeout.ms'?"
    )
    for broker in ("default", "1"):
        said = refused("configs", "alter", "--broker", broker, "--remove", "log.retention.m")
        assert said.endswith("; did you mean 'log.retention.ms'?")
    wrong_value = refused("topics", "create", "u", "--config", "retention.ms=soon")
    assert "did you mean" not in wrong_value

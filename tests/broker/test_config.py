"""`.properties` in, checked configuration or clear messages out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierfetch.broker.config.broker_config import (
    DEFAULT_PROPERTIES,
    DYNAMIC_KEYS,
    ConfigError,
    Listener,
    load_broker_config,
    parse_broker_config,
    unknown_keys,
)

CONTROLLERS = {"controller.quorum.bootstrap.servers": "127.0.0.1:9093"}
MINIMAL = {"node.id": "1", "log.dirs": "data", **CONTROLLERS}


def test_minimal_file_gets_kafkas_defaults(tmp_path: Path) -> None:
    path = tmp_path / "broker.properties"
    path.write_text(
        "# a comment\nnode.id=1\nlog.dirs = data-a, data-b\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    )
    config, warnings = load_broker_config(path)
    assert warnings == []
    assert config.node_id == 1
    assert config.log_dirs == (Path("data-a"), Path("data-b"))
    assert config.listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.advertised(config.inter_broker_listener) == Listener("PLAINTEXT", "127.0.0.1", 9092)
    assert config.retention_ms == 7 * 24 * 3_600_000
    assert config.roll_ms == 7 * 24 * 3_600_000
    assert config.follower_fetch_last_tiered_offset_enable is False
    assert config.bootstrap_policy == "tier-first"


@pytest.mark.parametrize(
    "given",
    [
        {"controller.quorum.bootstrap.servers": "a:9093,[::1]:9094"},
        {"controller.quorum.voters": "11@a:9093,12@[::1]:9094"},
        {"controller.quorum.voters": "11@a:9093", "process.roles": "controller,broker"},
        {
            **CONTROLLERS,
            "log.dirs": "z,a",
            "log.cleanup.policy": "delete,compact",
            "advertised.listeners": "PLAINTEXT://b:1",
        },
        {**CONTROLLERS, "log.cleaner.io.max.bytes.per.second": "12.5", "log.retention.hours": "3", "broker.rack": "r"},
    ],
)
def test_what_is_told_of_a_configuration_is_what_a_file_would_say(given: dict[str, str]) -> None:
    config, _ = parse_broker_config({"node.id": "1", "log.dirs": "data", **given}, "f")
    told = config.as_properties()
    assert {key: told[key] for key in given} == {**given, **_sorted_policy(given)}
    assert parse_broker_config(told, "f") == (config, [])
    assert {key: told[key] for key in config.static_properties()} == config.static_properties()


def _sorted_policy(given: dict[str, str]) -> dict[str, str]:
    return {"log.cleanup.policy": "compact,delete"} if "log.cleanup.policy" in given else {}


def test_every_default_is_what_a_file_would_say() -> None:
    defaults = {**DEFAULT_PROPERTIES, **MINIMAL}
    assert parse_broker_config(defaults, "f")[0].as_properties() == parse_broker_config(MINIMAL, "f")[0].as_properties()


def test_older_names_of_keys_are_understood() -> None:
    config, warnings = parse_broker_config(
        {"broker.id": "3", "log.dir": "d", "controller.quorum.bootstrap.servers": "127.0.0.1:9093"}, "f"
    )
    assert (config.node_id, config.log_dirs, warnings) == (3, (Path("d"),), [])


def test_finer_units_win() -> None:
    hours = parse_broker_config({**MINIMAL, "log.retention.hours": "1"}, "f")[0]
    minutes = parse_broker_config({**MINIMAL, "log.retention.hours": "1", "log.retention.minutes": "2"}, "f")[0]
    ms = parse_broker_config(
        {**MINIMAL, "log.retention.minutes": "2", "log.retention.ms": "-1", "log.roll.ms": "5"}, "f"
    )[0]
    assert (hours.retention_ms, minutes.retention_ms, ms.retention_ms, ms.roll_ms) == (3_600_000, 120_000, -1, 5)
    assert parse_broker_config({**MINIMAL, "log.retention.hours": "-1"}, "f")[0].retention_ms == -1


def test_plugin_keys_are_collected_by_prefix() -> None:
    config, warnings = parse_broker_config(
        {
            **MINIMAL,
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
            "remote.log.storage.manager.impl.prefix": "tier.",
            "tier.dir": "shelf",
            "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
        },
        "f",
    )
    assert warnings == []
    assert config.storage_plugin == "local"
    assert config.rsm_config == {"dir": "shelf"}
    assert config.rlmm_config == {"remote.log.metadata.topic.num.partitions": "5"}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("node.id", "x", "node.id='x': expected a valid integer"),
        ("log.retention.ms", "-2", "log.retention.ms='-2': expected greater than or equal to -1"),
        ("log.preallocate", "yes", "log.preallocate='yes': expected true or false"),
        ("listeners", "9092", "listeners='9092': expected exactly one NAME://host:port"),
        ("listeners", "PLAINTEXT://a:1,PLAINTEXT://b:2", "expected listeners with different names"),
        ("listeners", "SSL://a:1", "ssl.keystore.location is missing: a TLS listener needs a certificate"),
        ("listeners", "EXTERNAL://a:1", "listener.security.protocol.map: expected an entry for listener EXTERNAL"),
        ("advertised.listeners", "SSL://a:1", "advertised.listeners: SSL is not among the listeners (PLAINTEXT)"),
        ("listeners", "PLAINTEXT://a:70000", "expected exactly one NAME://host:port"),
        ("log.dirs", " , ", "expected at least one value"),
        ("log.cleanup.policy", "squeeze", "log.cleanup.policy='squeeze': expected 'delete' or 'compact'"),
        ("auto.create.topics.enable", "true", "auto.create.topics.enable=True: expected False"),
        ("remote.log.storage.system.enable", "true", "needs remote.log.storage.manager.plugin"),
        ("replica.lag.time.max.ms", "100", "replica.fetch.wait.max.ms (500) must be at most"),
        (
            "replica.selector.class",
            "Near",
            "replica.selector.class='Near': did you mean leader? expected one of leader, rack-aware",
        ),
        (
            "bootstrap.policy",
            "none",
            "bootstrap.policy='none': expected one of bounded-local, earliest-pending-upload, local",
        ),
    ],
)
def test_wrong_value_names_key_value_and_expectation(key: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_broker_config({**MINIMAL, key: value}, "broker.properties")
    assert "broker.properties: " in str(caught.value)
    assert said in str(caught.value)


def test_every_problem_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_broker_config({"node.id": "-1"}, "f")
    assert [line.split(" ")[1].split("=")[0] for line in str(caught.value).splitlines()] == [
        "node.id",
        "log.dirs",
    ]


def test_a_broker_has_controllers() -> None:
    with pytest.raises(ConfigError, match=r"controller\.quorum\.bootstrap\.servers"):
        parse_broker_config({"node.id": "1", "log.dirs": "d"}, "f")


def test_Q11_a_broker_alone_has_not_the_id_of_a_static_voter() -> None:
    voters = {"node.id": "1", "log.dirs": "d", "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094"}
    with pytest.raises(ConfigError, match=r"node\.id=1 is that of a voter in controller\.quorum\.voters"):
        parse_broker_config(voters, "f")
    assert parse_broker_config({**voters, "process.roles": "broker,controller"}, "f")[0].node_id == 1
    assert parse_broker_config({**voters, "node.id": "3"}, "f")[0].node_id == 3


def test_unknown_keys_are_warned_about_with_the_nearest_match() -> None:
    given = {"follower.fetch.last.teired.offset.enable": "true", "num.io.threads": "8", "colour": "red"}
    _, warnings = parse_broker_config({**MINIMAL, **given}, "f")
    assert warnings == [
        "f: unknown key 'follower.fetch.last.teired.offset.enable' is ignored; "
        "did you mean 'follower.fetch.last.tiered.offset.enable'?",
        "f: key 'num.io.threads' has no effect in tierfetch",
        "f: unknown key 'colour' is ignored",
    ]


def test_F1_follower_fetch_last_tiered_offset_enable_is_dynamic() -> None:
    key = "follower.fetch.last.tiered.offset.enable"
    config, _ = parse_broker_config(MINIMAL, "f")
    assert key in DYNAMIC_KEYS
    assert config.with_dynamic({key: "true"}, {}).follower_fetch_last_tiered_offset_enable is True
    assert config.with_dynamic({key: "true"}, {key: "false"}).follower_fetch_last_tiered_offset_enable is False
    assert config.with_dynamic({"node.id": "9"}) is config
    with pytest.raises(ConfigError, match=r"dynamic broker configs: follower\.fetch"):
        config.with_dynamic({key: "maybe"})


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.properties: cannot be read"):
        load_broker_config(tmp_path / "absent.properties")


def test_a_refused_configuration_names_its_unknown_keys_too() -> None:
    """What is missing may be misspelt."""
    given = {"node.idd": "1", "log.dirs": "d", "controller.quorum.bootstrap.servers": "h:1", "num.io.threads": "8"}
    with pytest.raises(ConfigError) as refused:
        parse_broker_config(given, "f")
    assert str(refused.value).splitlines() == [
        "f: node.id is missing",
        "f: unknown key 'node.idd' is ignored; did you mean 'node.id'?",
    ]


def test_unknown_keys_are_neither_kafkas_nor_a_plugins() -> None:
    given = ["nosuch", "num.io.threads", "rsm.config.x", "bootstrap.bounded.local.bytes", "sasl.enabled.mechanisms"]
    assert unknown_keys(dict.fromkeys(given, "1")) == ["nosuch"]

"""A controller's properties: Kafka's keys, and messages that say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierfetch.log.core.properties import ConfigError, Listener
from tierfetch.quorum.controller_config import load_controller_config, parse_controller_config
from tierfetch.quorum.core.state import Endpoint

VOTERS = "1@127.0.0.1:9093,2@127.0.0.1:9094,3@[::1]:9095"
MINIMAL = {"node.id": "1", "log.dirs": "data", "controller.quorum.voters": VOTERS}
DYNAMIC = {"node.id": "9", "log.dirs": "a,b", "controller.quorum.bootstrap.servers": "h1:1,h2:2"}


def test_Q12_defaults_are_kafkas() -> None:
    config, warnings = parse_controller_config(MINIMAL, "f")
    assert warnings == []
    raft = config.raft_config(1, (config.endpoint,))
    assert raft.election_timeout_ms == 1000
    assert raft.fetch_timeout_ms == 2000
    assert raft.election_backoff_max_ms == 1000
    assert raft.request_timeout_ms == 2000
    assert raft.retry_backoff_ms == 20
    assert config.log_config.retention_bytes == 100 * 1024 * 1024
    assert config.metadata_log_max_record_bytes_between_snapshots == 20 * 1024 * 1024
    assert config.listener == Listener("CONTROLLER", "127.0.0.1", 9093)


def test_Q12_every_key_of_the_quorum_arrives() -> None:
    given = {
        "controller.quorum.election.timeout.ms": "11",
        "controller.quorum.fetch.timeout.ms": "12",
        "controller.quorum.election.backoff.max.ms": "13",
        "controller.quorum.request.timeout.ms": "14",
        "controller.quorum.retry.backoff.ms": "15",
        "controller.quorum.append.linger.ms": "16",
        "controller.quorum.fetch.max.bytes": "17",
    }
    config, warnings = parse_controller_config(MINIMAL | given, "f")
    raft = config.raft_config(1, ())
    assert warnings == []
    assert (
        raft.election_timeout_ms,
        raft.fetch_timeout_ms,
        raft.election_backoff_max_ms,
        raft.request_timeout_ms,
        raft.retry_backoff_ms,
        raft.append_linger_ms,
        raft.fetch_max_bytes,
    ) == (11, 12, 13, 14, 15, 16, 17)


def test_static_voters() -> None:
    config, _ = parse_controller_config(MINIMAL, "f")
    assert [(node.id, node.endpoint) for node in config.static_voters] == [
        (1, Endpoint("CONTROLLER", "127.0.0.1", 9093)),
        (2, Endpoint("CONTROLLER", "127.0.0.1", 9094)),
        (3, Endpoint("CONTROLLER", "::1", 9095)),
    ]


def test_a_node_of_a_dynamic_quorum() -> None:
    config, _ = parse_controller_config(DYNAMIC | {"metadata.log.dir": "m"}, "f")
    assert len(config.static_voters) == 0
    assert [item.port for item in config.raft_config(9, ()).bootstrap_servers] == [1, 2]
    assert config.metadata_directory == Path("m")
    assert config.directories == (Path("m"), Path("a"), Path("b"))


def test_the_endpoint_is_the_advertised_one() -> None:
    listeners = {"listeners": "C://0.0.0.0:1,X://h:2", "controller.listener.names": "C"}
    assert parse_controller_config(MINIMAL | listeners, "f")[0].endpoint == Endpoint("C", "0.0.0.0", 1)
    advertised = listeners | {"advertised.listeners": "X://x:3,C://public:4"}
    assert parse_controller_config(MINIMAL | advertised, "f")[0].endpoint == Endpoint("C", "public", 4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"controller.quorum.voters": "1@a:1,1@b:2"}, "node id 1 is named twice"),
        ({"controller.quorum.voters": "1:a:1"}, "expected id@host:port"),
        ({"controller.quorum.voters": "1@a:0"}, "expected host:port"),
        ({"controller.quorum.voters": "2@a:1"}, "node.id=1 is not among controller.quorum.voters (2)"),
        ({"controller.quorum.voters": ""}, "either controller.quorum.voters or controller.quorum.bootstrap.servers"),
        ({"listeners": "OTHER://h:1"}, "controller.listener.names begins with 'CONTROLLER', which is not among"),
        ({"listeners": "h:1"}, "NAME://host:port"),
        ({"process.roles": "broker"}, "process.roles"),
        ({"controller.quorum.fetch.timeout.ms": "0"}, "controller.quorum.fetch.timeout.ms='0'"),
        ({"metadata.log.segment.bytes": "100"}, "metadata.log.segment.bytes='100'"),
        ({"node.id": "-1"}, "node.id='-1'"),
    ],
)
def test_Q11_what_cannot_be_is_said(change: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_controller_config(MINIMAL | change, "c.properties")
    assert said in str(caught.value)


def test_unknown_keys_are_warnings(tmp_path: Path) -> None:
    path = tmp_path / "c.properties"
    path.write_text(
        "node.id=1\nlog.dirs=d\ncontroller.quorum.voters=1@h:1\n"
        "controller.quorum.fetch.timeot.ms=5\nlog.retention.hours=1\nfoo.bar=1\n"
    )
    _, warnings = load_controller_config(path)
    assert [warning.split(": ", 1)[1] for warning in warnings] == [
        "unknown key 'controller.quorum.fetch.timeot.ms' is ignored; did you mean "
        "'controller.quorum.fetch.timeout.ms'?",
        "key 'log.retention.hours' has no effect on a controller here",
        "unknown key 'foo.bar' is ignored",
    ]
    with pytest.raises(ConfigError, match="cannot be read"):
        load_controller_config(tmp_path / "absent")

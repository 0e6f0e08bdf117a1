"""What `tierfetch cluster up` does with a directory that it finds."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner

from tierfetch.cli.cluster import FIRST_CONTROLLER, cluster
from tierfetch.cli.local.cluster import BrokerFailedError
from tierfetch.cli.local.quorum import LocalQuorum
from tierfetch.cli.local.servers import LocalServers
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import RemoteObject, RemoteStorageError, RemoteStorageRefusedError
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage

KINDS = (LocalQuorum, LocalServers)


class Killed(BaseException):
    """In place of kill -9."""


def up(base: Path, kind: type[LocalQuorum | LocalServers], nodes: int) -> str:
    """`cluster up` in this process; what it said."""
    size = ["--brokers", str(nodes), "--combined"] if kind is LocalServers else ["--controllers", str(nodes)]
    result = CliRunner().invoke(cluster, ["up", "--dir", str(base), *size])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


@pytest.fixture(autouse=True)
def _no_ports_and_no_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tierfetch.cli.cluster.taken_port", lambda _: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)


def formatted(base: Path) -> Sequence[str]:
    return sorted(path.parent.name for path in base.glob("*/meta.properties"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes_formatted", [0, 1, 2, 3])
def test_formatting_that_was_cut_short_is_completed(
    kind: type[LocalQuorum | LocalServers], nodes_formatted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = kind.prepare

    def killed_after(self: LocalQuorum | LocalServers, node: int) -> None:
        if node - self.nodes[0] == nodes_formatted:
            raise Killed
        prepare(self, node)  # type: ignore[arg-type]

    def killed_before_start(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(kind, "start", killed_before_start)
    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(kind, "prepare", killed_after)
        up(tmp_path, kind, 3)
    assert len(formatted(tmp_path)) == nodes_formatted
    with pytest.raises(Killed):
        up(tmp_path, kind, 3)
    first = FIRST_CONTROLLER if kind is LocalQuorum else 1
    assert formatted(tmp_path) == [f"{kind.kind}-{node}" for node in range(first, first + 3)]
    ids = {
        line
        for path in tmp_path.glob("*/meta.properties")
        for line in path.read_text().splitlines()
        if "cluster" in line
    }
    assert len(ids) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [2, 4])
def test_where_a_node_has_begun_there_is_nothing_to_complete(
    kind: type[LocalQuorum | LocalServers], nodes: int, tmp_path: Path
) -> None:
    first = FIRST_CONTROLLER if kind is LocalQuorum else 1
    for node in range(first, first + 3):
        directory = tmp_path / f"{kind.kind}-{node}"
        (directory / "__cluster_metadata-0").mkdir(parents=True)
        (directory / "meta.properties").write_text("version=1\n")
    assert "holds a cluster whose controllers are" in up(tmp_path, kind, nodes)
    assert len(formatted(tmp_path)) == 3


class FakeTier(MemoryRemoteStorage):
    """Its listing raises `error`."""

    def __init__(self, error: RemoteStorageError) -> None:
        super().__init__()
        self._error = error

    async def list_objects(self, partition: TopicIdPartition) -> AsyncIterator[RemoteObject]:
        raise self._error
        yield


@pytest.mark.parametrize("is_refused", [True, False])
def test_the_tier_is_looked_at_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    error = RemoteStorageRefusedError("NoSuchBucket") if is_refused else RemoteStorageError("away")
    monkeypatch.setattr("tierfetch.cli.cluster.load_remote_storage", lambda *_, **__: FakeTier(error))
    started: list[object] = []

    def start(order: object, stack: object) -> NoReturn:
        started.append(order)
        raise BrokerFailedError("the test ends here")

    monkeypatch.setattr("tierfetch.cli.cluster._start", start)
    result = CliRunner().invoke(cluster, ["up", "--dir", str(tmp_path), "--tier", "s3", "--option", "bucket=nosuch"])
    assert result.exit_code == 1
    if is_refused:
        assert result.stderr.startswith("Error: the tier (s3) cannot be used as --option and the environment say, ")
        assert result.stderr.endswith("nothing was started: NoSuchBucket\n")
        assert not started
    else:
        assert "warning: the tier cannot be reached now, brokers try again until it can: away\n" in result.stderr
        assert started


def test_a_plugin_that_is_configured_wrongly_is_said_before_anything_starts(tmp_path: Path) -> None:
    result = CliRunner().invoke(cluster, ["up", "--dir", str(tmp_path), "--tier", "s3", "--option", "buckte=x"])
    assert result.exit_code == 1
    assert "--option buckte: unknown key; did you mean --option bucket?" in result.stderr


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What `cluster up` would have started."""
    found: list[object] = []

    def start(nodes: Sequence[object], _stack: object) -> NoReturn:
        found.extend(nodes)
        raise BrokerFailedError("the test ends here")

    monkeypatch.setattr("tierfetch.cli.cluster._start", start)
    return found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nosuch=1", "--config nosuch: unknown key; docs/config-keys.md has all keys"),
        ("log.segment.byte=1", "--config log.segment.byte: unknown key; did you mean log.segment.bytes?"),
        ("log.segment.bytes=abc", "--config: log.segment.bytes='abc': expected a valid integer"),
        ("log.segment.bytes=1", "--config: log.segment.bytes='1': expected greater than or equal to"),
        ("bootstrap.policy=tierfirst", "--config: bootstrap.policy='tierfirst': did you mean tier-first?"),
        ("node.id=7", "--config node.id: it is not the same for all brokers: brokers count from 1"),
        ("log.dirs=/x", "--config log.dirs: it is not the same for all brokers: --dir says where"),
        ("broker.session.timeout.ms=1", "--config broker.session.timeout.ms: controllers obey it"),
    ],
)
def test_a_wrong_config_is_refused_before_anything_starts(
    given: str, said: str, tmp_path: Path, started: list[object]
) -> None:
    base = tmp_path / "data"
    result = CliRunner().invoke(cluster, ["up", "--dir", str(base), "--config", given, "--config", "num.partitions=3"])
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stderr.count("\n") == 2, "one line for three brokers, and that nothing was started"
    assert result.stderr.endswith("\nnothing was started\n")
    assert not started
    assert not list(base.iterdir())


@pytest.mark.parametrize("is_combined", [True, False])
def test_what_is_right_and_what_has_no_effect_is_let_pass(is_combined: bool, started: list[object]) -> None:
    options = ["--combined", "--config", "broker.session.timeout.ms=3000"] if is_combined else []
    configs = ["num.io.threads=8", "log.segment.bytes=1048576", "rsm.config.anything=1", "sasl.mechanism.x=1"]
    result = CliRunner().invoke(cluster, ["up", *options, *[word for each in configs for word in ("--config", each)]])
    assert len(started) == (1 if is_combined else 2)
    said = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert said[0] == "warning: --config: key 'num.io.threads' has no effect in tierfetch"
    assert len(said) == 2


def test_an_option_without_its_plugin_is_refused(started: list[object]) -> None:
    result = CliRunner().invoke(cluster, ["up", "--option", "bucket=x"])
    assert result.exit_code == 2
    assert "name it with --tier" in result.stderr
    assert not started

"""`tierfetch format`: the storage tool's rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tierfetch.cli.main import cli
from tierfetch.log.core import decode_meta_properties
from tierfetch.protocol.topics import uuid_to_text
from tierfetch.quorum.storage.snapshot_file import parse_snapshot

CLUSTER = "asNLmUt5R6KXNd2eIjy-lA"
DIRECTORY_ID = "8fF03T8mTdKrJ8jUAsW8zA"
STATIC = "controller.quorum.voters=1@127.0.0.1:9093"
DYNAMIC = "controller.quorum.bootstrap.servers=127.0.0.1:9093"


def format_(base: Path, quorum: str, *options: str, cluster: str = CLUSTER) -> Result:
    config = base / "c.properties"
    config.write_text(f"node.id=1\nlog.dirs={base / 'a'},{base / 'b'}\n{quorum}\n")
    return CliRunner().invoke(cli, ["format", "-t", cluster, "-c", str(config), *options])


def first_voters(base: Path) -> list[tuple[int, str]]:
    path = base / "a" / "__cluster_metadata-0" / f"{0:020d}-{0:010d}.checkpoint"
    setup = parse_snapshot(path.read_bytes(), name=str(path)).setup
    return [(voter.voter_id, uuid_to_text(voter.directory_id)) for voter in setup.voters.voters]


def directory_id(base: Path) -> str:
    return uuid_to_text(decode_meta_properties((base / "a" / "meta.properties").read_bytes()).directory_id)


def test_Q11_static_voters(tmp_path: Path) -> None:
    result = format_(tmp_path, STATIC)
    assert (result.exit_code, result.output.count("Formatting log directory")) == (0, 2)
    assert not (tmp_path / "a" / "__cluster_metadata-0").exists()
    again = format_(tmp_path, STATIC)
    assert again.exit_code == 1
    assert "already formatted. Use --ignore-formatted" in again.output
    ignored = format_(tmp_path, STATIC, "--ignore-formatted")
    assert (ignored.exit_code, ignored.output) == (0, "All of the log directories are already formatted.\n")


def test_Q11_what_is_no_id_is_named_with_a_way_to_make_one(tmp_path: Path) -> None:
    result = format_(tmp_path, DYNAMIC, "--standalone", cluster="abc")
    assert result.exit_code == 1
    assert "--cluster-id: 'abc' is not a Kafka uuid" in result.output
    assert "`tierfetch random-uuid` prints a new one" in result.output
    result = format_(tmp_path, DYNAMIC, "--initial-controllers", "1@h1:1:x")
    assert "--initial-controllers, directory id of 1: 'x' is not a Kafka uuid" in result.output
    made = CliRunner().invoke(cli, ["random-uuid"]).output.strip()
    assert format_(tmp_path, DYNAMIC, "--standalone", cluster=made).exit_code == 0


def test_Q11_standalone(tmp_path: Path) -> None:
    result = format_(tmp_path, DYNAMIC, "--standalone")
    assert result.exit_code == 0, result.output
    assert "Formatting dynamic metadata voter directory" in result.output
    assert first_voters(tmp_path) == [(1, directory_id(tmp_path))]


def test_Q11_initial_controllers(tmp_path: Path) -> None:
    listed = f"1@h1:1:{DIRECTORY_ID},2@h2:2:TUPKRRoUSEKcPK5wRxVVLA"
    result = format_(tmp_path, DYNAMIC, "--initial-controllers", listed)
    assert result.exit_code == 0, result.output
    assert directory_id(tmp_path) == DIRECTORY_ID
    assert first_voters(tmp_path) == [(1, DIRECTORY_ID), (2, "TUPKRRoUSEKcPK5wRxVVLA")]


def test_Q11_no_initial_controllers(tmp_path: Path) -> None:
    assert format_(tmp_path, DYNAMIC, "-N").exit_code == 0
    assert not (tmp_path / "a" / "__cluster_metadata-0").exists()


@pytest.mark.parametrize(
    ("quorum", "options", "said"),
    [
        (STATIC, ["--standalone"], "controller.quorum.voters makes the voters static"),
        (DYNAMIC, [], "you must specify one of the following: --standalone"),
        (DYNAMIC, ["--standalone", "-N"], "you must specify one of the following"),
        (DYNAMIC, ["-I", "2@h:1:TUPKRRoUSEKcPK5wRxVVLA"], "must name this controller, node.id=1"),
        (DYNAMIC, ["-I", "1@h:1"], "expected id@host:port:directory-id"),
        (DYNAMIC, ["-I", f"1@h:1:{DIRECTORY_ID},1@h:2:{DIRECTORY_ID}"], "node id 1 is named twice"),
        (DYNAMIC, ["-I", "1@h:1:short"], "is not a Kafka uuid"),
    ],
)
def test_Q11_what_contradicts_itself(tmp_path: Path, quorum: str, options: list[str], said: str) -> None:
    result = format_(tmp_path, quorum, *options)
    assert result.exit_code != 0
    assert said in " ".join(result.output.split())
    assert not (tmp_path / "a").exists()


def test_Q11_another_cluster(tmp_path: Path) -> None:
    format_(tmp_path, STATIC)
    result = format_(tmp_path, STATIC, "--ignore-formatted", cluster="AAAAAAAAAAAAAAAAAAAAAQ")
    assert result.exit_code == 1
    assert "belongs to cluster" in result.output
    assert "is not a Kafka uuid" in format_(tmp_path / "", STATIC, cluster="short").output

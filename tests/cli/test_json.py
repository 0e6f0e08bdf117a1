"""Every command that shows or changes something can say so to a program: `--json`."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tierfetch.cli.main import cli
from tierfetch.testing import InProcessCluster
from tierfetch.tests.command_tree import command_of, commands

WITHOUT_RESULT = {
    ("broker",): "runs until it is stopped, and logs",
    ("console",): "serves pages until it is stopped",
    ("controller",): "runs until it is stopped, and logs",
    ("server",): "runs until it is stopped, and logs",
    ("spark", "demo"): "is a walk-through to read",
}
"""The commands that print no result. The list only gets shorter."""


def test_every_command_with_a_result_offers_json() -> None:
    paths = [tuple(path) for path in commands(runnable=True)]
    without = {path for path in paths if not any("--json" in parameter.opts for parameter in command_of(path).params)}
    assert len(paths) > 60
    assert without == set(WITHOUT_RESULT)


def run(*words: str) -> object:
    """Return the one document that a command prints."""
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.slow
@pytest.mark.tierfetch(brokers=1, tier=None)
def test_what_changes_a_cluster_prints_one_document(tierfetch_cluster: InProcessCluster) -> None:
    cluster = ("--bootstrap", tierfetch_cluster.bootstrap, "--json")
    created = run("topics", "create", "t", "--partitions", "2", "--replication", "1", *cluster)
    assert created == {"created": "t", "partitions": 2, "replicas": 1}
    assert run("topics", "grow", "t", "--to", "3", *cluster) == {"topic": "t", "partitions": 3}
    assert run("configs", "alter", "--topic", "t", "--set", "retention.ms=5", *cluster) == {
        "topic": "t",
        "broker": None,
        "group": None,
        "set": {"retention.ms": "5"},
        "removed": [],
    }
    feature = run("features", "set", "tierfetch.version", "1", "--dry-run", *cluster)
    assert feature == {"feature": "tierfetch.version", "level": 1, "dry_run": True}
    assert run("topics", "delete", "t", "--yes", *cluster) == {"deleted": ["t"]}


@pytest.mark.slow
@pytest.mark.tierfetch(brokers=1, tier=None)
def test_of_several_topics_those_that_were_deleted_are_said(tierfetch_cluster: InProcessCluster) -> None:
    tierfetch_cluster.create_topic("t", 1)
    words = ["topics", "delete", "absent", "t", "--yes", "--json", "--bootstrap", tierfetch_cluster.bootstrap]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {"deleted": ["t"]}
    assert "topic absent" in result.stderr


def test_a_question_goes_to_standard_error_and_no_is_no() -> None:
    words = ["topics", "delete", "t", "--json", "--bootstrap", "127.0.0.1:1"]
    result = CliRunner().invoke(cli, words, input="n\n")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "Continue? [y/N]" in result.stderr


def test_an_id_and_a_formatted_directory(tmp_path: Path) -> None:
    made = run("random-uuid", "--json")
    file = tmp_path / "controller.properties"
    file.write_text(
        f"node.id=1\nprocess.roles=controller\nlog.dirs={tmp_path / 'data'}\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    )
    words = ["format", "--config", str(file), "--cluster-id", made["uuid"], "--standalone", "--json"]
    assert run(*words) == {"formatted": [str(tmp_path / "data")], "cluster_id": made["uuid"]}


def test_json_is_one_option_everywhere() -> None:
    """It is a flag, or the file of a document that a command makes beside its text."""
    for path in commands(runnable=True):
        for parameter in command_of(path).params:
            if isinstance(parameter, click.Option) and "--json" in parameter.opts:
                assert parameter.is_flag or isinstance(parameter.type, click.Path), path

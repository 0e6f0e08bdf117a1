"""The command itself: help without imports, exit codes, messages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tierfetch.cli import options
from tierfetch.cli.main import cli
from tierfetch.cli.options import OutputFile


def test_help_names_the_commands_and_imports_none() -> None:
    script = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from tierfetch.cli.main import cli\n"
        "result = CliRunner().invoke(cli, ['--help'])\n"
        "assert result.exit_code == 0, result.output\n"
        "prefixes = ('kio', 'pydantic', 'boto', 'rich', 'tierfetch.broker')\n"
        "heavy = [name for name in sys.modules if name.startswith(prefixes)]\n"
        "assert not heavy, heavy\n"
        "print(result.output)"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    for name in ("broker", "demo", "dump-log", "tier"):
        assert f"\n  {name} " in output


@pytest.mark.parametrize(
    "command",
    [
        "broker",
        "brokers",
        "cluster",
        "configs",
        "controller",
        "demo",
        "dump-log",
        "features",
        "format",
        "log-dirs",
        "model",
        "quorum",
        "random-uuid",
        "reassign",
        "server",
        "simulate",
        "tier",
        "topics",
    ],
)
def test_every_command_explains_itself(command: str) -> None:
    result = CliRunner().invoke(cli, [command, "--help"])
    assert result.exit_code == 0, result.output
    assert len(result.output) > 200


@pytest.mark.parametrize(
    ("slip", "said"),
    [
        ("brokre", "no command 'brokre': did you mean broker or brokers? There are broker, brokers, cluster, configs"),
        ("topic", "no command 'topic': did you mean topics? There are broker"),
        ("xyzzy", "no command 'xyzzy'. There are broker"),
    ],
)
def test_unknown_command_names_those_that_exist(slip: str, said: str) -> None:
    result = CliRunner().invoke(cli, [slip])
    assert result.exit_code == 2
    assert said in result.output


def test_wrong_configuration_is_exit_code_1_with_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "broker.properties"
    path.write_text("node.id=one\n")
    result = CliRunner().invoke(cli, ["broker", "--config", str(path)])
    assert result.exit_code == 1
    assert "node.id='one': expected a valid integer" in result.output
    assert "log.dirs is missing" in result.output


@pytest.mark.parametrize("command", [("demo", "--json"), ("demo", "--html"), ("simulate", "--seed", "1", "--json")])
def test_a_file_that_cannot_be_written_is_said_before_the_work(command: tuple[str, ...], tmp_path: Path) -> None:
    nowhere = str(tmp_path / "no" / "file")
    result = CliRunner().invoke(cli, [*command, nowhere], catch_exceptions=False)
    assert (result.exit_code, f"{nowhere}: cannot be written" in result.output) == (2, True), result.output


def test_a_file_that_is_there_is_written_whatever_its_directory_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "stdout"
    there.touch()
    monkeypatch.setattr(options.os, "access", lambda path, mode: Path(path) != tmp_path)
    assert OutputFile().convert(str(there), None, None) == there
    with pytest.raises(click.UsageError, match="may not be written to"):
        OutputFile().convert(str(tmp_path / "new"), None, None)


@pytest.mark.parametrize("command", [("describe",), ("alter", "--set", "log.retention.ms=1")])
def test_a_broker_goes_by_its_id(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, ["configs", *command, "--broker", "kafka-1"], catch_exceptions=False)
    assert (result.exit_code, "--broker kafka-1: expected the id" in result.output) == (2, True), result.output


def test_missing_option_is_wrong_usage() -> None:
    result = CliRunner().invoke(cli, ["broker"])
    assert result.exit_code == 2
    assert "--config" in result.output

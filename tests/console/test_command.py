"""What `tierfetch console` refuses before it asks a cluster."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from tierfetch.cli.main import cli


def run(home: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        cli, ["console", "--bootstrap", "127.0.0.1:1", *arguments], env={"XDG_CONFIG_HOME": str(home)}
    )
    return result.exit_code, result.output


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_other_machines_are_kept_out_and_the_reason_is_given(tmp_path: Path, host: str) -> None:
    code, output = run(tmp_path, "--host", host)
    assert code == 1
    assert f"{host} is not loopback: the console has no passwords" in output
    assert "--allow-remote" in output


def test_a_taken_port_is_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, output = run(tmp_path, "--port", str(taken.getsockname()[1]))
    assert code == 1
    assert "Address already in use" in output


def test_a_figure_that_the_model_does_not_know(tmp_path: Path) -> None:
    code, output = run(tmp_path, "--known", "wings=2")
    assert code == 2
    assert "wings" in output
    assert "nic_in_bytes_per_s" in output

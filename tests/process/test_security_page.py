"""The walk-through of `docs/security.md` is run as it stands there, but for its ports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tierfetch.cli.command_config import VARIABLE
from tierfetch.cli.local.processes import free_ports, poll
from tierfetch.tests.process.children import ended, started

pytestmark = [pytest.mark.secured, pytest.mark.timeout(180)]
PAGE = Path(__file__).parents[2] / "docs" / "security.md"
TIMEOUT_S = 60.0


def blocks() -> list[str]:
    """The indented blocks of the walk-through, ports replaced by free ones."""
    section = PAGE.read_text().split("## From nothing to a secured node\n")[1].split("\n## ")[0]
    section = re.sub(r"`[^`]+`", "", section)
    ports = dict(zip(("9092", "9093", "9094"), map(str, free_ports(3)), strict=True))
    section = re.sub("909[234]", lambda found: ports[found.group()], section)
    found = re.findall(r"(?:^    .+\n)+", section, re.MULTILINE)
    return [re.sub("^    ", "", block, flags=re.MULTILINE) for block in found]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """`tierfetch` on the path is this checkout's."""
    script = tmp_path / "bin" / "tierfetch"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m tierfetch.cli.main "$@"\n')
    script.chmod(0o700)
    return {**os.environ, "PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}"}


def shell(commands: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euc", commands],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_the_walk_through_works_as_it_is_written(tmp_path: Path, environment: dict[str, str]) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    certificates, server, client, use = blocks()
    (tmp_path / "server.properties").write_text(server)
    (tmp_path / "client.properties").write_text(client)
    (tmp_path / "client.properties").chmod(0o600)
    done = shell(certificates, tmp_path, environment)
    assert done.returncode == 0, done.stderr
    formatting, serving, export, *commands = use.splitlines()
    assert (serving, export) == (
        "tierfetch server --config server.properties &",
        f"export {VARIABLE}=client.properties",
    )
    done = shell(formatting, tmp_path, environment)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "log").open("wb") as log:
        line = serving.removesuffix(" &").split()[1:]
        node = started([sys.executable, "-m", "tierfetch.cli.main", *line], log, cwd=tmp_path)
    with ended(node, (tmp_path / "log").read_text):
        for _ in poll(TIMEOUT_S, lambda: f"the node to serve: {(tmp_path / 'log').read_text()[-2000:]}", 0.1):
            assert node.poll() is None, (tmp_path / "log").read_text()
            if "is ready" in (tmp_path / "log").read_text():
                break
        for command in commands:
            done = shell(f"{export}\n{command}", tmp_path, environment)
            assert done.returncode == 0, done.stderr
        assert "topics list" in commands[-1]
        assert "orders" in done.stdout
        refused = shell(commands[-1], tmp_path, environment)
        assert refused.returncode == 1
        assert "orders" not in refused.stdout
    said = (tmp_path / "log").read_text()
    assert "admin-secret" not in said
    assert "Traceback" not in said

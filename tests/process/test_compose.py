"""`deploy/compose.yaml` is run as it is written, without containers: its commands, configurations and health checks.

Each service has an address of its own, 127.0.9.x, in the place of its container's, and a folder in the place of its
volumes. All else is the file's own: entrypoints, arguments, the shell script of the controllers, ports.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tierfetch.cli.local.processes import poll
from tierfetch.tests.process.children import ended, started

pytestmark = [pytest.mark.commands, pytest.mark.plaintext, pytest.mark.timeout(300)]
DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CONFIG: Final = "/etc/tierfetch/node.properties"
TIMEOUT_S: Final = 90.0
DEFAULT: Final = re.compile(r"\$\{(\w+):-([^}]*)\}")


class Host:
    """The machine of one service: what differs from its container."""

    def __init__(self, folder: Path, name: str, addresses: dict[str, str], service: dict[str, Any]) -> None:
        self.name = name
        self.service = service
        self.address = addresses[name]
        self.folder = folder / name
        self.folder.mkdir()
        self.log = self.folder / "output"
        text = (DEPLOY / "config" / f"{name}.properties").read_text()
        for other, address in addresses.items():
            text = text.replace(f"{other}:", f"{address}:")
        text = re.sub(r"\b(0\.0\.0\.0|127\.0\.0\.1)\b", self.address, text)
        text = text.replace("/var/lib/tierfetch-tier", str(folder / "tier"))
        text = text.replace("/var/lib/tierfetch", str(self.folder / "volume"))
        (self.folder / "node.properties").write_text(text)

    def here(self, words: list[str]) -> list[str]:
        """Return the words of a command, with paths and addresses of this machine in them."""
        config = str(self.folder / "node.properties")
        return [word.replace(CONFIG, config).replace("127.0.0.1", self.address).replace("$$", "$") for word in words]

    @property
    def command(self) -> list[str]:
        image = ["tierfetch"]  # the entrypoint of the Containerfile, which tests/test_deploy.py holds
        return self.here([*self.service.get("entrypoint", image), *self.service.get("command", [])])

    def said(self) -> str:
        return f"{self.name}: {self.log.read_text()[-2000:]}"

    def is_healthy(self, environment: dict[str, str]) -> bool:
        kind, *words = self.service["healthcheck"]["test"]
        assert kind == "CMD"
        done = subprocess.run(self.here(words), env=environment, capture_output=True, timeout=60, check=False)
        return done.returncode == 0


@contextmanager
def running(host: Host, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    given = {name: DEFAULT.sub(r"\2", value) for name, value in host.service.get("environment", {}).items()}
    with host.log.open("wb") as file:
        process = started(host.command, file, env=environment | given, cwd=host.folder)
    with ended(process, host.said, timeout_s=TIMEOUT_S):
        yield process


def tools(folder: Path) -> dict[str, str]:
    """Return an environment whose path has the image's `tierfetch` and `python`: those of this run."""
    found = folder / "bin"
    found.mkdir()
    for name, options in {"tierfetch": ' -m tierfetch.cli.main "$@"', "python": ' "$@"'}.items():
        (found / name).write_text(f"#!/bin/sh\nexec {sys.executable}{options}\n")
        (found / name).chmod(0o700)
    return {**os.environ, "PATH": f"{found}{os.pathsep}{os.environ['PATH']}", "XDG_CONFIG_HOME": str(folder / "config")}


def test_the_compose_file_starts_a_cluster_with_a_tier(tmp_path: Path) -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    nodes = {name: each for name, each in services.items() if "build" in each}
    addresses = {name: f"127.0.9.{number}" for number, name in enumerate(nodes, 1)}
    (tmp_path / "tier").mkdir()
    hosts = [Host(tmp_path, name, addresses, service) for name, service in nodes.items()]
    environment = tools(tmp_path)

    def tierfetch(*words: str, given: str = "") -> str:
        command = ["tierfetch", *words, "--bootstrap", f"{addresses['broker-1']}:9092"]
        done = subprocess.run(
            command, input=given, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with ExitStack() as stack:
        processes = {host: stack.enter_context(running(host, environment)) for host in hosts}
        for host in hosts:
            for _ in poll(TIMEOUT_S, host.said, 0.2):
                assert processes[host].poll() is None, host.log.read_text()
                if host.is_healthy(environment):
                    break
        tierfetch("topics", "create", "orders", "--replication", "3", "--config", "remote.storage.enable=true")
        tierfetch("produce", "orders", given="one\ntwo\n")
        assert tierfetch("consume", "orders", "--from", "earliest", "--exit") == "one\ntwo\n"
        assert "__remote_log_metadata" in tierfetch("topics", "list")

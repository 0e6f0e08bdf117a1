"""kafkajs and franz-go at a secured cluster, configured as their users configure them: TLS and SCRAM-SHA-512.

Both come from their registries; where one does not answer, its test skips with the reason. Go's compiler takes minutes
the first time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.security import LocalSecurity

FOREIGN = Path(__file__).parent / "foreign"
INSTALL_S = 400.0
RUN_S = 120.0

pytestmark = [pytest.mark.plaintext, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    base = tmp_path_factory.mktemp("foreign")
    with LocalCluster(base, (1,), security=LocalSecurity(base / "secrets")) as cluster:
        yield cluster


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def installed(command: Sequence[str], directory: Path) -> None:
    """Run what fetches a client; the test skips with what it says if it fails."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode != 0:
        pytest.skip(f"{' '.join(command[:2])}: {done.stderr.strip()[-300:]}")


def there_and_back(
    cluster: LocalCluster, command: Sequence[str | Path], topic: str, environment: Mapping[str, str] | None = None
) -> str:
    """Return what the client has read."""
    assert cluster.security is not None
    login = cluster.security.librdkafka()
    where = (cluster.bootstrap_servers, login["ssl.ca.location"], login["sasl.username"], login["sasl.password"], topic)
    env = {**os.environ, **(environment or {})}
    done = subprocess.run([*command, *where], env=env, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_kafkajs(secured: LocalCluster, tmp_path: Path) -> None:
    node = program("node")
    installed(
        (program("npm"), "install", "--no-audit", "--no-fund", "--prefix", str(tmp_path), "kafkajs@2.2.4"), tmp_path
    )
    modules = {"NODE_PATH": str(tmp_path / "node_modules")}
    said = there_and_back(secured, (node, FOREIGN / "kafkajs.js"), "of-kafkajs", modules)
    assert said.splitlines() == ["from kafkajs, committed, the last one", "offset 1"], "nothing of what was aborted"


def test_franz_go(secured: LocalCluster, tmp_path: Path) -> None:
    binary = tmp_path / "franzgo"
    installed((program("go"), "build", "-o", str(binary), "."), FOREIGN / "franz_go")
    assert there_and_back(secured, (binary,), "of-franz-go") == "from franz-go"

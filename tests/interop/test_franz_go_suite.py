"""franz-go's own client suite, whole, against a broker of ours: produce, fetch, groups of each kind, transactions.

It comes from Go's registry; where that does not answer, the test skips with the reason. Go's compiler takes a minute
the first time.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.tests.interop.test_secure_foreign_clients import installed, program
from tierfetch.tests.process.test_cluster_command import tierfetch

VERSION = "v1.22.2"
PACKAGE = "github.com/twmb/franz-go/pkg/kgo"
RUN_S = 500.0
SETTINGS = {"KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "5000"}
SKIPPED = {"TestSCRAMAuth", "TestSCRAMAuthBadCredentials"}
"""They need a secured cluster, which `test_secure_foreign_clients` has."""

pytestmark = [pytest.mark.plaintext, pytest.mark.timeout(1000)]


@dataclass(frozen=True, slots=True)
class Suite:
    """The compiled suite, and the directory of its source, which it reads too."""

    program: Path
    source: Path


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    base, go = tmp_path_factory.mktemp("franz-go"), program("go")
    for command in (
        ("mod", "init", "suite"),
        ("get", f"github.com/twmb/franz-go@{VERSION}"),
        ("test", "-mod=mod", "-c", "-o", str(base / "suite"), PACKAGE),
    ):
        installed((go, *command), base)
    found = subprocess.run(
        [go, "list", "-mod=mod", "-f", "{{.Dir}}", PACKAGE], cwd=base, capture_output=True, text=True, check=True
    )
    return Suite(base / "suite", Path(found.stdout.strip()))


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[str]:
    with LocalCluster(tmp_path, (1,)) as cluster:
        for feature, level in (("group.version", 1), ("share.version", 1), ("transaction.version", 2)):
            tierfetch(cluster.bootstrap_servers, "features", "set", feature, str(level))
        yield cluster.bootstrap_servers


def test_the_suite_passes_whole(suite: Suite, servers: str) -> None:
    done = subprocess.run(
        [str(suite.program), "-test.v", f"-test.timeout={RUN_S - 20:.0f}s"],
        cwd=suite.source,
        env={**os.environ, **SETTINGS, "KGO_SEEDS": servers, "KGO_LOG_LEVEL": "error"},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=RUN_S,
        check=False,
    )
    found = re.findall(r"^--- (PASS|FAIL|SKIP): (\S+)", done.stdout, re.MULTILINE)
    assert [name for result, name in found if result == "FAIL"] == [], done.stdout[-5000:]
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert {name for result, name in found if result == "SKIP"} == SKIPPED
    assert sum(result == "PASS" for result, _ in found) > 140

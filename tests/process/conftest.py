"""Real broker processes on loopback; every test here is marked `process` and `slow`. The long fault suites are
`faults`, those that start and operate whole clusters by the command are `commands`.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import LocalCluster, TierSettings
from tierfetch.cli.local.nodes import LocalNodes
from tierfetch.tests.process.securing import leave_out_plaintext, secured_clusters

LOG_CHARACTERS = 10_000
FAULT_SUITES = {
    "test_faults.py",
    "test_faulty_tier.py",
    "test_whole_cluster.py",
    "test_group_failover.py",
    "test_transaction_failover.py",
}
COMMAND_SUITES = {
    "test_cluster_command.py",
    "test_readme.py",
    "test_reassign.py",
    "test_record_commands.py",
    "test_tutorial.py",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.process)
            item.add_marker(pytest.mark.slow)
            if item.path.name in FAULT_SUITES:
                item.add_marker(pytest.mark.faults)
            if item.path.name in COMMAND_SUITES:
                item.add_marker(pytest.mark.commands)
            leave_out_plaintext(config, item)


@pytest.fixture(scope="package", autouse=True)
def nodes_start_as_users_have_them() -> Iterator[None]:
    """Processes that are started here keep their bytecode."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of each node's log below a test that failed on it."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        nodes = [value for value in item.funcargs.values() if isinstance(value, LocalNodes)]
        report.sections += [
            (f"log of {each.kind} {node}", each.log_file(node).read_text(errors="replace")[-LOG_CHARACTERS:])
            for each in nodes
            for node in each.nodes
            if each.log_file(node).exists()
        ]
    return report


@pytest.fixture(scope="package", autouse=True)
def clusters_are_secured(
    nodes_start_as_users_have_them: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """With `--secure` every cluster is, and every client, command and process that a test starts gets in."""
    if not request.config.getoption("--secure"):
        yield
        return
    with secured_clusters(tmp_path_factory.mktemp("security")):
        yield


def local_tier(base: Path) -> TierSettings:
    return TierSettings("local", {"dir": str(base / "tier")})


@pytest.fixture(scope="package")
def shared_cluster(clusters_are_secured: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two brokers with a local tier, for tests that kill nothing."""
    base = tmp_path_factory.mktemp("cluster")
    with LocalCluster(base, (1, 2), tier=local_tier(base)) as cluster:
        yield cluster

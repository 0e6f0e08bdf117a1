"""Real broker processes on loopback; every test here is marked `process` and `slow`, the long fault suites `faults`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.cli.local_cluster import LocalCluster, TierSettings

FAULT_SUITES = {"test_faults.py", "test_faulty_tier.py", "test_whole_cluster.py", "test_group_failover.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.process)
            item.add_marker(pytest.mark.slow)
            if item.path.name in FAULT_SUITES:
                item.add_marker(pytest.mark.faults)


@pytest.fixture(scope="package", autouse=True)
def nodes_start_as_users_have_them() -> Iterator[None]:
    """Processes that are started here find no hypothesis, and keep their bytecode."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("PYTHONPATH", str(Path(__file__).parent / "as_users_have_it"), prepend=os.pathsep)
        yield


def local_tier(base: Path) -> TierSettings:
    return TierSettings("local", {"dir": str(base / "tier")})


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two brokers with a local tier, for tests that kill nothing."""
    base = tmp_path_factory.mktemp("cluster")
    with LocalCluster(base, (1, 2), tier=local_tier(base)) as cluster:
        yield cluster

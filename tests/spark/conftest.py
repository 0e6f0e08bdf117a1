"""One session for all tests; everything here is marked `spark`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tierfetch.cli.local.cluster import LocalCluster, TierSettings


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark", reason="Spark is not installed: make test-spark, or pip install '.[spark]'")
    from tierfetch.pipeline import local_session

    session = local_session("local[2]", {"spark.ui.showConsoleProgress": "false"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two brokers that tier into `base/tier`, and soon delete what is there."""
    base = tmp_path_factory.mktemp("cluster")
    tier, configs = TierSettings("local", {"dir": str(base / "tier")}), {"log.retention.check.interval.ms": "1000"}
    with LocalCluster(base, (1, 2), tier=tier, configs=configs) as cluster:
        yield cluster

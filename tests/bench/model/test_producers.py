"""Producers of a scenario write while the block lasts, and no longer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tierfetch.bench.model.lab import Lab
from tierfetch.bench.model.producers import LOAD_RECORDS
from tierfetch.bench.model.replacement import load
from tierfetch.bench.model.scenario import Scenario
from tierfetch.cli.local import poll
from tierfetch.testing import InProcessCluster

pytestmark = pytest.mark.slow
PRODUCED = Scenario(name="produced", total_mb=1, partitions=2, produce_mb_s=1, is_tiered=False)


class Running:
    """What a lab asks of its cluster: where broker 1 is."""

    def __init__(self, cluster: InProcessCluster) -> None:
        self._host, _, self._port = cluster.address(1).partition(":")

    def host(self, node: int) -> str:
        assert node == 1
        return self._host

    def port(self, node: int) -> int:
        assert node == 1
        return int(self._port)


def test_records_come_to_all_partitions_until_the_end(tierfetch_cluster: InProcessCluster, tmp_path: Path) -> None:
    tierfetch_cluster.create_topic("t", 2)
    lab = Lab("tierfetch", cast(Any, Running(tierfetch_cluster)), tmp_path / "cluster", 1, tmp_path)
    with load(lab, PRODUCED, "t"):
        for _ in poll(20.0, "records in both partitions", 0.1):
            if all(len(tierfetch_cluster.records("t", each)) > LOAD_RECORDS for each in (0, 1)):
                break
    written = len(tierfetch_cluster.records("t"))
    assert written % LOAD_RECORDS == 0, "what was under way is written"
    assert len(tierfetch_cluster.records("t")) == written


def test_a_scenario_without_producers_has_none(tmp_path: Path) -> None:
    lab = Lab("tierfetch", cast(Any, None), tmp_path / "cluster", 1, tmp_path)
    with load(lab, Scenario(name="idle", total_mb=1), "t"):
        assert list(tmp_path.iterdir()) == []

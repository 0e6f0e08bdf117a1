"""Producers of a scenario write while the block lasts, and no longer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tierfetch.bench.model.forecast import consume_what_is_produced
from tierfetch.bench.model.lab import INTERNAL_TOPIC, Lab
from tierfetch.bench.model.producers import (
    EVERY_S,
    LOAD_RECORDS,
    RECORD_BYTES,
    next_due,
    places_of,
    records_of,
    topic_argument,
)
from tierfetch.bench.model.replacement import load
from tierfetch.bench.model.scenario import Scenario
from tierfetch.cli.local import poll
from tierfetch.testing import InProcessCluster

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


@pytest.mark.slow
def test_records_come_to_all_partitions_until_the_end(tierfetch_cluster: InProcessCluster, tmp_path: Path) -> None:
    tierfetch_cluster.create_topic("t", 2)
    lab = Lab("tierfetch", cast(Any, Running(tierfetch_cluster)), tmp_path / "cluster", 1, tmp_path)
    with load(lab, PRODUCED, "t"):
        for _ in poll(20.0, "records in both partitions", 0.1):
            if all(len(tierfetch_cluster.records("t", each)) > LOAD_RECORDS for each in (0, 1)):
                break
    written = len(tierfetch_cluster.records("t"))
    assert written % records_of(2, 1) == 0, "what was under way is written"
    assert len(tierfetch_cluster.records("t")) == written


def partitions_of(document: dict[str, Any], topic: str) -> list[dict[str, Any]]:
    (found,) = (each["partitions"] for each in document["topics"] if each["name"] == topic)
    return list(found)


def test_consumers_read_what_is_produced_and_the_inventory_says_so() -> None:
    document = {
        "topics": [
            {"name": name, "partitions": [{"produce_bytes_per_s": 5}, {"produce_bytes_per_s": 0}]}
            for name in ("scenario1", INTERNAL_TOPIC)
        ]
    }
    consume_what_is_produced(document)
    assert [each["consume_bytes_per_s"] for each in partitions_of(document, "scenario1")] == [5, 0]
    assert not any("consume_bytes_per_s" in each for each in partitions_of(document, INTERNAL_TOPIC))


@pytest.mark.slow
def test_consumers_read_as_long_as_producers_write(tierfetch_cluster: InProcessCluster, tmp_path: Path) -> None:
    tierfetch_cluster.create_topic("t", 2)
    lab = Lab("tierfetch", cast(Any, Running(tierfetch_cluster)), tmp_path / "cluster", 1, tmp_path)
    with load(lab, replace(PRODUCED, consumes=True), "t"):
        for _ in poll(20.0, "two turns of records", 0.1):
            if len(tierfetch_cluster.records("t", 1)) > 2 * LOAD_RECORDS:
                break
    said = (tmp_path / "producers-t.log").read_text()
    (read,) = (int(line.split()[0]) for line in said.splitlines() if line.endswith("records read"))
    assert 0 < read <= len(tierfetch_cluster.records("t"))


def test_partitions_of_all_topics_are_written_to() -> None:
    arguments = [topic_argument("scenario1", 2), topic_argument("scenario1-b", 1)]
    assert places_of(arguments) == [("scenario1", 0), ("scenario1", 1), ("scenario1-b", 0)]


def test_a_scenario_without_producers_has_none(tmp_path: Path) -> None:
    lab = Lab("tierfetch", cast(Any, None), tmp_path / "cluster", 1, tmp_path)
    with load(lab, Scenario(name="idle", total_mb=1), "t"):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("partitions", "produce_mb_s"), [(22, 1.0), (60, 1.0), (1, 12.0), (4, 15.0), (60, 0.04)])
def test_each_partition_gets_records_every_half_a_second(partitions: int, produce_mb_s: float) -> None:
    records = records_of(partitions, produce_mb_s)
    turn_s = partitions * records * RECORD_BYTES / (produce_mb_s * 1e6)
    assert 1 <= records <= LOAD_RECORDS
    assert turn_s <= EVERY_S or records == 1


def test_a_producer_that_was_held_up_makes_up_for_a_second_at_most() -> None:
    assert next_due(10.0, 0.25, 10.01) == 10.25, "in time"
    assert next_due(10.0, 0.25, 11.0) == 10.25, "late, and makes up for it"
    assert next_due(10.0, 0.25, 40.0) == 39.0, "held up for half a minute"

"""What `tierfetch spark` says without a Spark: usage, what to install, and the sums of a sweep."""

from __future__ import annotations

import sys
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from tierfetch.cli.main import cli
from tierfetch.cli.spark.sweep_page import duration, sweep_page
from tierfetch.cli.spark.sweep_picture import sweep_picture
from tierfetch.cli.spark.sweep_report import SweepReport, sweep_report
from tierfetch.model.sweep import CASE_FIELDS, sweep_cases


def command(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["spark", *arguments])


def test_without_spark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    result = command("profile", "nowhere")
    assert result.exit_code == 1
    assert "pyspark is not installed; the extra [spark] brings it: pip install '.[spark]'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("audit", "tier", "--option", "mood"), "expected KEY=VALUE, such as storage.region=eu-west-1"),
        (("audit", "tier", "--conf", "mood"), "expected KEY=VALUE, such as spark.executor.memory=4g"),
        (("audit", "tier", "--bootstrap", "nowhere"), "--bootstrap"),
        (("profile", "tier", "--topic", "a", "--topics-pattern", "b"), "either --topic or --topics-pattern"),
        (("sweep", "--before", "tier-first"), "nothing to compare"),
        (("compact-to", "tier"), "Missing argument 'DESTINATION'"),
    ],
)
def test_wrong_usage_needs_no_spark(arguments: tuple[str, ...], message: str) -> None:
    result = command(*arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr


BASE = {
    "brokers": 6,
    "partitions": 100,
    "failed_brokers": 1,
    "tiered_share": 1.0,
    "produce_bytes_per_s": 1e6,
    "retention_h": 100.0,
    "local_retention_h": 10.0,
    "segment_bytes": 1e8,
    "throttle_bytes_per_s": 0.0,
    "tier_latency_ms": 30.0,
}


def runs(cluster: int, before: tuple[float | None, float], after: tuple[float | None, float], **more: Any) -> list[Any]:
    """(seconds, bytes) of both runs of one cluster."""
    return [
        {**BASE, **more, "cluster_id": cluster, "policy": policy, "duration_s": seconds, "leader_bytes": copied}
        for policy, (seconds, copied) in (("without", before), ("with", after))
    ]


@pytest.fixture
def found() -> SweepReport:
    rows = [
        *runs(0, (100.0, 1000.0), (12.0, 100.0)),
        *runs(1, (100.0, 1000.0), (60.0, 500.0), tiered_share=0.5, brokers=12),
        *runs(2, (100.0, 1000.0), (30.0, 120.0), throttle_bytes_per_s=1e6),
        *runs(3, (None, 1000.0), (None, 800.0), failed_brokers=2),
        *runs(4, (5.0, 0.0), (5.0, 0.0), local_retention_h=1.0),
    ]
    return sweep_report(rows, seed=7, before="without", after="with")


def test_P2_ratios_are_of_the_two_runs_of_a_cluster(found: SweepReport) -> None:
    whole = found.whole
    assert whole.clusters == 5
    assert whole.data_ratio.p50 == pytest.approx((0.12 + 0.5) / 2)
    assert whole.time_ratio.p50 == pytest.approx((0.3 + 0.6) / 2)
    assert whole.data_within_claim == pytest.approx(2 / 4)
    assert whole.time_within_claim == pytest.approx(1 / 4)
    assert (whole.never_join_before, whole.never_join_after) == (1, 1)
    assert found.time_follows_data == pytest.approx(1 / 3), "0.12 by 0.10; not 0.6 by 0.5, nor 0.3 by 0.12"


def test_P2_clusters_are_told_apart_by_what_decides(found: SweepReport) -> None:
    groups = {(factor.name, group.name): group.clusters for factor in found.factors for group in factor.groups}
    assert groups["share of partitions that is tiered", "50% tiered"] == 1
    assert groups["replication throttle", "throttled"] == 1
    assert groups["brokers that failed together", "2"] == 1
    assert groups["how much of the data is local as well", "up to 5 %"] == 1
    assert [group.name for group in found.by_size] == ["6 brokers", "12 brokers"]
    assert all(sum(group.clusters for group in factor.groups) == 5 for factor in found.factors)


def test_P2_the_page_says_claim_and_answer(found: SweepReport) -> None:
    pytest.importorskip("plotly")
    page = sweep_page(found)
    assert "can be as low as 10-15%" in page
    assert "At most 15 % of the data: 50% of the clusters" in page
    assert "<script src" not in page


def test_P2_the_picture_has_every_size_and_a_curve_for_each_share(found: SweepReport) -> None:
    picture = ElementTree.fromstring(sweep_picture(found))
    names = [element.tag.rpartition("}")[2] for element in picture.iter()]
    assert names.count("circle") == 2 * len(found.by_size)
    assert names.count("polyline") == len({pair.tiered_share for pair in found.pairs})
    texts = {element.text for element in picture.iter() if element.text}
    assert {"6", "12", "the claim", "50% of partitions tiered"} <= texts
    places = [float(element.get(key, "0")) for element in picture.iter() for key in ("cx", "x1", "x2")]
    assert 0 <= min(places) <= max(places) <= 1080


def test_the_models_cases_have_what_the_report_needs() -> None:
    names = {name for name, _ in CASE_FIELDS}
    assert set(BASE) <= names
    first, second = sweep_cases(1, seed=1)
    assert first["cluster_id"] == second["cluster_id"]
    assert first["policy"] != second["policy"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.21, "3.2 s"), (150, "2.5 min"), (7200, "2.0 h"), (172_800, "2.0 days")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text

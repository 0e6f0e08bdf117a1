"""Every page that a command writes, of small fixed data: all of them hold the rules of `checks`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from tierfetch.cli.demo.report import DemoReport, PolicyResult, demo_page
from tierfetch.cli.main import cli
from tierfetch.cli.simulate_page import simulate_page
from tierfetch.cli.spark.sweep_page import sweep_page
from tierfetch.cli.spark.sweep_report import sweep_report
from tierfetch.pages import Made
from tierfetch.pipeline.jobs.audit_page import audit_page
from tierfetch.pipeline.jobs.audit_report import AuditedPartition, AuditedSegment, AuditFinding, TierAudit
from tierfetch.pipeline.jobs.profile_page import profile_page
from tierfetch.pipeline.jobs.profile_report import (
    CodecShare,
    KeyFigures,
    PartitionProfile,
    RateBucket,
    TierProfile,
    TopicProfile,
)
from tierfetch.sim.faults import Schedule
from tierfetch.sim.scenarios import RunReport
from tierfetch.tests.model.builders import EXAMPLE

from .checks import check

pytest.importorskip("matplotlib", reason="matplotlib of the extras is not installed")
MADE = Made(datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "1.2.3", "tierfetch page --of <data>")
HOSTILE = "<script>alert(1)</script>"


def demo(*, identical: bool = True) -> str:
    results = [
        PolicyResult(
            policy=policy,
            start_to_isr_s=seconds,
            first_fetch_to_isr_s=seconds / 2,
            bytes_from_leader=copied,
            bytes_from_tier=9000,
            first_local_offset=7,
            identical=identical,
        )
        for policy, seconds, copied in (("tier-first", 1.2, 3 << 20), ("log-start", 9.5, 1 << 30))
    ]
    return demo_page(DemoReport(policies=results, consumer_ok=True, bytes_produced=1 << 30, tier="local"), MADE)


def audit() -> str:
    segment = AuditedSegment(
        segment_id="id",
        start_offset=0,
        end_offset=9,
        size_bytes=1000,
        max_timestamp_ms=0,
        leader_epochs=[0],
        batches=3,
        records=10,
        is_sound=False,
    )
    finding = AuditFinding(kind="corrupt", subject=HOSTILE, message="CRC & all", is_damage=True)
    partition = AuditedPartition(topic=HOSTILE, partition=0, topic_id="x", segments=[segment], findings=[finding])
    return audit_page(
        TierAudit(tier="tier", layout="kafka", finished_at_ms=0, by_metadata=False, partitions=[partition]), MADE
    )


def profile(topics: int = 30) -> str:
    found = [
        TopicProfile(
            topic=f"{HOSTILE}-{number}",
            partitions=[
                PartitionProfile(
                    partition=0,
                    segments=3,
                    size_bytes=1000 * number + 7,
                    start_offset=0,
                    end_offset=100,
                    batches=10,
                    records=100,
                    first_timestamp_ms=1_700_000_000_000,
                    last_timestamp_ms=1_700_100_000_000,
                )
            ],
            codecs={"zstd": CodecShare(size_bytes=700), "none": CodecShare(size_bytes=300)},
            rates=[
                RateBucket(start_ms=1_700_000_000_000 + 3_600_000 * hour, records=5, size_bytes=50_000 * hour)
                for hour in range(200)
            ],
            keys=KeyFigures(records=100, distinct_keys=50, payload_bytes=9000, kept_bytes=4000, largest_key_records=40),
        )
        for number in range(topics)
    ]
    return profile_page(TierProfile(tier="s3://b/t", bucket_ms=3_600_000, has_keys=True, topics=found), MADE)


def sweep(clusters: int = 2000) -> str:
    rows = []
    for number in range(clusters):
        base = {
            "cluster_id": number,
            "brokers": 6 * (1 + number % 4),
            "partitions": 100,
            "failed_brokers": 1,
            "tiered_share": (1.0, 0.75, 0.5)[number % 3],
            "produce_bytes_per_s": 1e6,
            "retention_h": 100.0,
            "local_retention_h": 10.0,
            "segment_bytes": 1e8,
            "throttle_bytes_per_s": 0.0,
            "tier_latency_ms": 30.0,
        }
        rows.append({**base, "policy": "kafka", "duration_s": 100.0 + number, "leader_bytes": 1e9})
        rows.append({**base, "policy": "tier-first", "duration_s": 12.0 + number / 9, "leader_bytes": 1e8 + number})
    return sweep_page(sweep_report(rows, seed=3, before="kafka", after="tier-first"), MADE)


def simulation(*, failures: tuple[str, ...] = (f"lost write: {HOSTILE}",)) -> str:
    reports = [
        RunReport(
            scenario=("cluster", "quorum")[seed % 2],
            seed=seed,
            failures=failures if seed == 7 else (),
            schedule=Schedule(1_000, ()),
            options={},
            virtual_s=20.0,
            real_s=0.5,
            events=1_000,
            injected={"process crash": 100 * seed, "link cut": 1, "pause, skipped": 1},
            records_acknowledged=30,
            records_checked=29,
            records_excused=1,
            digest="d1",
        )
        for seed in range(1, 200)
    ]
    return simulate_page(reports, 200, MADE)


def model(tmp_path: Path, *arguments: str) -> str:
    path = tmp_path / "page.html"
    command = ["model", arguments[0], "--cluster", str(EXAMPLE), *arguments[1:], "--html", str(path)]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    return path.read_text()


@pytest.mark.parametrize("write", [demo, audit, profile, sweep, simulation])
def test_a_page_holds_the_rules(write: Callable[[], str]) -> None:
    page = write()
    check(page)
    assert "2026-01-02 03:04 UTC</time> · tierfetch 1.2.3 · <code>tierfetch page --of &lt;data&gt;</code>" in page
    assert "alert(1)" not in page or "&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "--broker", "3"),
        ("replace", "--broker", "3"),
        ("rebalance", "--add", "1"),
        ("failover", "--broker=3"),
    ],
)
def test_a_page_of_the_model_holds_the_rules(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    check(model(tmp_path, *arguments))


def test_compare_leads_with_the_comparison(tmp_path: Path) -> None:
    page = model(tmp_path, "compare", "--broker", "3")
    assert "tier-first is in sync first, after 4 min 14 s." in page
    assert "kafka takes 2 h 23 min, 33.9 times as long." in page
    headings = [part.partition("</h2>")[0] for part in page.split("<h2>")[1:]]
    assert headings[:2] == ["What the bootstrap policy changes", "Figures of tier-first"]


def test_the_demo_says_first_that_a_check_failed() -> None:
    assert '<div class="verdict bad"><p>A check failed: replicas differ from their leaders under ' in demo(
        identical=False
    )
    assert '<div class="verdict good"><p>tier-first is back in the ISR first, 1.20 s' in demo()


def test_a_simulation_says_first_whether_the_seeds_passed() -> None:
    failed, passed = simulation(), simulation(failures=())
    assert '<div class="verdict bad"><p>1 of 199 of 200 seeds failed.</p>' in failed
    assert "tierfetch simulate --scenario quorum --seed 7" in failed
    assert '<div class="verdict good"><p>199 of 200 seeds passed.</p>' in passed
    assert "(logarithmic)" in passed


@pytest.mark.parametrize("width", [420, 1400])
def test_a_browser_shows_the_page_without_a_second_scroll_bar(tmp_path: Path, width: int) -> None:
    """The page is laid out at a width by a frame, as a browser's window has a least width of its own."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine")
    (tmp_path / "page.html").write_text(profile(8))
    probe = (
        f'<iframe id="f" src="page.html" style="width:{width}px;height:900px;border:0"></iframe><script>onload = () => '
        "{ const root = document.getElementById('f').contentDocument.documentElement;"
        "document.title = `${root.scrollWidth} of ${root.clientWidth}` }</script>"
    )
    (tmp_path / "probe.html").write_text(probe)
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--hide-scrollbars"]
    command = [
        chromium,
        *options,
        "--dump-dom",
        f"--user-data-dir={tmp_path / 'profile'}",
        (tmp_path / "probe.html").as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert f"<title>{width} of {width}</title>" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]

"""The page of a run: what its lines say, how it is drawn, and that a browser shows it."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as etree

import pytest
from click.testing import CliRunner

from tierfetch.cli.simulate import simulate
from tierfetch.pages import Made
from tierfetch.sim.faults.schedule import Schedule
from tierfetch.sim.judges.core.history import History, Poll
from tierfetch.sim.scenarios.report import RunReport
from tierfetch.sim.watch.drawing import drawing
from tierfetch.sim.watch.page import watch_page
from tierfetch.sim.watch.run import watch_seed
from tierfetch.sim.watch.timeline import Led, Span, timeline_of

MADE = Made(at=datetime(2026, 1, 1, tzinfo=UTC), version="0", command="tierfetch simulate --watch 1")
PARTITION = (
    "orders-0 PartitionRegistration(leader={}, leader_epoch={}, partition_epoch=0, replicas=(1, 2), isr=({}), x)"
)
LINES = [
    "     0.000000 broker-1     starts, run 1",
    "     0.500000 broker-1     is up",
    "     0.100000 controller-11 starts, run 1",
    "     0.200000 controller-11 is up",
    "     1.000000 controller-11 __cluster_metadata-0 epoch=3 leader leader=11 voted=11 hw=0 end=1",
    f"     1.500000 metadata     {PARTITION.format(1, 0, '1, 2')}",
    "     2.000000 faults       begin     500 ms  process crash broker-1 for 1500 ms",
    "     2.000000 broker-1     process crash, 0 changes not durable",
    f"     2.250000 metadata     {PARTITION.format(-1, 1, '2,')}",
    "     3.500000 faults       end   process crash broker-1",
    "     3.600000 controller-11 pauses",
    "     3.700000 controller-11 resumes",
    "     4.000000 faults       all over: the liveness phase begins",
    "     5.000000 controller-11 machine crash, 2 changes not durable",
]


def history() -> History:
    found = History()
    poll = Poll("reader", "orders-0", 0, 3, ((0, 1), (1, 2), (2, 3)), asked_ms=2_000, completed_ms=2_100)
    found.polls.append(poll)
    return found


def test_the_lines_say_who_was_up_who_led_and_what_failed() -> None:
    found = timeline_of(LINES, 6.0, history())
    assert list(found.nodes) == ["controller-11", "broker-1"]
    assert found.nodes["broker-1"] == [Span(0, 0.5, "starting"), Span(0.5, 2, "up"), Span(2, 6, "down")]
    assert [span.text for span in found.nodes["controller-11"]] == ["starting", "up", "paused", "up", "down"]
    assert found.faults == [Span(2, 3.5, "process crash broker-1")]
    assert found.quorum == {"controller-11": [Span(1, 5, "epoch 3")]}
    assert found.partitions == {"orders-0": [Led(1.5, 2.25, 1, 0, (1, 2)), Led(2.25, 6, -1, 1, (2,))]}
    assert found.calm_s == 4.0
    assert (found.acknowledged, found.read) == ([], [(2.1, 3)])


def test_a_drawing_is_two_pictures_with_everything_in_it() -> None:
    text = drawing(timeline_of(LINES, 6.0, history()), "lost <write>").html
    pictures = text.split("<svg")[1:]
    assert len(pictures) == 2
    for picture in pictures:
        etree.fromstring("<svg" + picture.partition("</svg>")[0] + "</svg>")
        for word in ("process crash broker-1", "no leader", "1, epoch 0", "leads", "faults are over", "the finding"):
            assert word in picture, word
        assert "lost &lt;write&gt;" in picture


def report(*failures: str) -> RunReport:
    counts = {"virtual_s": 6.0, "real_s": 1.0, "events": 7, "records_acknowledged": 1}
    return RunReport(
        scenario="cluster", seed=1, failures=failures, schedule=Schedule(10), options={"a": "b"}, injected={},
        records_checked=1, records_excused=0, digest="d", **counts,
    )  # fmt: skip


def test_the_page_begins_with_the_finding_and_escapes_what_it_shows() -> None:
    timeline = timeline_of(LINES, 6.0, history())
    failed = watch_page(report("lost write: <b>", "2", "3", "4"), timeline, [*LINES, "<script>"], MADE)
    assert '<div class="verdict bad"><p>Seed 1 failed</p><p>lost write: &lt;b&gt;</p>' in failed
    assert "Everything that was found" in failed
    assert "<script>" not in failed
    passed = watch_page(report(), timeline, LINES, MADE)
    assert '<div class="verdict good"><p>Seed 1 passed: nothing was found</p>' in passed
    assert "https://" not in passed.replace("http://www.w3.org", "")


def test_a_run_that_did_nothing_has_a_page_too() -> None:
    assert "None happened." in watch_page(report(), timeline_of([], 0.0, History()), [], MADE)


@pytest.mark.parametrize("scenario", [pytest.param("cluster", marks=pytest.mark.simulated), "quorum"])
def test_a_seed_is_watched(scenario: str) -> None:
    """What is drawn is what the run came to: nodes, leaders, faults, records."""
    found, text = watch_seed(5, scenario, None, MADE)
    assert f"Simulation of seed {found.seed}" in text
    assert text.count('class="fault"') > 0
    assert "leads the quorum in epoch" in text
    assert f"{found.records_acknowledged:,}" in text
    assert ("orders-0" in text) == (scenario == "cluster")


@pytest.mark.simulated
def test_the_command_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(simulate, ["--scenario", "quorum", "--watch", "5"])
    assert done.output == "seed 5 (quorum): passed; see simulate-quorum-5.html\n", done.output
    assert (tmp_path / "simulate-quorum-5.html").read_text().startswith("<!doctype html>")
    both = CliRunner().invoke(simulate, ["--seed", "1", "--watch", "5"])
    assert "give one of --seed, --seeds and --watch" in both.output


@pytest.mark.parametrize("width", [420, 1400])
def test_a_browser_shows_the_page_without_a_second_scroll_bar(tmp_path: Path, width: int) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine")
    (tmp_path / "page.html").write_text(watch_page(report("lost"), timeline_of(LINES, 6.0, history()), LINES, MADE))
    probe = (
        f'<iframe id="f" src="page.html" style="width:{width}px;height:900px;border:0"></iframe><script>onload = () => '
        "{ const root = document.getElementById('f').contentDocument.documentElement;"
        "document.title = `${root.scrollWidth} of ${root.clientWidth}` }</script>"
    )
    (tmp_path / "probe.html").write_text(probe)
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--hide-scrollbars"]
    command = [chromium, *options, "--dump-dom", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, (tmp_path / "probe.html").as_uri()], capture_output=True, text=True, timeout=100, check=False
    )
    assert f"<title>{width} of {width}</title>" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]

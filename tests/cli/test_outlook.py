"""Predictions while their moves run, and the history that calibration learns from."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import click
import pytest
from click.testing import CliRunner

from tierfetch.cli.admin import brokers as brokers_module
from tierfetch.cli.admin.broker_wait import BrokerProgress, WaitingBar
from tierfetch.cli.admin.outlook_text import SeldomText, Trail, end_text, keep, outcome_text, read_history
from tierfetch.cli.admin.reassign import _with_history, reassign
from tierfetch.cli.admin.reassign_run import Done, ProgressBar, now_ms
from tierfetch.cli.cluster_session import Admin
from tierfetch.cli.model.calibrate import check_base, limited_by, taught
from tierfetch.cli.model.pace import LeaderPace
from tierfetch.model import Calibrations, Outlook, Past, Sight
from tierfetch.planning.cluster_state import ClusterState, PartitionState
from tierfetch.planning.execution import Finish
from tierfetch.planning.journal import Header, Journal, Outcome, line_of
from tierfetch.planning.plan_file import PlanFile
from tierfetch.tests.model.builders import EXAMPLE
from tierfetch.tests.planning.fake_cluster import FakeCluster, Run, entry

OUTLOOK = Outlook(
    system="tierfetch", low_s=80, median_s=100, high_s=130, machine_s=60, throttle_bytes_per_s=1_000_000, effects=()
)
ENTRIES = [entry(0, (1, 2), (3, 2), size_bytes=1000), entry(1, (1, 2), (3, 2), size_bytes=1000)]


def past(measured_s: float, **changes: object) -> Past:
    found = Past.of(OUTLOOK, measured_s, at_ms=1, cluster_id="c", what="reassign plan.json")
    return found.model_copy(update=changes)


def test_the_end_is_said_with_its_interval_and_why_it_no_longer_holds() -> None:
    calm = end_text(OUTLOOK.corrected(Sight(50.0, 0.5)), 50.0)
    assert calm.startswith("done in 50.0 s (")
    broken = end_text(OUTLOOK.corrected(Sight(50.0, 0.5), ["broker 3 is not alive"]), 50.0)
    assert broken.endswith("; the prediction no longer holds: broker 3 is not alive")
    assert outcome_text(OUTLOOK, 90.0) == (
        "predicted 1 min 40 s (in 80 % of the cases 1 min 20 s to 2 min 10 s), took 1 min 30 s"
    )


def test_a_log_gets_a_line_for_each_stage_and_seldom_for_a_time_alone() -> None:
    now = [0.0]
    seldom = SeldomText(lambda: now[0], 30.0)
    assert seldom.of("a", "first") == "first"
    now[0] = 29.0
    assert seldom.of("a", "second") == "first"
    assert seldom.of("b", "third") == "third"
    now[0] = 60.0
    assert seldom.of("b", "fourth") == "fourth"


def test_a_history_grows_line_by_line_and_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "moves.history"
    keep(path, past(90.0))
    keep(path, past(120.0))
    assert [each.measured_s for each in read_history(path)] == [90.0, 120.0]
    path.write_text("{}\n")
    with pytest.raises(click.ClickException, match=r"moves\.history: no history of moves: "):
        keep(path, past(1.0))
    assert path.read_text() == "{}\n", "it is left as it was"
    with pytest.raises(click.ClickException, match="cannot be read"):
        read_history(tmp_path / "absent")


def journal() -> Journal:
    run = Run(FakeCluster.of(ENTRIES), ENTRIES)
    header = Header.model_validate_json(run.data.split(b"\n")[0]).model_copy(update={"outlook": OUTLOOK})
    run.data = line_of(header)
    run.now_ms = now_ms() - 50_000
    run.ask("started")
    return run.journal


def test_execute_shows_the_end_beside_the_progress(capsys: pytest.CaptureFixture[str]) -> None:
    run, found = FakeCluster.of(ENTRIES), journal()
    with ProgressBar() as bar:
        run.reassign(("t", 0), (3, 2))
        run.advance()
        bar.show(found, run.state(), "t-1 to be in sync")
        assert bar.broken == ""
        run.live.discard(3)
        bar.show(found, run.state(), "t-1 to be in sync")
        run.live.add(3)
        bar.show(found, run.state(), "t-1 to be in sync")
    lines = capsys.readouterr().err.splitlines()
    assert "1 of 2 partitions, waiting for t-1 to be in sync; done in 5" in lines[0]
    assert "the prediction no longer holds: broker 3 is not alive" in lines[1]
    assert bar.broken == "broker 3 is not alive", "what has happened stays"
    assert len(lines) == 2


def test_without_a_prediction_nothing_is_said_of_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(FakeCluster.of(ENTRIES), ENTRIES)
    with ProgressBar() as bar:
        bar.show(run.journal, run.cluster.state(), "t-1 to be in sync")
    assert "done in" not in capsys.readouterr().err


def test_what_came_of_a_plan_is_kept_and_said(tmp_path: Path) -> None:
    ended = replace(journal(), began_at_ms=0, leading_at_ms=90_000, ended_at_ms=400_000)
    path = tmp_path / "moves.history"
    done = _with_history(Done(Finish(Outcome.DONE), 2, 400.0, ()), ended, path, "")
    assert "took 1 min 30 s" in done.notes[-1], "leaders that warm up afterwards are no part of it"
    (kept,) = read_history(path)
    assert (kept.measured_s, kept.median_s, kept.broken) == (90.0, 100.0, "")
    for outcome in (Outcome.PAUSED, Outcome.CANCELLED, Outcome.STOPPED):
        _with_history(Done(Finish(outcome), 2, 400.0, ()), ended, path, "")
    assert len(read_history(path)) == 1


@pytest.mark.parametrize("damage", ["torn", "no directory"])
def test_a_plan_that_is_done_is_done_without_a_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    ended = replace(journal(), began_at_ms=0, leading_at_ms=90_000, ended_at_ms=400_000)
    path = damaged_history(tmp_path, damage)
    done = _with_history(Done(Finish(Outcome.DONE), 2, 400.0, ()), ended, path, "")
    assert "took 1 min 30 s" in done.notes[-1]
    assert "warning: what came of the prediction is not kept: " in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["torn", "no directory"])
def test_a_broker_that_is_in_sync_is_so_without_a_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    def arrives(bootstrap: object, work: Callable[[object], object]) -> BrokerProgress:
        done = BrokerProgress(3, is_alive=True, replicas=4, in_sync=4)
        (bar,) = bars
        bar._end(replace(done, is_alive=False, in_sync=0))
        bar._end(done)
        return done

    bars: list[WaitingBar] = []

    def bar_of(*, outlook: Outlook | None) -> WaitingBar:
        bars.append(WaitingBar(outlook=outlook))
        return bars[0]

    monkeypatch.setattr(brokers_module, "run", arrives)
    monkeypatch.setattr(brokers_module, "WaitingBar", bar_of)
    path = damaged_history(tmp_path, damage)
    words = ["wait", "3", "--cluster", str(EXAMPLE), "--history", str(path), "--bootstrap", "localhost:1"]
    done = CliRunner().invoke(brokers_module.brokers, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "4 of 4 replicas are in sync" in done.stdout
    assert "warning: what came of the prediction is not kept: " in done.stderr


def test_wait_predicts_with_the_calibration_that_it_is_given(tmp_path: Path) -> None:
    usual = Calibrations.default()
    own = usual.systems["tierfetch"].digest
    learned = taught(usual, [past(160.0, base=own)] * 8)[0]
    learned.write(tmp_path / "learned.json")
    plain = brokers_module._foreseen(EXAMPLE, 3, None).outlook
    slower = brokers_module._foreseen(EXAMPLE, 3, tmp_path / "learned.json").outlook
    assert plain is not None
    assert slower is not None
    assert (plain.base, plain.scale) == (own, 1.0)
    assert (slower.base, slower.scale) == (own, learned.systems["tierfetch"].scale)
    assert slower.median_s > plain.median_s
    others = Calibrations(systems={"kafka": usual.systems["kafka"]})
    others.write(tmp_path / "kafka.json")
    with pytest.raises(click.ClickException, match="only kafka was measured"):
        brokers_module._foreseen(EXAMPLE, 3, tmp_path / "kafka.json")
    with pytest.raises(click.ClickException, match="cannot be read"):
        brokers_module._foreseen(EXAMPLE, 3, tmp_path / "absent.json")


def damaged_history(folder: Path, damage: str) -> Path:
    """Of a process that died, or where nothing can be written."""
    if damage == "no directory":
        return folder / "absent" / "moves.history"
    path = folder / "moves.history"
    path.write_text('{"version": 1, "at\n{}\n')
    return path


def test_wait_shows_when_a_broker_will_be_in_sync() -> None:
    now = [0.0]
    bar = WaitingBar(lambda: now[0], OUTLOOK)
    lines = []
    for at_s, alive, in_sync in ((0.0, False, 0), (50.0, True, 2), (60.0, False, 2), (110.0, True, 4)):
        now[0] = at_s
        progress = BrokerProgress(3, is_alive=alive, replicas=4, in_sync=in_sync)
        lines.append(bar._end(progress))
    assert lines[0].startswith("; done in 1 min 40 s (")
    assert lines[1].startswith("; done in 50.0 s (")
    assert "the prediction no longer holds: broker 3 died meanwhile" in lines[2]
    assert lines[3] == ""
    assert bar.in_sync_s == 110.0
    assert bar.saw_it_all
    late = WaitingBar(lambda: now[0], OUTLOOK)
    late._end(BrokerProgress(3, is_alive=True, replicas=4, in_sync=1))
    late._end(BrokerProgress(3, is_alive=True, replicas=4, in_sync=4))
    assert not late.saw_it_all, "part of it was over before"


def test_a_leader_that_dies_breaks_the_prediction_of_a_wait() -> None:
    bar = WaitingBar(lambda: 50.0, OUTLOOK)
    for live in ({1, 2, 3}, {1, 3}):
        said = bar._end(BrokerProgress(3, is_alive=True, replicas=4, in_sync=2, live=frozenset(live)))
    assert "the prediction no longer holds: broker 2 died meanwhile" in said
    back = bar._end(BrokerProgress(3, is_alive=True, replicas=4, in_sync=2, live=frozenset({1, 2, 3})))
    assert "broker 2 died meanwhile" in back, "who comes back has lost time"


class _SizedCluster:
    """What leaders hold, of whom one does not answer."""

    held: ClassVar[Mapping[tuple[str, int], int] | None] = None

    def __init__(self, _: object) -> None:
        """Of any session."""

    async def state(self, topics: Sequence[str]) -> None:
        assert topics, "of no topic nothing is asked"

    async def held_bytes(self, keys: Collection[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        if self.held is None:
            raise OSError("nobody answers")
        return {key: size for key, size in self.held.items() if key in keys}


async def test_sizes_that_are_not_the_inventorys_are_said_and_silence_is_no_reason_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = brokers_module._foreseen(EXAMPLE, 3, None).held_bytes
    monkeypatch.setattr(brokers_module, "PlanCluster", _SizedCluster)
    for held, is_said in ((expected, False), ({key: 2 * size for key, size in expected.items()}, True), (None, False)):
        monkeypatch.setattr(_SizedCluster, "held", held)
        assert bool(await brokers_module._difference(Admin(()), expected)) == is_said


def test_a_trail_stays_short() -> None:
    trail = Trail()
    for second in range(200_000):
        trail.add(Sight(float(second), second / 200_000))
    assert len(trail.sights) < 1_500
    assert trail.sights[1].at_s == 5.0
    gaps = [after.at_s - before.at_s for before, after in pairwise(trail.sights)]
    assert max(gaps) <= 200_000 / 200 + 1


def test_an_inventory_that_the_cluster_contradicts_breaks_the_prediction_of_a_wait() -> None:
    now = [0.0]
    bar = WaitingBar(lambda: now[0], OUTLOOK.model_copy(update={"moves": 15}))
    assert "no longer holds" not in bar._end(BrokerProgress(3, is_alive=False, replicas=4, in_sync=0)), "it is dead"
    now[0] = 50.0
    said = bar._end(BrokerProgress(3, is_alive=True, replicas=4, in_sync=2))
    assert "the prediction no longer holds: it was predicted for 15 replicas, and there are 4" in said
    for replicas in range(5, 50):
        bar._end(BrokerProgress(3, is_alive=True, replicas=replicas, in_sync=2))
    assert list(bar.events) == ["it was predicted for 15 replicas, and there are 49"], "the last number, not all"
    same = WaitingBar(lambda: now[0], OUTLOOK.model_copy(update={"moves": 4}))
    assert "no longer holds" not in same._end(BrokerProgress(3, is_alive=True, replicas=4, in_sync=2))


def test_calibration_learns_from_the_history_of_its_own_system() -> None:
    usual = Calibrations.default()
    own = usual.systems["tierfetch"].digest
    found, said = taught(usual, [past(160.0, base=own)] * 8)
    ours, before = found.systems["tierfetch"], usual.systems["tierfetch"]
    assert ours.start_s == pytest.approx(before.start_s * 2**0.8, rel=0.01)
    assert ours.fetch_bytes_per_s == pytest.approx(before.fetch_bytes_per_s / 2**0.8, rel=0.01)
    assert ours.origin.endswith("8 moves of its history")
    assert found.systems["kafka"] == usual.systems["kafka"]
    assert said[0].startswith("tierfetch: 8 of 8 moves count")
    assert taught(usual, []) == (usual, ["the history has no move of a system that was measured"])


def test_calibration_learns_of_its_base_however_often_the_history_is_read(tmp_path: Path) -> None:
    """Machines take twice as long as the base says; what was learned predicts that, and the next lesson is no other."""
    usual = Calibrations.default()
    own = usual.systems["tierfetch"].digest
    history = [past(160.0, base=own)] * 100
    first, _ = taught(usual, history)
    learned = first.systems["tierfetch"]
    assert learned.base == own
    assert learned.scale == pytest.approx(2.0, rel=0.02)
    right = past(160.0, base=learned.base, scale=learned.scale, median_s=40 + 60 * learned.scale)
    right = right.model_copy(update={"machine_s": 60 * learned.scale})
    again, _ = taught(usual, [*history, *[right] * 100])
    assert again.systems["tierfetch"].scale == pytest.approx(2.0, rel=0.02)
    first.write(tmp_path / "learned.json")
    read = Calibrations.read(tmp_path / "learned.json")
    assert read == first
    check_base(usual, history)
    check_base(read, [])
    with pytest.raises(click.ClickException, match="tierfetch: this calibration was learned from a history"):
        check_base(read, history)


def test_moves_that_another_calibration_predicted_teach_nothing() -> None:
    usual = Calibrations.default()
    found, said = taught(usual, [past(160.0), past(160.0, base="0123456789abcdef")])
    assert found == usual
    assert said == ["tierfetch: 0 of 2 moves count: they were predicted with another calibration"]
    own = usual.systems["tierfetch"].digest
    found, said = taught(usual, [past(160.0, base=own), past(1.0, base="0123456789abcdef")])
    assert said[0].startswith("tierfetch: 1 of 2 moves count")
    assert found.systems["tierfetch"].scale > 1.0


def test_a_slow_leader_makes_a_new_base_of_what_was_learned() -> None:
    usual = Calibrations.default()
    found, _ = taught(usual, [past(160.0, base=usual.systems["tierfetch"].digest)])
    pace = found.systems["tierfetch"].fetch_bytes_per_s
    assert limited_by(found, "tierfetch", {1: LeaderPace(0.001, 2 * pace)}) == found
    limited = limited_by(found, "tierfetch", {1: LeaderPace(0.001, pace / 2)}).systems["tierfetch"]
    assert (limited.fetch_bytes_per_s, limited.scale, limited.base) == (pace / 2, 1.0, limited.digest)


def test_a_plan_says_how_long_it_takes_and_brings_that_to_execute(tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    words = ["plan", "--cluster", str(EXAMPLE), "--remove", "3", "--out", str(out)]
    done = CliRunner().invoke(reassign, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "predicted to take " in done.output
    outlook = PlanFile.read(out).details.outlook
    assert outlook is not None
    assert outlook.low_s < outlook.median_s < (outlook.high_s or 0)
    assert outlook.throttle_bytes_per_s == PlanFile.read(out).details.throttle_bytes_per_s
    assert (outlook.base, outlook.scale) == (Calibrations.default().systems[outlook.system].digest, 1.0)
    assert outlook.course[-1][1] == pytest.approx(1.0)
    learned = Calibrations.default()
    learned = taught(learned, [past(160.0, base=outlook.base)] * 8)[0]
    learned.write(tmp_path / "learned.json")
    CliRunner().invoke(reassign, [*words, "--calibration", str(tmp_path / "learned.json")], catch_exceptions=False)
    slower = PlanFile.read(out).details.outlook
    assert slower is not None
    assert slower.median_s > outlook.median_s
    assert (slower.base, slower.scale) == (outlook.base, learned.systems["tierfetch"].scale)
    shown = json.loads(CliRunner().invoke(reassign, [*words[:-2], "--json"]).stdout)
    assert shown["predicted_s"]["median"] == pytest.approx(outlook.median_s)


def test_a_state_without_the_plans_topic_is_no_error() -> None:
    state = ClusterState(frozenset({1, 2, 3}), {("x", 0): PartitionState("x", (1,), (1,), 1)})
    with ProgressBar() as bar:
        bar.show(journal(), state, "")

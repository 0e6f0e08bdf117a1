"""Notes of plans that are carried out: found while a plan has not ended, whatever became of its process."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from tierfetch.cli.admin.plan_notes import FOLDER, NOTES_MAX, noted, plans_under_way
from tierfetch.cli.admin.reassign_journal import JournalFile, default_path
from tierfetch.planning.journal import Event, Header, Outcome
from tierfetch.tests.planning.fake_cluster import entry


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "tierfetch" / FOLDER


def journal(plan: Path) -> JournalFile:
    header = Header(
        cluster_id="c",
        plan=plan.name,
        created_at_ms=1,
        topic_ids={"t": "id"},
        entries=(entry(0, (1, 2), (3, 2)),),
        throttle_bytes_per_s=None,
        roll=None,
        warm_wait_s=1,
        old_configs=(),
    )
    return JournalFile.create(default_path(plan), header)


def found() -> list[Path]:
    return [plan for plan, _ in plans_under_way()]


def ended(file: JournalFile, outcome: Outcome) -> None:
    file.append(Event(event="ended", at_ms=2, outcome=outcome))


def test_a_plan_is_found_while_it_is_carried_out(tmp_path: Path, folder: Path) -> None:
    plan, file = tmp_path / "plan.json", journal(tmp_path / "plan.json")
    assert found() == []
    with noted(plan, file):
        assert [(each, opened.path) for each, opened in plans_under_way()] == [(plan, file.path)]
        (note,) = folder.iterdir()
        assert note.stat().st_mode & 0o077 == 0
        ended(file, Outcome.DONE)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("outcome", [Outcome.PAUSED, Outcome.STOPPED, None])
def test_a_plan_that_is_not_done_is_found_after_its_process(tmp_path: Path, outcome: Outcome | None) -> None:
    plan, file = tmp_path / "plan.json", journal(tmp_path / "plan.json")
    if outcome is not None:
        ended(file, outcome)
    with contextlib.suppress(InterruptedError), noted(plan, file):
        raise InterruptedError
    assert found() == [plan]


def test_a_note_that_outlived_its_plan_goes(tmp_path: Path, folder: Path) -> None:
    done, deleted = tmp_path / "done.json", tmp_path / "deleted.json"
    files = {plan: journal(plan) for plan in (done, deleted)}
    for plan, file in files.items():
        with noted(plan, file):
            pass
    assert len(found()) == 2
    ended(files[done], Outcome.ROLLED_BACK)  # by another process: this one's journal is not the note's
    files[deleted].path.unlink()
    assert found() == []
    assert list(folder.iterdir()) == []


def test_what_is_no_note_or_no_journal_hides_no_plan(tmp_path: Path, folder: Path) -> None:
    plan, damaged = tmp_path / "plan.json", tmp_path / "damaged.json"
    for each in (plan, damaged):
        with noted(each, journal(each)):
            pass
    default_path(damaged).write_text("{}\n")
    (folder / "other.json").write_text("no note")
    (folder / "folder.json").mkdir()
    assert found() == [plan]


def test_a_relative_plan_is_found_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = journal(Path("plan.json"))
    with noted(Path("plan.json"), file):
        monkeypatch.chdir("/")
        assert found() == [tmp_path / "plan.json"]


def test_the_latest_of_many_are_read(tmp_path: Path, folder: Path) -> None:
    for number in range(NOTES_MAX + 2):
        plan = tmp_path / f"{number}.json"
        with noted(plan, journal(plan)):
            pass
        (made,) = [note for note in folder.iterdir() if note.stat().st_mtime > 1000]
        os.utime(made, (number, number))
    assert found() == [tmp_path / f"{number}.json" for number in reversed(range(2, NOTES_MAX + 2))]


def test_a_folder_that_cannot_be_written_costs_the_note_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    plan, file = tmp_path / "plan.json", journal(tmp_path / "plan.json")
    with noted(plan, file):
        assert found() == []

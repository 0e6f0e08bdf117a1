"""Notes of the plans that a user's processes carry out, so that `tierfetch console` finds them without their names.

    <configuration folder>/plans/<digest of the journal's path>.json     where plan and journal are

    event                                     the note
    ----------------------------------------  -------------------------------------------------------------------------
    a process begins to carry the plan out    is written
    the plan has ended                        is removed, by that process
    the plan was paused, the process died     stays: the plan is not done
    the journal says ended, or is gone        is removed by the next reader

How far a plan is, and whether a process carries it out, is its journal's to say: a note is only a path, and cannot be
wrong about it. A folder that cannot be written costs the convenience and nothing else. A reader reads at most
`NOTES_MAX` notes, the latest ones; a plan of another user or machine has none here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final

import click
from pydantic import BaseModel, ConfigDict, ValidationError

from ...planning import ENDED
from ..profiles import config_folder, write_private
from .reassign_journal import JournalFile

FOLDER: Final = "plans"
NOTES_MAX: Final = 20


class PlanNote(BaseModel):
    """Where a plan and its journal are; absolute paths."""

    model_config = ConfigDict(frozen=True)

    plan: Path
    journal: Path


@contextmanager
def noted(plan_file: Path, file: JournalFile) -> Iterator[None]:
    """Have the console find the plan from now on, until it has ended."""
    note = PlanNote(plan=plan_file.absolute(), journal=file.path.absolute())
    path = _path_of(note)
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, note.model_dump(mode="json"))
    try:
        yield
    finally:
        if file.journal.outcome in ENDED:
            _remove(path)


def plans_under_way() -> list[tuple[Path, JournalFile]]:
    """Return the plans that have not ended, and their journals; the latest first. Blocks: it reads files."""
    found = []
    for path in _latest(config_folder() / FOLDER):
        # What is wrong with a damaged journal is for `reassign status` to say.
        with contextlib.suppress(OSError, ValidationError, click.ClickException):
            note = PlanNote.model_validate_json(path.read_bytes())
            if not note.journal.exists():
                _remove(path)
                continue
            file = JournalFile.open(note.journal)
            if file.journal.outcome in ENDED:
                _remove(path)
            else:
                found.append((note.plan, file))
    return found


def _latest(folder: Path) -> list[Path]:
    times: list[tuple[int, Path]] = []
    with contextlib.suppress(OSError):
        for path in folder.glob("*.json"):
            with contextlib.suppress(OSError):  # its process has just removed it
                times.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(times, reverse=True)[:NOTES_MAX]]


def _path_of(note: PlanNote) -> Path:
    digest = blake2b(str(note.journal).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    return config_folder() / FOLDER / f"{digest}.json"


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)

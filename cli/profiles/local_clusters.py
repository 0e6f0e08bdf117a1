"""Notes of the clusters that `tierfetch cluster up` runs, so that other commands find them without an address.

`cluster up` holds a lock on its note as long as it runs. A note that nobody holds is stale, whatever ended its process,
and the next reader removes it; process ids, which come again, are not trusted. A folder that cannot be written costs
the convenience and nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .store import config_folder

FOLDER: Final = "clusters"


class LocalClusterNote(BaseModel):
    """Where a local cluster listens."""

    model_config = ConfigDict(frozen=True)

    bootstrap: tuple[str, ...] = Field(min_length=1)
    controllers: tuple[str, ...] = ()
    directory: str = ""


@contextmanager
def announced(note: LocalClusterNote) -> Iterator[None]:
    """Have other commands find the cluster while the block runs."""
    path = config_folder() / FOLDER / f"{os.getpid()}.json"
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = _locked(path)
            stack.callback(os.close, descriptor)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps(note.model_dump(mode="json")).encode())
            stack.callback(path.unlink, missing_ok=True)
        yield


def _locked(path: Path) -> int:
    """Return the note's descriptor, locked. A reader may remove a note between its making and its lock."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink > 0:
            return descriptor
        os.close(descriptor)


def running_clusters() -> Sequence[LocalClusterNote]:
    """Return the notes that are held, in the order of their addresses; remove the others."""
    found = []
    with contextlib.suppress(OSError):
        for path in sorted((config_folder() / FOLDER).glob("*.json")):
            note = _held(path)
            if note is not None:
                found.append(note)
    return sorted(found, key=lambda note: note.bootstrap)


def _held(path: Path) -> LocalClusterNote | None:
    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return LocalClusterNote.model_validate_json(file.read())
            path.unlink(missing_ok=True)
    except (OSError, ValidationError):
        return None
    return None

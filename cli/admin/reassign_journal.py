"""The journal of one plan on the disk: made once, appended to by the processes that carry it out or change it.

    <plan>.journal         the lines of `planning.journal`; each is one write, on the device before it counts
    <plan>.journal.lock    held by the process that carries the plan out, so that there is one

Any process may append (`pause`, `cancel`, ...): for that moment it holds the journal itself. What a crash tore off the
last line is cut away before the next line is written.
"""

from __future__ import annotations

import fcntl
import os
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Self

import click

from ...planning import Event, Header, Journal, JournalError, line_of, parse_event, parse_journal


def default_path(plan_file: Path) -> Path:
    return plan_file.with_name(plan_file.name + ".journal")


def to_type(verb: str, plan_file: Path, journal_path: Path | None = None) -> str:
    """Return a command about a plan, as it can be copied into a shell."""
    words = ["tierfetch", "reassign", verb, str(plan_file)]
    if journal_path is not None and journal_path != default_path(plan_file):
        words += ["--journal", str(journal_path)]
    return shlex.join(words)


class JournalFile:
    """`journal` is what was read last; `refresh` reads what came since."""

    def __init__(self, path: Path, journal: Journal, offset: int) -> None:
        self.path = path
        self.journal = journal
        self._offset = offset

    @classmethod
    def create(cls, path: Path, header: Header) -> Self:
        """In place of one that has ended. OSError."""
        line = line_of(header)
        made = path.with_name(path.name + ".new")
        with made.open("wb") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        made.replace(path)
        _sync_directory(path.parent)
        return cls(path, Journal.of(header), len(line))

    @classmethod
    def open(cls, path: Path) -> Self:
        """ClickException says what to do without one."""
        try:
            data = path.read_bytes()
            journal = parse_journal(data, str(path))
        except FileNotFoundError:
            raise click.ClickException(
                f"{path}: no journal: the plan was not begun by `tierfetch reassign execute`, or elsewhere (--journal)"
            ) from None
        except (OSError, JournalError) as error:
            raise click.ClickException(str(error)) from None
        return cls(path, journal, data.rfind(b"\n") + 1)

    def append(self, event: Event) -> None:
        """Returns once it is on the device. OSError."""
        with self.path.open("rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(_whole_lines(file.read()))
            file.seek(0, os.SEEK_END)
            file.write(line_of(event))
            file.flush()
            os.fsync(file.fileno())
        self.refresh()

    def refresh(self) -> Journal:
        """Return the journal with the events added since the last call. OSError, JournalError."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        data = data[: _whole_lines(data)]
        self._offset += len(data)
        for line in data.splitlines():
            self.journal = self.journal.apply(parse_event(line, str(self.path)))
        return self.journal

    def owned(self) -> AbstractContextManager[None]:
        return owned(self.path)

    def is_owned(self) -> bool:
        """Whether a process carries this plan out now. ClickException if that cannot be known."""
        with _lock_file(self.path) as lock:
            return not _try_lock(lock.fileno())


@contextmanager
def owned(path: Path) -> Iterator[None]:
    """As the only process that carries the plan of this journal out, which need not exist yet. ClickException if there
    is another.
    """
    with _lock_file(path) as lock:
        if not _try_lock(lock.fileno()):
            raise click.ClickException(f"{path}: another process carries this plan out already")
        yield


def _lock_file(path: Path) -> IO[str]:
    lock = path.with_name(path.name + ".lock")
    try:
        return lock.open("a")
    except OSError as error:
        raise click.ClickException(f"{lock}: cannot be opened: {error.strerror}") from None


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _whole_lines(data: bytes) -> int:
    """Bytes up to the last line's end."""
    return data.rfind(b"\n") + 1


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

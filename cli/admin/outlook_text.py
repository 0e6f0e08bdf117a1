"""What is shown of a prediction while its moves run, and the history in which it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
from pydantic import ValidationError

from ...model import Correction, Outlook, Past, Sight, history_of, located, parse_history
from ..model.quantities import between, duration

HISTORY_NAME: Final = "tierfetch-moves.history"
"""The history beside a plan."""
TRAIL_S: Final = 5.0
TRAIL_PARTS: Final = 200

history_option = click.option(
    "--history",
    "history_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"Keep here what was predicted and what was, for `model calibrate --from-history`; {HISTORY_NAME} by default.",
)


def end_text(found: Correction, so_far_s: float) -> str:
    """ "done in 4 min 07 s (3 min 10 s to 6 min 02 s)", and why a prediction does not hold any longer."""
    left, end = found.end.median - so_far_s, found.end
    within = between(max(0.0, end.low - so_far_s), max(0.0, end.high - so_far_s))
    text = f"done in {duration(max(0.0, left))} ({within})"
    return f"{text}; the prediction no longer holds: {found.broken}" if found.broken else text


def outcome_text(outlook: Outlook, measured_s: float) -> str:
    """What was predicted beside what was."""
    within = between(outlook.low_s, outlook.high_s)
    return f"predicted {duration(outlook.median_s)} (in 80 % of the cases {within}), took {duration(measured_s)}"


class Trail:
    """What was seen of a plan's course: seldom enough that it stays short, however long the plan runs."""

    def __init__(self) -> None:
        self.sights: list[Sight] = []

    def add(self, now: Sight) -> None:
        if not self.sights or now.at_s - self.sights[-1].at_s >= max(TRAIL_S, now.at_s / TRAIL_PARTS):
            self.sights.append(now)


class SeldomText:
    """A text for a log: another one once the stage changes, or after `every_s`; meanwhile the same."""

    def __init__(self, clock: Callable[[], float], every_s: float) -> None:
        self._clock, self._every_s = clock, every_s
        self._stage: object = None
        self._shown_s = clock()
        self._text = ""

    def of(self, stage: object, text: str) -> str:
        now_s = self._clock()
        if stage != self._stage or now_s - self._shown_s >= self._every_s:
            self._stage, self._shown_s, self._text = stage, now_s, text
        return self._text


def keep(path: Path, past: Past) -> None:
    """Append what came of a prediction; at once or not at all, and one process at a time. ClickException."""
    try:
        with path.with_name(path.name + ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            history = read_history(path) if path.exists() else []
            made = path.with_name(path.name + ".new")
            with made.open("wb") as file:
                file.write(history_of([*history, past]))
                file.flush()
                os.fsync(file.fileno())
            made.replace(path)
    except OSError as error:
        raise click.ClickException(f"{path}: the history cannot be written: {error.strerror}") from None


def keep_if_possible(path: Path, past: Past) -> None:
    """As `keep`; of moves that are over, a history that cannot be written hides nothing: it is a warning."""
    try:
        keep(path, past)
    except click.ClickException as error:
        click.echo(f"warning: what came of the prediction is not kept: {error.message}", err=True)


def read_history(path: Path) -> list[Past]:
    """ClickException for a file that is no history, or cannot be read."""
    try:
        return parse_history(path.read_bytes())
    except OSError as error:
        raise click.ClickException(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise click.ClickException(
            f"{path}: no history of moves: {located(error.errors()[0])}; move the file away, or name another one"
        ) from None

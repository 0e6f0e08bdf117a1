"""How far something is that takes its time, on standard error."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class StatusBar:
    """On a terminal a bar with the time that is left, else a line for each change."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._bar = self._bars.add_task("look at the cluster", total=None)
        self._line = ""

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show_line(self, description: str, line: str, done: int, total: int) -> None:
        """`description` beside the bar, `line` in its place."""
        self._bars.update(self._bar, description=description, completed=done, total=total)
        if not self._console.is_terminal and line != self._line:
            self._console.print(line, soft_wrap=True, markup=False, highlight=False)
        self._line = line

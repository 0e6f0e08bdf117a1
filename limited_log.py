"""Lines of the log that others cause: some of a kind, then only how many more there were.

Any peer that reaches a listener can be refused as often as it likes, and any that leads a partition can send what is
rejected: a line for each would fill the disk that holds the log, and hide all other lines.

| lines of one kind within `PERIOD_S` of its first | |
|---|---|
| up to `SOURCE_LINES_MAX` from one source, `LINES_MAX` from all | written |
| the others | counted |

How many were left out is said with the next line of any kind once the period is over, or by `settle`, which listeners
call every second. A kind is a message without its arguments: there are as many as places in the code. A source is what
shares the lines with others: the host of a peer, the name of a group. So a host that floods the log leaves room for
the lines of others, and what is kept is at most `LINES_MAX` sources of each kind.

The counts belong to the event loop that runs, which a process has one of; outside a loop no line is left out.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import field
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from .light_dataclass import dataclass

PERIOD_S: Final = 10.0
LINES_MAX: Final = 100
SOURCE_LINES_MAX: Final = 20
LEFT_OUT: Final = "%d more lines like this were left out within %g s: %s"


class Kind(NamedTuple):
    """What lines have in common."""

    logger: str
    level: int
    message: str


@dataclass(slots=True)
class _Period:
    """The lines of one kind since `began_s`."""

    began_s: float
    lines: int = 0
    left_out: int = 0
    by_source: dict[str, int] = field(default_factory=dict)


class LineBudget:
    """Decides which lines are written. Times are in seconds of any clock; one that goes back begins a new period."""

    def __init__(self, period_s: float = PERIOD_S, lines_max: int = LINES_MAX) -> None:
        self._period_s = period_s
        self._lines_max = lines_max
        self._periods: dict[Kind, _Period] = {}

    def admits(self, kind: Kind, source: str, now_s: float, source_lines_max: int = SOURCE_LINES_MAX) -> bool:
        """Return whether a line is written; otherwise it is counted. Call `take_left_out` before."""
        period = self._periods.get(kind)
        if period is None or self._is_over(period, now_s):
            period = self._periods[kind] = _Period(now_s)
        lines = period.by_source.get(source, 0)
        if period.lines >= self._lines_max or lines >= source_lines_max:
            period.left_out += 1
            return False
        period.lines += 1
        period.by_source[source] = lines + 1
        return True

    def take_left_out(self, now_s: float) -> list[tuple[Kind, int]]:
        """Return how many lines were left out, once for each period that is over."""
        over = [kind for kind, period in self._periods.items() if self._is_over(period, now_s)]
        periods = [(kind, self._periods.pop(kind)) for kind in over]
        return [(kind, period.left_out) for kind, period in periods if period.left_out]

    def _is_over(self, period: _Period, now_s: float) -> bool:
        return not 0 <= now_s - period.began_s < self._period_s


_budgets: WeakKeyDictionary[asyncio.AbstractEventLoop, LineBudget] = WeakKeyDictionary()


def settle() -> None:
    """Say how many lines were left out in periods that are over. To be called on an event loop, now and then."""
    loop = asyncio.get_running_loop()
    budget = _budgets.get(loop)
    if budget is None:
        return
    for kind, left_out in budget.take_left_out(loop.time()):
        logging.getLogger(kind.logger).log(kind.level, LEFT_OUT, left_out, PERIOD_S, kind.message)


class LimitedLog:
    """A logger for lines that others cause. `source` is what caused the line, and `message` a constant."""

    def __init__(self, logger: logging.Logger, source_lines_max: int = SOURCE_LINES_MAX) -> None:
        self._logger = logger
        self._source_lines_max = source_lines_max

    def info(self, source: str, message: str, *args: object) -> None:
        """Write a line at INFO, or count it."""
        self._log(logging.INFO, source, message, args)

    def warning(self, source: str, message: str, *args: object) -> None:
        """Write a line at WARNING, or count it."""
        self._log(logging.WARNING, source, message, args)

    def error(self, source: str, message: str, *args: object, exc_info: BaseException | None = None) -> None:
        """Write a line at ERROR, with the trace of an exception if one is given, or count it."""
        self._log(logging.ERROR, source, message, args, exc_info)

    def _log(
        self, level: int, source: str, message: str, args: tuple[object, ...], exc_info: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level) and self._admits(Kind(self._logger.name, level, message), source):
            self._logger.log(level, message, *args, exc_info=exc_info, stacklevel=3)

    def _admits(self, kind: Kind, source: str) -> bool:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return True
        settle()
        budget = _budgets.setdefault(loop, LineBudget())
        return budget.admits(kind, source, loop.time(), self._source_lines_max)

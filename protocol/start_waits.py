"""What a start waits for now, kept where the process that runs it can say so.

    step of a start --`waiting(what, why, until)`--> StartWaits --`line(now)`--> the operator's log (`cli/running.py`)

A step enters its wait and leaves it; nothing here has a timer or writes a log, so that a start is the same whether
an operator looks or not. Of nested waits the innermost is reported: it is the one that blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Final

from ..light_dataclass import dataclass
from .net.client import Address

ADDRESSES_SHOWN_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class WaitLimit:
    """When a wait is given up, by the event loop's clock, and which setting says so."""

    deadline_s: float
    setting: str

    def left_s(self, now_s: float) -> float:
        return max(0.0, self.deadline_s - now_s)


@dataclass(frozen=True, slots=True)
class StartWait:
    """`what` is awaited; `why` says what is in the way by now, and is empty where nothing is known."""

    what: str
    why: Callable[[], str]
    limit: WaitLimit | None

    def line(self, now_s: float) -> str:
        why = self.why()
        text = f"waiting for {self.what}{': ' if why else ''}{why}"
        if self.limit is None:
            return text
        return f"{text}; giving up in {self.limit.left_s(now_s):.0f} s ({self.limit.setting})"


def _nothing_known() -> str:
    return ""


class StartWaits:
    """The waits of one start."""

    def __init__(self) -> None:
        self._current: list[StartWait] = []

    @contextmanager
    def waiting(
        self, what: str, why: Callable[[], str] = _nothing_known, limit: WaitLimit | None = None
    ) -> Iterator[StartWait]:
        wait = StartWait(what, why, limit)
        self._current.append(wait)
        try:
            yield wait
        finally:
            self._current.remove(wait)

    def line(self, now_s: float) -> str | None:
        """What is awaited now; None where the start does not wait."""
        return self._current[-1].line(now_s) if self._current else None


@dataclass(slots=True)
class Unanswered:
    """Which addresses did not answer when they were asked last, and the reason that each call gave."""

    _reasons: dict[Address, str] = field(default_factory=dict)
    _answered: set[Address] = field(default_factory=set)

    def failed(self, address: Address, error: Exception) -> None:
        reason = str(error)
        self._reasons[address] = reason if str(address) in reason else f"{address}: {reason}"

    def answered(self, address: Address) -> None:
        self._reasons.pop(address, None)
        self._answered.add(address)

    def has_answered(self, address: Address | None) -> bool:
        """Whether it has at least once."""
        return address in self._answered

    def reasons(self) -> list[str]:
        return list(self._reasons.values())


def listed_reasons(reasons: list[str]) -> str:
    """Each reason once, the first few of them."""
    distinct = list(dict.fromkeys(reasons))
    more = len(distinct) - ADDRESSES_SHOWN_MAX
    return ", ".join(distinct[:ADDRESSES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")

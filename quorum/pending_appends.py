"""Who waits for an append, and for what: its offsets, or that it is committed.

Each append is a token of the core's, which answers by AppendAccepted and AppendCompleted, or by AppendFailed. What the
answer comes too late for (the caller was cancelled, or has its offsets) is only counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from ..light_dataclass import dataclass
from .core.effects import AppendAccepted, AppendCompleted, AppendError, AppendFailed
from .core.errors import BufferFullError, NotLeaderError, UnexpectedOffsetError
from .metrics import QuorumMetrics

_EXCEPTIONS: Final[Mapping[AppendError, type[BufferFullError | UnexpectedOffsetError]]] = {
    AppendError.BUFFER_FULL: BufferFullError,
    AppendError.WRONG_OFFSET: UnexpectedOffsetError,
}
"""All others: NotLeaderError."""


@dataclass(slots=True, eq=False)
class PendingAppend:
    """The token. `answer` is the last offset."""

    answer: asyncio.Future[int]
    is_for_commit: bool
    began_s: float


class PendingAppends:
    """In the order in which they were begun."""

    def __init__(self, metrics: QuorumMetrics) -> None:
        self._metrics = metrics
        self._pending: dict[PendingAppend, None] = {}

    def begin(self, *, is_for_commit: bool) -> PendingAppend:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        pending = PendingAppend(answer, is_for_commit, self._metrics.now_s())
        self._pending[pending] = None
        return pending

    def accepted(self, effect: AppendAccepted) -> None:
        pending = _token(effect)
        if not pending.is_for_commit and not pending.answer.done():
            pending.answer.set_result(effect.last_offset)

    def completed(self, effect: AppendCompleted) -> None:
        pending = _token(effect)
        self._pending.pop(pending, None)
        self._metrics.commit.observe(self._metrics.now_s() - pending.began_s)
        if not pending.answer.done():
            pending.answer.set_result(effect.last_offset)

    def failed(self, effect: AppendFailed) -> None:
        pending = _token(effect)
        self._pending.pop(pending, None)
        if not pending.answer.done():
            kind = _EXCEPTIONS.get(effect.error, NotLeaderError)
            pending.answer.set_exception(kind(effect.error.value))

    def fail_all(self, error: Exception) -> None:
        """Nothing more will come."""
        for pending in self._pending:
            if not pending.answer.done():
                pending.answer.set_exception(error)
                pending.answer.exception()  # it is known: who waits may be who has failed the replica
        self._pending.clear()


def _token(effect: AppendAccepted | AppendCompleted | AppendFailed) -> PendingAppend:
    assert isinstance(effect.token, PendingAppend), effect
    return effect.token

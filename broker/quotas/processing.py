"""The time that a coroutine takes of the event loop: of its own steps, not of what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Processing(Generic[T]):
    """`await` it in place of the coroutine; `spent_s` says what it has taken. Tasks that it starts are not counted."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], clock_s: Callable[[], float]) -> None:
        self.spent_s = 0.0
        self._coroutine = coroutine
        self._clock_s = clock_s

    def __await__(self) -> Generator[Any, Any, T]:
        send, throw = self._coroutine.send, self._coroutine.throw
        error: BaseException | None = None
        while True:
            began_s = self._clock_s()
            try:
                awaited = send(None) if error is None else throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.spent_s += self._clock_s() - began_s
            error = None
            try:
                yield awaited
            except GeneratorExit:
                self._coroutine.close()
                raise
            except BaseException as thrown:  # noqa: BLE001 - it is the coroutine's
                error = thrown

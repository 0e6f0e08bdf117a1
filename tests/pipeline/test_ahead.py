import threading
from collections.abc import Generator

import pytest

from tierfetch.pipeline.reading.read_ahead import ahead


class Source:
    """Counts up; remembers which threads ran it, and whether it was closed."""

    def __init__(self, end: int, error: Exception | None = None) -> None:
        self.made = 0
        self.threads: set[str] = set()
        self.is_closed = False
        self._end = end
        self._error = error

    def items(self) -> Generator[int, None, None]:
        try:
            while self.made < self._end:
                self.threads.add(threading.current_thread().name)
                self.made += 1
                yield self.made
            if self._error is not None:
                raise self._error
        finally:
            self.threads.add(threading.current_thread().name)
            self.is_closed = True


def test_gives_the_same_in_the_same_order_from_one_other_thread() -> None:
    source = Source(100)
    assert list(ahead(source.items(), 3)) == list(range(1, 101))
    assert len(source.threads) == 1
    assert threading.current_thread().name not in source.threads


def test_an_error_comes_where_it_was_raised() -> None:
    source = Source(2, ValueError("the third is corrupt"))
    items = ahead(source.items(), 4)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(ValueError, match="the third is corrupt"):
        next(items)
    assert source.is_closed


def test_makes_no_more_than_is_allowed_and_closes_when_nobody_asks_for_more() -> None:
    source = Source(100)
    items = ahead(source.items(), 4)
    assert next(items) == 1
    items.close()  # type: ignore[attr-defined]
    assert source.made <= 1 + 4
    assert source.is_closed
    assert len(source.threads) == 1


def test_nothing_to_read_is_nothing() -> None:
    assert list(ahead(Source(0).items())) == []

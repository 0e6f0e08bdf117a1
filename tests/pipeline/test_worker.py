"""What a Python process of Spark keeps"""

from __future__ import annotations

from tierfetch.pipeline.access.worker import Worker


class Bytes:
    """As many as a split has."""

    texts = 0

    def __repr__(self) -> str:
        Bytes.texts += 1
        return "a very long text"


def test_nobody_makes_a_text_of_what_was_fetched() -> None:
    """Which took nine tenths of the time of a task."""

    async def fetch() -> Bytes:
        return Bytes()

    worker = Worker()
    assert isinstance(worker.run(fetch()), Bytes)
    worker.close()
    assert Bytes.texts == 0

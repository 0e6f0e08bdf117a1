"""The tail of a table, by brokers that have lost what was there when it was planned"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from tierfetch.pipeline import brokers
from tierfetch.pipeline.brokers import Brokers, BrokersUnavailableError, Fetched, LiveTopic
from tierfetch.protocol.topics import TopicPartition

NAME = TopicPartition("t", 0)
ID = UUID(int=1)


class Log(Brokers):
    """Of ten offsets a fetch, up to its end."""

    def __init__(self, end_offset: int) -> None:
        super().__init__("127.0.0.1:1", committed_only=True)
        self._end_offset = end_offset

    async def _leader(self, partition: TopicPartition) -> Any:
        return None

    async def _fetch(self, leader: object, partition: TopicPartition, offset: int) -> Fetched:
        return Fetched(memoryview(b""), min(offset + 10, self._end_offset), ())


async def fetched(log: Brokers, first: int, end: int) -> list[int]:
    return [one.next_offset async for one in log.batches(NAME, ID, first, end)]


async def test_everything_up_to_the_end() -> None:
    assert await fetched(Log(100), 5, 30) == [15, 25, 35]


@pytest.mark.parametrize("living", [ID, UUID(int=2), None])
async def test_a_topic_that_was_made_anew_is_another_one(living: UUID | None) -> None:
    class Anew(Log):
        async def _leader(self, partition: TopicPartition) -> Any:
            self._topics["t"] = LiveTopic("t", living, {0: None})

    if living in (ID, None):
        assert await fetched(Anew(100), 5, 30) == [15, 25, 35]
        return
    with pytest.raises(BrokersUnavailableError, match=r"t-0 cannot be read: .*deleted and made anew since the job"):
        await fetched(Anew(100), 5, 30)


async def test_an_end_that_does_not_come_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Callable[[], float] = iter(range(1000)).__next__
    monkeypatch.setattr("asyncio.get_running_loop", lambda: type("Loop", (), {"time": staticmethod(clock)}))
    with pytest.raises(BrokersUnavailableError, match=r"t-0: nothing came from offset 20 on .* it went up to 30"):
        await fetched(Log(20), 5, 30)
    assert clock() > brokers.RETRY_FOR_S

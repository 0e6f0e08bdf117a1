"""The tail of a table: what brokers are asked, and what they do that have lost what was there when it was planned"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

import pytest

from tierfetch.pipeline.access import brokers
from tierfetch.pipeline.access.brokers import Brokers, BrokersUnavailableError, Fetched, LiveTopic
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.base import Request, ResponseT
from tierfetch.protocol.messages.cluster import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tierfetch.protocol.messages.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tierfetch.protocol.net.client import Address, BrokerUnavailableError
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
    with pytest.raises(BrokersUnavailableError, match=r"t-0 cannot be read: .*deleted and recreated since the job"):
        await fetched(Anew(100), 5, 30)


async def test_an_end_that_does_not_come_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Callable[[], float] = iter(range(1000)).__next__
    monkeypatch.setattr("asyncio.get_running_loop", lambda: type("Loop", (), {"time": staticmethod(clock)}))
    with pytest.raises(BrokersUnavailableError, match=r"t-0: no records from offset 20 on .* it went up to 30"):
        await fetched(Log(20), 5, 30)
    assert clock() > brokers.RETRY_FOR_S


class Cluster:
    """In place of the client: two brokers that lead what their table says. `gone` ones do not answer."""

    def __init__(self, leaders: dict[TopicPartition, int], gone: int = -1) -> None:
        self.leaders, self.gone = leaders, gone
        self.asked: list[tuple[int, int]] = []
        """(broker, partitions) of each ListOffsets."""

    async def send(self, address: Address, request: Request[ResponseT], **_: object) -> ResponseT:
        if address.port == self.gone:
            raise BrokerUnavailableError(f"{address} refuses connections")
        assert isinstance(request, ListOffsetsRequest | MetadataRequest)
        if isinstance(request, ListOffsetsRequest):
            return cast("ResponseT", self._offsets(address.port, request))
        return cast("ResponseT", self._metadata(request))

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        assert request.topics is None or [topic.name for topic in request.topics] == ["t"]
        parts = [
            MetadataResponsePartition(partition_index=name.partition, leader_id=port)
            for name, port in self.leaders.items()
        ]
        topic = MetadataResponseTopic(name="t", topic_id=ID, partitions=tuple(parts))
        brokers_ = [MetadataResponseBroker(node_id=port, host="127.0.0.1", port=port) for port in (1, 2)]
        return MetadataResponse(brokers=tuple(brokers_), topics=(topic,))

    def _offsets(self, broker: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        (topic,) = request.topics
        numbers = [asked.partition_index for asked in topic.partitions]
        self.asked.append((broker, len(numbers)))
        answers = tuple(
            ListOffsetsPartitionResponse(
                partition_index=number, offset=number * 10, error_code=self._error(broker, number)
            )
            for number in numbers
        )
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="t", partitions=answers),))

    def _error(self, broker: int, number: int) -> ErrorCode:
        is_led = self.leaders[TopicPartition("t", number)] == broker
        return ErrorCode.none if is_led else ErrorCode.not_leader_or_follower

    async def close(self) -> None:
        """Nothing is open."""


def asking(cluster: Cluster, bootstrap: str = "127.0.0.1:1") -> Brokers:
    found = Brokers(bootstrap, committed_only=True)
    vars(found)["_client"] = cluster
    return found


async def test_of_many_partitions_each_leader_is_asked_once() -> None:
    names = [TopicPartition("t", number) for number in range(1000)]
    cluster = Cluster({name: 1 + name.partition % 2 for name in names})
    found = await asking(cluster).offsets(names, -1)
    assert found == {name: name.partition * 10 for name in names}
    assert sorted(cluster.asked) == [(1, 500), (2, 500)]


async def test_partitions_that_moved_meanwhile_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "RETRY_PAUSE_S", 0)
    names = [TopicPartition("t", number) for number in range(4)]
    cluster = Cluster(dict.fromkeys(names, 1))
    tail = asking(cluster)
    await tail.topics(["t"])
    cluster.leaders.update(dict.fromkeys(names[:2], 2))
    assert await tail.offsets(names, -1) == {name: name.partition * 10 for name in names}


async def test_a_broker_that_was_named_may_go_while_others_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "RETRY_PAUSE_S", 0)
    cluster = Cluster({NAME: 1})
    tail = asking(cluster)
    assert await tail.offsets([NAME], -1) == {NAME: 0}
    cluster.gone, cluster.leaders[NAME] = 1, 2
    assert await tail.offsets([NAME], -1) == {NAME: 0}


async def test_brokers_that_cannot_be_reached_are_named_after_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "RETRY_PAUSE_S", 0)
    monkeypatch.setattr(brokers, "RETRY_FOR_S", 0.01)
    tail = asking(Cluster({NAME: 1}, gone=1))
    with pytest.raises(BrokersUnavailableError, match=r"^no broker responds: 127.0.0.1:1: 127.0.0.1:1 refuses"):
        await tail.topics(["t"])
    with pytest.raises(BrokersUnavailableError, match=r"^t-0 cannot be read: no broker responds: "):
        await tail.offsets([NAME], -1)

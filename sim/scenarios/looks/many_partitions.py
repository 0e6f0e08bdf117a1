"""A client that writes to, and reads from, all partitions of a leader at once, as most clients do.

one Produce to all of them, and to one that is not there --> each at the end of its log, that one refused alone
one Fetch that begins a session (KIP-227)                --> just what was written, from each
the session, after that                                  --> nothing
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from random import Random
from typing import Final

from ....broker.cluster import ClusterImage
from ....protocol import ErrorCode, TopicPartition
from ....protocol.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ....protocol.net import Address, KafkaClient
from ....protocol.records import Compression, Record, build_batch, iter_batches, iter_records
from ....protocol.wire import ProducePartition, ProduceRequest, ProduceTopic
from ...judges.core.history import ACKS_ALL
from ...machine.clock import EPOCH_MS
from .asker import TIMEOUT_S

ABSENT: Final = 9_999
"""The number of a partition that no topic has."""
BYTES_MAX: Final = 1024 * 1024
VALUE_BYTES: Final = 40


class ManyPartitions:
    """`look` at one leader; what is wrong is a line each."""

    def __init__(self, client: KafkaClient, rng: Random) -> None:
        self._client = client
        self._rng = rng

    async def look(self, address: Address, image: ClusterImage, ends: Mapping[TopicPartition, int]) -> list[str]:
        """Write to these partitions of one leader, whose logs end there, and read them."""
        values = {name: self._rng.randbytes(VALUE_BYTES) for name in ends}
        if wrong := await self._write(address, image, ends, values):
            return wrong
        first = await self._fetch(address, image, ends, session_epoch=0)
        wrong = wrong_fetch(first, image, ends, values)
        behind = {name: offset + 1 for name, offset in ends.items()}
        again = await self._fetch(address, image, behind, session_id=first.session_id, session_epoch=1)
        if again.error_code is not ErrorCode.none or again.topics:
            wrong.append(f"a session that has read everything gives {again}")
        return wrong

    async def _write(
        self,
        address: Address,
        image: ClusterImage,
        ends: Mapping[TopicPartition, int],
        values: Mapping[TopicPartition, bytes],
    ) -> list[str]:
        names = sorted(ends)
        absent = TopicPartition(names[0].topic, ABSENT)
        batch = {name: self._batch(values.get(name, b"")) for name in (*names, absent)}
        topics = tuple(
            ProduceTopic(
                tuple(ProducePartition(name.partition, batch[name]) for name in of_topic),
                topic,
                image.topics[topic].topic_id,
            )
            for topic, of_topic in _by_topic(batch)
        )
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=int(TIMEOUT_S * 1000), topics=topics)
        answer = await self._client.send(address, request, timeout_s=TIMEOUT_S)
        assert answer is not None, "acks=all is answered"
        found = {
            (each.partition, topic.topic_id or topic.topic): (each.error_code, each.base_offset)
            for topic in answer.topics
            for each in topic.partitions
        }
        wrong = []
        for name in (*names, absent):
            topic_id = image.topics[name.topic].topic_id
            stated = found.get((name.partition, topic_id), found.get((name.partition, name.topic)))
            if name == absent:
                is_right = stated is not None and stated[0] is ErrorCode.unknown_topic_or_partition
            else:
                is_right = stated == (ErrorCode.none, ends[name])
            if not is_right:
                wrong.append(f"a batch for {name}, which ends at {ends.get(name)}, is answered {stated}")
        return wrong

    def _batch(self, value: bytes) -> bytearray:
        compression = self._rng.choice(list(Compression))
        return bytearray(build_batch([Record(0, EPOCH_MS, None, value)], base_offset=0, compression=compression))

    async def _fetch(
        self,
        address: Address,
        image: ClusterImage,
        offsets: Mapping[TopicPartition, int],
        *,
        session_id: int = 0,
        session_epoch: int,
    ) -> FetchResponse:
        topics = tuple(
            FetchTopic(
                tuple(
                    FetchPartition(name.partition, fetch_offset=offsets[name], partition_max_bytes=BYTES_MAX)
                    for name in of_topic
                ),
                topic,
                image.topics[topic].topic_id,
            )
            for topic, of_topic in _by_topic(offsets)
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=BYTES_MAX,
            topics=topics,
            session_id=session_id,
            session_epoch=session_epoch,
        )
        return await self._client.send(address, request, timeout_s=TIMEOUT_S)


def _by_topic(names: Iterable[TopicPartition]) -> list[tuple[str, list[TopicPartition]]]:
    return [(topic, list(of_topic)) for topic, of_topic in groupby(sorted(names), key=lambda name: name.topic)]


def wrong_fetch(
    answer: FetchResponse,
    image: ClusterImage,
    ends: Mapping[TopicPartition, int],
    values: Mapping[TopicPartition, bytes],
) -> list[str]:
    """Return what an answer has beside the one record of each partition, at the offset where it ended before."""
    found: dict[TopicPartition, tuple[ErrorCode, list[tuple[int, bytes | None]]]] = {}
    for topic in answer.topics:
        name = topic.topic if topic.topic_id is None else image.topic_names.get(topic.topic_id, topic.topic)
        for each in topic.partitions:
            assert isinstance(each.records, bytes | bytearray | memoryview | None), each.records
            found[TopicPartition(name, each.partition)] = (each.error_code, records_of(bytes(each.records or b"")))
    right = {name: (ErrorCode.none, [(offset, values[name])]) for name, offset in ends.items()}
    if (answer.error_code, found) == (ErrorCode.none, right):
        return []
    differing = [str(name) for name in sorted(found.keys() | right.keys()) if found.get(name) != right.get(name)]
    return [f"a fetch of {len(ends)} partitions: {answer.error_code.name}, other records of {differing}"]


def records_of(data: bytes) -> list[tuple[int, bytes | None]]:
    """Return offset and value of each record of whole batches."""
    return [
        (record.offset, record.value)
        for position, header in iter_batches(data)
        for record in iter_records(data, position, header)
    ]

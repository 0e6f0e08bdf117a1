"""Raw requests to one partition of a broker, and what matters of the answers as plain values, to compare brokers."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from random import Random
from types import TracebackType
from typing import Any, Self

from crc32c import crc32c

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchTopic
from tierfetch.protocol.messages.base import Request, ResponseT
from tierfetch.protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tierfetch.protocol.messages.producers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.protocol.records import iter_batches
from tierfetch.protocol.wire.produce import ProducePartition, ProduceRequest, ProduceTopic

BY_NAME = 12
"""The last version in which Produce and Fetch name topics; later ones give ids."""


class Conversation:
    """With the leader of partition 0 of a topic."""

    def __init__(self, port: int, topic: str) -> None:
        self._client = KafkaClient(client_id="interop", random=Random(1))
        self._address = Address("127.0.0.1", port)
        self._topic = topic

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def ask(self, api: ApiKey, body: Any, version: int | None = None) -> Any:
        return await self._client.send(self._address, body, max_version=version)

    async def _send(self, request: Request[ResponseT], version: int | None = None) -> ResponseT:
        return await self._client.send(self._address, request, max_version=version)

    async def produce(
        self, records: bytes | None, *, acks: int = -1, partition: int = 0, transactional_id: str | None = None
    ) -> tuple[Any, ...]:
        """(error, first offset, whether the broker gave the time). In a transaction before version 12, which would add
        the partition to it.
        """
        topic = ProduceTopic((ProducePartition(partition, records),), topic=self._topic)
        request = ProduceRequest(acks=acks, timeout_ms=10_000, topics=(topic,), transactional_id=transactional_id)
        answer = await self.ask(ApiKey.PRODUCE, request, BY_NAME if transactional_id is None else BY_NAME - 1)
        ((found,),) = (each.partitions for each in answer.topics)
        return found.error_code.name, found.base_offset, found.log_append_time_ms > 0

    async def fetch(self, *, isolation: int = 0, version: int = BY_NAME, **wanted: int) -> tuple[Any, ...]:
        """(error, high watermark, last stable, log start, aborted, diverging epoch, [(first, last) of each batch])."""
        partition = FetchPartition(**({"partition": 0} | wanted))
        topic = FetchTopic((partition,), topic=self._topic)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=(topic,), isolation_level=isolation)
        answer = await self.ask(ApiKey.FETCH, request, version)
        ((found,),) = (each.partitions for each in answer.topics)
        batches = [(header.base_offset, header.last_offset) for _, header in iter_batches(bytes(found.records or b""))]
        offsets = (found.high_watermark, found.last_stable_offset, found.log_start_offset)
        return found.error_code.name, *offsets, found.aborted_transactions or (), found.diverging_epoch, batches

    async def list_offsets(
        self, timestamp: int, *, version: int, isolation: int = 0, **more: int
    ) -> tuple[str, int, int]:
        """(error, offset, epoch); the timestamp that was found is left to the other tests."""
        wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp, **more)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            timeout_ms=10_000,
            topics=(ListOffsetsTopic(name=self._topic, partitions=(wanted,)),),
        )
        answer = await self._send(request, version)
        ((found,),) = (each.partitions for each in answer.topics)
        return found.error_code.name, found.offset, found.leader_epoch

    async def epoch_end(
        self, epoch: int, *, current_leader_epoch: int = -1, partition: int = 0
    ) -> tuple[str, int, int]:
        """(error, epoch, end offset)."""
        wanted = OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=current_leader_epoch, leader_epoch=epoch
        )
        topic = OffsetForLeaderTopic(topic=self._topic, partitions=(wanted,))
        answer = await self._send(OffsetForLeaderEpochRequest(replica_id=-1, topics=(topic,)))
        ((found,),) = (each.partitions for each in answer.topics)
        return found.error_code.name, found.leader_epoch, found.end_offset

    async def write_marker(self, **marker: Any) -> str:
        """The error."""
        topics = (WritableTxnMarkerTopic(name=self._topic, partition_indexes=(0,)),)
        answer = await self._send(WriteTxnMarkersRequest(markers=(WritableTxnMarker(topics=topics, **marker),)))
        return answer.markers[0].topics[0].partitions[0].error_code.name

    async def delete_records(self, offset: int, *, partition: int = 0) -> tuple[str, int]:
        """(error, low watermark)."""
        wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
        topics = (DeleteRecordsTopic(name=self._topic, partitions=(wanted,)),)
        answer = await self._send(DeleteRecordsRequest(timeout_ms=10_000, topics=topics))
        ((found,),) = (each.partitions for each in answer.topics)
        return found.error_code.name, found.low_watermark


def spoiled(batch: bytes, changes: Mapping[tuple[int, str], int], *, recount: bool = True) -> bytes:
    """The batch with other header fields, by position and struct format; with `recount` under a right CRC."""
    data = bytearray(batch)
    for (at, form), value in changes.items():
        struct.pack_into(form, data, at, value)
    if recount:
        struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)

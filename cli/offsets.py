"""ListOffsets for scripts that are not asyncio: one question, one connection."""

from __future__ import annotations

import asyncio

from ..light_dataclass import dataclass
from ..protocol import ErrorCode, KafkaError, offsets_of
from ..protocol.net import Address
from .command_config import make_client

TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """The answer; -1 stands for unknown."""

    offset: int
    timestamp: int
    leader_epoch: int


def list_offset(port: int, topic: str, partition: int, timestamp: int, *, host: str = "127.0.0.1") -> ListedOffset:
    """Ask a broker that leads the partition; KafkaError with the code it answered, OSError if it cannot be reached."""
    return asyncio.run(_list_offset(Address(host, port), topic, partition, timestamp))


async def _list_offset(address: Address, topic: str, partition: int, timestamp: int) -> ListedOffset:
    client = make_client()
    question = offsets_of([(topic, partition)], timestamp, timeout_ms=int(TIMEOUT_S * 1000))
    try:
        answer = await client.send(address, question, timeout_s=TIMEOUT_S)
    finally:
        await client.close()
    found = answer.topics[0].partitions[0]
    if found.error_code is not ErrorCode.none:
        raise KafkaError(found.error_code, f"ListOffsets {timestamp} of {topic}-{partition} at {address}")
    return ListedOffset(found.offset, found.timestamp, found.leader_epoch)

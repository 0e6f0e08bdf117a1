"""How fast the leaders of a live cluster answer and send, asked as any consumer asks: nothing is written or committed.

Each leader is asked for the first local megabytes of its largest partitions, again and again, until `read_bytes` have
come. They are warm after the first time, so the figure is the network's and the broker's, not its disks'.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from ...light_dataclass import dataclass
from ...protocol import metadata_of
from ...protocol.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ...protocol.net import Address, KafkaClient
from ..command_config import make_client
from .snapshot import PartitionState, Snapshot

PARTITIONS_PER_LEADER_MAX: Final = 4
PARTITION_BYTES_MAX: Final = 4 << 20
RESPONSE_BYTES_MAX: Final = 16 << 20
ROUND_TRIPS: Final = 10
TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class LeaderPace:
    """`fetch_bytes_per_s` None: it leads nothing that holds records."""

    round_trip_s: float
    fetch_bytes_per_s: float | None


async def paces(
    snapshot: Snapshot, addresses: Mapping[int, Address], topic_ids: Mapping[str, UUID], read_bytes: int
) -> dict[int, LeaderPace]:
    """Measure each broker that answers, one after the other. OSError, KafkaError if one stops answering half-way."""
    client = make_client()
    try:
        found = {}
        for broker, address in sorted(addresses.items()):
            round_trip_s = await _round_trip_s(client, address)
            request = _request(largest_led(snapshot, broker), topic_ids)
            rate = None if request is None else await _fetch_rate(client, address, request, read_bytes)
            found[broker] = LeaderPace(round_trip_s, rate)
        return found
    finally:
        await client.close()


def largest_led(snapshot: Snapshot, broker: int) -> list[PartitionState]:
    """The partitions that this broker leads with most on its disks, the largest first."""
    sizes = {
        (topic, index): size
        for (holder, topic, index), size in snapshot.local_bytes.items()
        if holder == broker and size
    }
    led = [state for key, state in snapshot.partitions.items() if state.leader == broker and key in sizes]
    led.sort(key=lambda state: -sizes[state.topic, state.index])
    return led[:PARTITIONS_PER_LEADER_MAX]


async def _round_trip_s(client: KafkaClient, address: Address) -> float:
    taken = []
    for _ in range(ROUND_TRIPS):
        began = time.perf_counter()
        await client.send(address, metadata_of(()), timeout_s=TIMEOUT_S)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def _request(states: Sequence[PartitionState], topic_ids: Mapping[str, UUID]) -> FetchRequest | None:
    topics: dict[str, list[FetchPartition]] = {}
    for state in states:
        offsets = state.offsets
        if offsets is None or offsets.log_end is None or state.topic not in topic_ids:
            continue
        start = offsets.local_log_start if offsets.local_log_start is not None else offsets.log_start or 0
        if offsets.log_end > start:
            asked = FetchPartition(state.index, fetch_offset=start, partition_max_bytes=PARTITION_BYTES_MAX)
            topics.setdefault(state.topic, []).append(asked)
    if not topics:
        return None
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=RESPONSE_BYTES_MAX,
        topics=tuple(FetchTopic(tuple(parts), name, topic_ids[name]) for name, parts in topics.items()),
    )


async def _fetch_rate(client: KafkaClient, address: Address, request: FetchRequest, read_bytes: int) -> float | None:
    await client.send(address, request, timeout_s=TIMEOUT_S)
    came, began = 0, time.perf_counter()
    while came < read_bytes:
        size = _record_bytes(await client.send(address, request, timeout_s=TIMEOUT_S))
        if not size:
            return None
        came += size
    return came / (time.perf_counter() - began)


def _record_bytes(response: FetchResponse) -> int:
    parts = [part.records for topic in response.topics for part in topic.partitions]
    return sum(len(records) for records in parts if isinstance(records, bytes | bytearray | memoryview))

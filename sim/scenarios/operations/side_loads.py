"""Sends to side topics for a while, whatever becomes of them meanwhile; and asks for offsets by time.

| client | what it does                                              | what must hold                               |
|--------|-----------------------------------------------------------|----------------------------------------------|
| load   | some seconds of records to a partition, with one codec    | what acks=all acknowledged is in that        |
|        | and one acks; the topic may be deleted, made again,       | incarnation of the topic in the end          |
|        | reassigned or given another config                        | (`Administrator.lost_from`)                  |
| find   | ListOffsets by a timestamp (KIP-79, KIP-405)              | it is the first offset at or after that time |

The first is the earliest of those that were acknowledged before the question, or an earlier one; and one whose record
is known is not older than that. Nothing is said where records may have been lost or deleted, or have been stamped by
the leader; nor by a leader that has another incarnation of the topic, for ListOffsets names none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from random import Random
from typing import Final

from ....protocol import KafkaError, TopicIdPartition, TopicPartition
from ....protocol.net import Address
from ....protocol.records import Compression
from ...judges.core.acknowledged_writes import Anomaly
from ...judges.core.history import ACKS_ALL
from ...judges.core.partition import InvariantViolationError
from ...judges.core.truth import ClusterTruth
from ...machine.clock import EPOCH_MS
from ..administrator import Administrator
from ..client import NO_OFFSET, AttemptFailedError, SimClient
from ..cluster_options import BROKERS

BATCHES: Final = (5, 25)
GAP_S: Final = 0.1
ACKS: Final = (ACKS_ALL, ACKS_ALL, 1, 0)
LOOKUPS: Final = 8
LARGEST: Final = -3
"""The timestamp that asks for the record with the largest one."""
FIRST_NUMBER: Final = 1_000
"""Above the numbers of the records with which the administrator fills a topic."""


class SideLoads:
    """`deleted_end` is the offset below which records of a partition may have been deleted on request; `has_lost` says
    whether any others may be lost.
    """

    def __init__(
        self,
        administrator: Administrator,
        truth: ClusterTruth,
        addresses: tuple[Address, ...],
        rng: Random,
        *,
        deleted_end: Callable[[TopicIdPartition], int],
        has_lost: Callable[[TopicIdPartition], bool],
    ) -> None:
        self._administrator = administrator
        self._truth = truth
        self._client = SimClient("finds-by-time", addresses, rng)
        self._deleted_end = deleted_end
        self._has_lost = has_lost
        self._numbers = count(FIRST_NUMBER)
        self.found = 0
        """The number of offsets found by time."""

    async def load(self, rng: Random) -> None:
        """Send to a partition of a side topic."""
        name = rng.choice(self._administrator.side_topics)
        partition = TopicPartition(name, rng.randrange(len(self._truth.image.topics[name].partitions)))
        acks, compression = rng.choice(ACKS), rng.choice(list(Compression))
        for _ in range(rng.randint(*BATCHES)):
            await self._administrator.produce(partition, next(self._numbers), acks=acks, compression=compression)
            await asyncio.sleep(rng.expovariate(1 / GAP_S))

    @property
    def places(self) -> list[TopicIdPartition]:
        """Where offsets can be looked up: where something was acknowledged, and stamped by its producer."""
        restamped = self._administrator.restamped
        return [each for each in self._administrator.filled if each.topic_id not in restamped]

    async def find(self, rng: Random) -> None:
        """Look offsets up by time. InvariantViolationError if another one had to be found."""
        for _ in range(LOOKUPS):
            if self.places:
                await self._find(rng.choice(self.places), rng)
            await asyncio.sleep(rng.expovariate(1 / GAP_S))

    async def _find(self, partition: TopicIdPartition, rng: Random) -> None:
        known = {offset: number for offset, (number, _) in self._administrator.acknowledged(partition).items()}
        wanted = rng.choice(list(known.values())) + rng.randint(-1, 1)
        hosting = self._administrator.hosting(partition)
        with suppress(AttemptFailedError, KafkaError):
            offset = await self._client.list_offset(partition.topic_partition, EPOCH_MS + wanted)
            is_of_it = BROKERS.get(self._client.leader_host) in hosting & self._administrator.hosting(partition)
            if is_of_it and partition in self.places and not self._has_lost(partition):
                self.found += 1
                check_found(partition, wanted, offset, known, self._deleted_end(partition))

    async def wrong_largest(self) -> list[Anomaly]:
        """Return where the record with the largest timestamp is said to be another one, once everything is at rest."""
        found = []
        for partition in self.places:
            start = self._deleted_end(partition)
            acknowledged = self._administrator.acknowledged(partition).items()
            known = {offset: number for offset, (number, _) in acknowledged if offset >= start}
            if known and not self._has_lost(partition):
                found += wrong_largest(str(partition.topic_partition), await self._largest(partition), known)
        return found

    async def _largest(self, partition: TopicIdPartition) -> int | None:
        """Return the offset of the record with the largest timestamp, -1 if there is none; None without an answer."""
        for _ in range(LOOKUPS):
            with suppress(AttemptFailedError, KafkaError):
                return await self._client.list_offset(partition.topic_partition, LARGEST)
            await asyncio.sleep(GAP_S)
        return None

    async def close(self) -> None:
        await self._client.close()


def wrong_largest(partition: str, offset: int | None, known: dict[int, int]) -> list[Anomaly]:
    """Return what is wrong if the record at `offset` is said to have the largest timestamp. `known` are times by
    offset; records that nobody acknowledged may have larger ones.
    """
    largest = max(known, key=lambda each: known[each])
    if offset is not None and offset != NO_OFFSET and known.get(offset, known[largest]) >= known[largest]:
        return []
    detail = f"it is said to be at {offset}, at {largest} is a larger one"
    return [Anomaly("largest timestamp", partition, detail)]


def check_found(partition: TopicIdPartition, wanted: int, offset: int, known: dict[int, int], start: int) -> None:
    """InvariantViolationError if `offset` cannot be the first at or after the time `wanted`. `known` are times by
    offset; those below `start` may have been deleted.
    """
    where = f"{partition.topic_partition}: the first offset at or after {wanted} is said to be {offset}"
    later = [each for each, number in known.items() if number >= wanted and each >= start]
    if later and (offset == NO_OFFSET or offset > min(later)):
        raise InvariantViolationError("first at that time", f"{where}, {min(later)} is at {known[min(later)]}")
    if offset in known and known[offset] < wanted:
        raise InvariantViolationError("first at that time", f"{where}, which is at {known[offset]}")

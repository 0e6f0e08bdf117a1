"""A compacted topic, written under faults while the production cleaner works: of every key the last value must survive.

    create table --> topic `table`, small segments, cleaned each second --> write table: batches of a few keys

One process writes at a time, one batch after the other. A batch whose outcome is not known may yet be appended: its
keys are left alone from then on. `histories` has what was sent and acknowledged; `judges.core.clients.compacted`
compares it with the log, and the replicas with each other.

No deletion expires within a run: a follower that is away for longer than `delete.retention.ms` keeps a deleted key, as
in Kafka.
"""

from __future__ import annotations

import asyncio
from itertools import count
from random import Random
from typing import Final

from ....protocol import KafkaError, TopicPartition
from ....protocol.net import Address
from ....protocol.records import Compression, Record, build_batch
from ...judges.core.clients.compacted import KeyHistory
from ...judges.core.history import ACKS_ALL
from ...judges.core.truth import ClusterTruth
from ...machine.clock import EPOCH_MS
from ..administrator import Administrator
from ..client import AttemptFailedError, SimClient

TABLE: Final = "table"
PARTITION: Final = TopicPartition(TABLE, 0)
CONFIGS: Final = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "1500",
    "index.interval.bytes": "300",
    "segment.ms": "3000",
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "600000",
    "file.delete.delay.ms": "500",
    "flush.messages": "1",
    "min.insync.replicas": "2",
}
BATCHES: Final = (20, 60)
GAP_S: Final = 0.05
KEYS_MAX: Final = 4
NEW_KEY_SHARE: Final = 0.15
DELETED_SHARE: Final = 0.15
VALUE_BYTES_MAX: Final = 120


class Tables:
    """The one table of a run, and who writes it."""

    def __init__(
        self, administrator: Administrator, truth: ClusterTruth, addresses: tuple[Address, ...], rng: Random
    ) -> None:
        self._administrator = administrator
        self._truth = truth
        self._client = SimClient("writes-table", addresses, rng)
        self._numbers = count(1)
        self._usable: list[bytes] = []
        """The keys of which everything that was sent is acknowledged."""
        self._is_busy = False
        self.histories: dict[bytes, KeyHistory] = {}
        self.batches = 0
        """The number of batches acknowledged."""

    @property
    def is_there(self) -> bool:
        return TABLE in self._truth.image.topics

    @property
    def is_idle(self) -> bool:
        """Whether no other action creates or writes it."""
        return not self._is_busy

    async def create(self, replicas: list[int]) -> None:
        """Create it; until it is there."""
        self._is_busy = True
        try:
            await self._administrator.create_topic(TABLE, [replicas], CONFIGS)
        finally:
            self._is_busy = False

    async def write(self, rng: Random) -> None:
        """Send some batches."""
        self._is_busy = True
        try:
            for _ in range(rng.randint(*BATCHES)):
                await self._send(rng)
                await asyncio.sleep(rng.expovariate(1 / GAP_S))
        finally:
            self._is_busy = False

    async def _send(self, rng: Random) -> None:
        changes = {key: self._value(rng) for key in self._keys(rng)}
        records = [Record(place, EPOCH_MS, key, value) for place, (key, value) in enumerate(changes.items())]
        batch = build_batch(records, base_offset=0, compression=rng.choice(list(Compression)))
        for key, value in changes.items():
            self.histories.setdefault(key, KeyHistory()).sent.append(value)
        self._usable = [key for key in self._usable if key not in changes]
        try:
            await self._client.produce(PARTITION, batch, ACKS_ALL)
        except (AttemptFailedError, KafkaError):
            return
        self.batches += 1
        self._usable += changes
        for key in changes:
            self.histories[key].acknowledged = len(self.histories[key].sent)

    def _keys(self, rng: Random) -> list[bytes]:
        keys = rng.sample(self._usable, min(len(self._usable), rng.randint(1, KEYS_MAX)))
        if not keys or rng.random() < NEW_KEY_SHARE:
            keys.append(f"key-{next(self._numbers)}".encode())
        return keys

    def _value(self, rng: Random) -> bytes | None:
        if rng.random() < DELETED_SHARE:
            return None
        return f"value-{next(self._numbers)}-".encode().ljust(rng.randint(16, VALUE_BYTES_MAX), b".")

    async def close(self) -> None:
        await self._client.close()

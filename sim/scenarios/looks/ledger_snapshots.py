"""A broker keeps what it knows of the tier as a file, and begins with it (ADR 6).

    what it has read of the metadata topic --cut--> a snapshot: the ledgers that it has in memory, segment by segment
    one of the brokers, restarted --------------> begins with it, and knows what the others know

A production broker cuts one after 10,000 records, more than a run has; here it is asked to at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import copy_context
from random import Random

from ....broker import Broker
from ....protocol import TopicIdPartition
from ....remote import MetadataPartitionReader, RemoteLogLedger, TopicBasedRemoteLogMetadataManager
from ....remote.core import RemoteLogSegmentMetadata
from ...machine.process import Process, current_process

Ledgers = Mapping[TopicIdPartition, RemoteLogLedger]


class LedgerSnapshots:
    """`brokers` are those that run, `process` what runs as one of them; `restart` restarts one, and returns once it is
    up again.
    """

    def __init__(
        self,
        brokers: Callable[[], Mapping[int, Broker | None]],
        process: Callable[[int], Process | None],
        restart: Callable[[int], Awaitable[None]],
        rng: Random,
    ) -> None:
        self._brokers = brokers
        self._process = process
        self._restart = restart
        self._rng = rng
        self._restarted: int | None = None
        self._expected: frozenset[TopicIdPartition] = frozenset()
        """What that one knew before."""

    async def look(self) -> list[str]:
        """Cut and read back a snapshot of each broker; restart one of them, once."""
        wrong: list[str] = []
        for broker_id, reader in self._readers():
            wrong += [f"broker {broker_id}: {text}" for text in await self._cut(broker_id, reader)]
        if not wrong and self._restarted is None:
            broker_id = self._restarted = self._rng.choice(sorted(self._brokers()))
            self._expected = frozenset(_known_to(self._brokers()[broker_id]))
            await self._restart(broker_id)
        return [*wrong, *self._wrong_ledgers()]

    def _readers(self) -> Iterator[tuple[int, MetadataPartitionReader]]:
        """Yield the readers of the metadata topic, each with its broker."""
        for broker_id, broker in sorted(self._brokers().items()):
            metadata = None if broker is None or broker.tier is None else broker.tier.manager._metadata
            if isinstance(metadata, TopicBasedRemoteLogMetadataManager):
                for reader in list(metadata._readers.values()):
                    yield broker_id, reader

    async def _cut(self, broker_id: int, reader: MetadataPartitionReader) -> list[str]:
        cutter, number, live = reader._cutter, reader._partition, reader._live
        if live is None or cutter._files is None:
            return [f"metadata partition {number} is not read yet"]
        context = copy_context()
        context.run(current_process.set, self._process(broker_id))
        loop = asyncio.get_running_loop()
        await loop.create_task(cutter.cut(live.position), context=context)
        snapshot = await loop.create_task(cutter._files.read(number), context=context)
        if snapshot is None:
            # Of a partition that never had a record there is nothing to keep.
            return [f"no snapshot of metadata partition {number} was cut"] if live.position else []
        names = list(live.partitions)
        known = {name: ledger for name in names if (ledger := reader._book.ledger(name)) is not None}
        return list(differing(snapshot.ledgers, known, "the snapshot has"))

    def _wrong_ledgers(self) -> Iterator[str]:
        """Compare what the brokers know of partitions that several of them host."""
        first: dict[TopicIdPartition, RemoteLogLedger] = {}
        for broker_id, broker in sorted(self._brokers().items()):
            known = _known_to(broker)
            if broker_id == self._restarted and (lacking := self._expected - known.keys()):
                yield f"broker {broker_id} was restarted, and knows nothing of {sorted(map(str, lacking))}"
            shared = {name: ledger for name, ledger in known.items() if name in first}
            yield from differing(shared, {name: first[name] for name in shared}, f"broker {broker_id} knows")
            first |= known


def _known_to(broker: Broker | None) -> dict[TopicIdPartition, RemoteLogLedger]:
    """Return the ledgers of what a broker hosts, as far as it has read them."""
    if broker is None or broker.tier is None:
        return {}
    names = [each.partition for each in broker.hosted.partitions.values()]
    return {name: ledger for name in names if (ledger := broker.tier.manager.ledger(name)) is not None}


def differing(found: Ledgers, right: Ledgers, what: str) -> Iterator[str]:
    """Compare ledgers, of the partitions on the right."""
    for name, ledger in sorted(right.items(), key=lambda pair: pair[0]):
        segments = _by_id(ledger)
        others = _by_id(found[name]) if name in found else {}
        ids = sorted(str(each) for each in segments.keys() | others.keys() if segments.get(each) != others.get(each))
        if ids:
            yield f"{name.topic_partition}: {what} {len(others)} segments of {len(segments)}; {ids} differ"


def _by_id(ledger: RemoteLogLedger) -> dict[object, RemoteLogSegmentMetadata]:
    return {each.segment_id.id: each for each in ledger.segments()}

"""Partitions as programs have them that are no replicas (docs/library.md): read from the tier, or followed.

| what                                      | must be                                                                 |
|-------------------------------------------|-------------------------------------------------------------------------|
| `remote.open_tier`, its partitions        | those of which leaders know finished segments                           |
| the survey of a partition's objects       | each finished segment as the remote log metadata have it                |
| audits of ledger and survey, deep         | nothing is damaged, nothing is left over                                |
| batches and committed records of the tier | those of the cluster                                                    |
| `fetcher.follow` of one partition         | the batches of the cluster from its log start to its high watermark; the |
|                                           | machine that follows loses its power in the middle                      |

What the cluster has is taken from the files of the leader, and below them from the objects of its segments. What may
have lost something is left out, and so is a partition to which an upload has come long after its copy was given up:
it stays until its leader, or the next one, looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from ....broker import Broker, NodeEnvironment
from ....fetcher import EmbeddedFollower, FetcherConfig, follow_with
from ....log import PartitionLog
from ....log.core import LogConfig
from ....plugins import partition_directory
from ....protocol import TopicIdPartition
from ....remote import RemoteStorageManager, Tier, audit_ledger, audit_survey, open_tier, survey_partition
from ....remote.core import FindingKind, RemoteLogLedger
from ...judges.core.clients.copies import (
    Described,
    committed_offsets,
    within,
    wrong_batches,
    wrong_offsets,
    wrong_segments,
)
from ...judges.core.replicas import StoredBatch, batches_of
from ...judges.core.truth import ClusterTruth
from ...judges.final_state import Brokers, local_batches, log_batches
from ...machine.clock import EPOCH_MS
from ...machine.world import World
from ..cluster_state import ledgers
from .asker import broker_addresses
from .own_log import log_services

HOST: Final = "follower"
FOLLOW_S: Final = 15.0
"""A partition at rest is followed to its end within this time."""
SMALL_FETCH: Final = FetcherConfig(max_bytes=4_000, response_max_bytes=8_000)
"""So that it takes several."""

KEEP_ALL: Final = LogConfig(retention_ms=-1, retention_bytes=-1)

Led = tuple[TopicIdPartition, Broker, PartitionLog, RemoteLogLedger]


class Copies:
    """`hosts` are those of brokers by id; `has_lost`: a topic may have lost something."""

    def __init__(
        self,
        world: World,
        truth: ClusterTruth,
        brokers: Callable[[], Brokers],
        hosts: dict[int, str],
        has_lost: Callable[[str], bool],
    ) -> None:
        self._world = world
        self._truth = truth
        self._brokers = brokers
        self._hosts = hosts
        self._has_lost = has_lost
        self._rng = world.rng("copies")
        self._numbers = count(1)

    def _led(self) -> Iterator[Led]:
        for led in ledgers(self._truth, self._brokers()):
            if not self._has_lost(led[0].topic):
                yield led

    def _right(self, led: Led, start_offset: int, end_offset: int) -> dict[int, StoredBatch]:
        """Return what the cluster has between these offsets, by base offset."""
        name, leader, _, _ = led
        files = self._world.host(self._hosts[leader.config.node_id]).files
        batches = log_batches(leader, name.topic_partition, self._world.store, files)
        return within(batches, start_offset, end_offset)

    # -- the tier -----------------------------------------------------------------------------------------------------

    async def tier(self) -> list[str]:
        """Read all that is in the tier without a broker."""
        store = self._world.store
        await asyncio.sleep(max(0.0, store.listed_at_s - self._world.now_s))  # a fault has made listings late
        storage = store.storage(HOST)
        tiered = [led for led in self._led() if led[3].finished()]
        async with open_tier(storage) as tier:
            listed = await tier.partitions()
            wrong = [f"the tier does not list {led[0]}" for led in tiered if led[0] not in listed]
            for led in tiered:
                if not self._has_late_objects(led[0]):
                    found = [*await _wrong_objects(storage, led), *await self._wrong_reads(tier, led)]
                    wrong += [f"{led[0].topic_partition}: {text}" for text in found]
        return wrong

    def _has_late_objects(self, name: TopicIdPartition) -> bool:
        store, prefix = self._world.store, partition_directory(name) + "/"
        return any(store.is_orphan(key) for key in store.objects if key.startswith(prefix))

    async def _wrong_reads(self, tier: Tier, led: Led) -> list[str]:
        name, _, log, _ = led
        found = await tier.log(name.topic, name.partition, topic_id=name.topic_id)
        log_start, local_start = log.state.log_start_offset, log.state.offsets.local_log_start_offset
        start_offset = max(found.start_offset, log_start)
        has_all = found.start_offset <= log_start and found.end_offset >= local_start
        tiered = f"[{found.start_offset}, {found.end_offset})"
        is_whole = has_all or local_start == log_start
        wrong = [] if is_whole else [f"it has {tiered}, the log begins at {log_start}, locally at {local_start}"]
        right = self._right(led, start_offset, found.end_offset)
        batches = batches_of(b"".join([batch async for batch in found.batches(start_offset)]))
        wrong += wrong_batches(within(batches, start_offset, found.end_offset), right)
        shown = [record.offset async for record in found.read(start_offset)]
        committed = [each for each in committed_offsets(right.values()) if each >= start_offset]
        return [*wrong, *wrong_offsets(shown, committed)]

    # -- a follower ---------------------------------------------------------------------------------------------------

    async def followed(self) -> list[str]:
        """Follow one partition, with a loss of power in the middle."""
        there = [led for led in self._led() if led[2].state.log_start_offset < led[2].state.high_watermark]
        if not there:
            return []
        led = self._rng.choice(there)
        name, state = led[0], led[2].state
        host, directory = self._world.host(HOST), Path(f"/copy-{next(self._numbers)}")
        make = partial(self._follow, name, directory)
        try:
            async with asyncio.timeout(FOLLOW_S):
                follower = await host.start(make)
                middle = (state.log_start_offset + state.high_watermark) // 2
                await follower.wait_newer(middle)
                host.crash("machine")
                follower = await host.start(make)
                await follower.wait_caught_up()
                ends = (follower.start_offset, follower.end_offset)
                read = [record.offset async for record in follower.read()]
        finally:
            await host.stop()
        right_ends = (state.log_start_offset, state.high_watermark)
        wrong = [] if ends == right_ends else [f"it has {ends}, the leader {right_ends}"]
        right = self._right(led, *right_ends)
        copy = local_batches(host.files, directory / str(name.topic_partition))
        wrong += wrong_batches(within(copy, *right_ends), right)
        if read != sorted(set(read)) or (read and not ends[0] <= read[0] <= read[-1] < ends[1]):
            wrong.append(f"offsets are read as {read}")
        return [f"{name.topic_partition}: {text}" for text in wrong]

    def _follow(
        self, name: TopicIdPartition, directory: Path, machine: NodeEnvironment
    ) -> AbstractAsyncContextManager[EmbeddedFollower]:
        services, seeds = log_services(machine, KEEP_ALL), broker_addresses(self._truth)
        return follow_with(services, seeds, name.topic_partition, directory, fetching=SMALL_FETCH)


async def _wrong_objects(storage: RemoteStorageManager, led: Led) -> list[str]:
    """Compare the objects of a partition with its ledger, by every byte; but for copies that were given up, whose
    objects stay until their broker, or a deadline, removes them.
    """
    name, _, _, ledger = led
    finished = {each.segment_id for each in ledger.finished()}
    left = {each.segment_id for each in ledger.segments()} - finished
    surveyed = await survey_partition(storage, name)
    described = {
        str(each.segment_id): Described.of(each) for each in surveyed.ledger.finished() if each.segment_id not in left
    }
    known = {str(each.segment_id): Described.of(each) for each in ledger.finished()}
    now_ms = EPOCH_MS + int(asyncio.get_running_loop().time() * 1000)
    reports = [
        await audit_ledger(ledger, storage, now_ms=now_ms, deep=True),
        await audit_survey(surveyed, storage, now_ms=now_ms, deep=True),
    ]
    excused = set(map(str, left))
    found = [
        str(each)
        for report in reports
        for each in report.findings
        if each.kind is not FindingKind.OFF_LINEAGE and each.subject not in excused
    ]
    return [*wrong_segments(described, known), *found]

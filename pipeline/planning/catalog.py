"""What the stores hold of the wanted partitions, kept from one look to the next.

    layout (once) -> partitions -> sight of each in each store -> one ledger for each partition

A segment never changes under its id, so that a look describes only what is new; a stream lists only from where it
stands, unless something is lacking there. What is no longer listed leaves the ledger. A topic that was deleted and
created again has two ids: the caller names the live one, else it is the one last written, in all partitions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Final
from uuid import UUID

from ...light_dataclass import dataclass
from ...log.core import EpochEntry, decode_leader_epochs
from ...protocol import TopicIdPartition, TopicPartition
from ...remote import (
    NOT_REPORTED,
    IndexType,
    Sighting,
    enter_segment,
    first_open_offset,
    gather_limited,
)
from ...remote.core import (
    Finding,
    Gap,
    RemoteLogLedger,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    youngest,
)
from ..access.stores import SegmentStore, StoreRef
from ..core.offset_cover import Piece, first_readable, history, pieces_of

PARTITIONS_AT_ONCE_MAX: Final = 8

OpenStore = Callable[[StoreRef], SegmentStore]


@dataclass(frozen=True, slots=True)
class TieredPartition:
    """What the stores hold of a partition at one moment. `end_offset` is exclusive; all 0 where nothing is there.

    `stable_offset`: the first offset of the oldest transaction that is open where it ends, or that end. Whether what
    lies from there on is committed the stores alone cannot tell. `origins`: which store has which segment. `damage`:
    the segments that are there and cannot be described.
    """

    partition: TopicIdPartition
    ledger: RemoteLogLedger
    origins: Mapping[UUID, StoreRef]
    history: tuple[EpochEntry, ...]
    start_offset: int
    stable_offset: int
    end_offset: int
    damage: tuple[Finding, ...] = ()

    @property
    def name(self) -> TopicPartition:
        return self.partition.topic_partition

    def pieces(self, first_offset: int, end_offset: int) -> tuple[list[Piece], list[Gap]]:
        return pieces_of(self.ledger, self.history, first_offset, end_offset)


@dataclass(slots=True)
class _Holding:
    """What one store holds of one partition, with the `log_start_offset` that the store states."""

    segments: dict[UUID, RemoteLogSegmentMetadata] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    log_start_offset: int = 0

    def listing_start(self, position: int) -> int:
        """Where the segment begins that holds `position`, as far as is known."""
        starts = (segment.start_offset for segment in self.segments.values())
        return max((start for start in starts if start <= position), default=0)


class _Known:
    """What is known of one partition in all stores."""

    def __init__(self, partition: TopicIdPartition) -> None:
        self.ledger = RemoteLogLedger(partition)
        self.origins: dict[UUID, StoreRef] = {}
        self.holdings: dict[StoreRef, _Holding] = {}
        self.state: tuple[UUID, tuple[EpochEntry, ...], int] | None = None
        """The youngest segment's id, the checkpoint beside it, and its oldest open transaction or its end."""

    def take(self, ref: StoreRef, sighting: Sighting, start_offset: int) -> None:
        holding = self.holdings[ref]
        holding.findings = sighting.findings
        holding.log_start_offset = max(holding.log_start_offset, sighting.log_start_offset)
        for segment in list(holding.segments.values()):
            if segment.start_offset >= start_offset and segment.segment_id.id not in sighting.listed:
                self._forget(holding, segment)
        for segment in sighting.described:
            enter_segment(self.ledger, segment)
            holding.segments[segment.segment_id.id] = segment
            self.origins[segment.segment_id.id] = ref

    def _forget(self, holding: _Holding, segment: RemoteLogSegmentMetadata) -> None:
        del holding.segments[segment.segment_id.id], self.origins[segment.segment_id.id]
        for state in (RemoteLogSegmentState.DELETE_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED):
            self.ledger.apply(RemoteLogSegmentMetadataUpdate(segment.segment_id, state, NOT_REPORTED, NOT_REPORTED))


class TierCatalog:
    """`refresh`, then look at what it gave until the next one. One caller at a time."""

    def __init__(self, find_stores: Callable[[], Awaitable[list[StoreRef]]], open_store: OpenStore) -> None:
        self._find_stores = find_stores
        self._open_store = open_store
        self._refs: list[StoreRef] = []
        self._known: dict[TopicIdPartition, _Known] = {}

    def store(self, ref: StoreRef) -> SegmentStore:
        return self._open_store(ref)

    async def has_any(self) -> bool:
        """Whether the stores of the last look have anything of any topic. RemoteStorageError, PluginError."""
        return any([await self.store(ref).partitions(lambda _: True) for ref in self._refs])

    async def refresh(
        self,
        wants: Callable[[str], bool],
        topic_ids: Mapping[str, UUID] | None = None,
        positions: Mapping[TopicPartition, int] | None = None,
    ) -> list[TieredPartition]:
        """The wanted partitions, by name; of several incarnations the one of `topic_ids`, or the one last written.
        What ends below `positions` is not looked for. RemoteStorageError, PluginError, CorruptFileError.
        """
        self._refs = self._refs or await self._find_stores()
        holders: dict[TopicIdPartition, list[StoreRef]] = {}
        for ref in self._refs:
            for partition in await self.store(ref).partitions(wants):
                if topic_ids is None or topic_ids.get(partition.topic, partition.topic_id) == partition.topic_id:
                    holders.setdefault(partition, []).append(ref)
        self._known = {partition: self._known.get(partition) or _Known(partition) for partition in sorted(holders)}
        looks = [
            partial(self._look_at, known, holders[partition], (positions or {}).get(partition.topic_partition, 0))
            for partition, known in self._known.items()
        ]
        return _latest_incarnations(await gather_limited(looks, PARTITIONS_AT_ONCE_MAX))

    async def _look_at(self, known: _Known, refs: Iterable[StoreRef], position: int) -> TieredPartition:
        for ref in refs:
            await self._list(known, ref, position)
        found = await self._as_it_is(known)
        if 0 < position < found.end_offset and found.pieces(position, found.end_offset)[1]:
            # What seems to be lacking may be in a segment of another leader, which begins below those that are known.
            for ref in refs:
                await self._list(known, ref, 0)
            found = await self._as_it_is(known)
        return found

    async def _list(self, known: _Known, ref: StoreRef, position: int) -> None:
        """Twice where something is damaged: it may be what was deleted, or came, while it was looked at."""
        holding = known.holdings.setdefault(ref, _Holding())
        start_offset = holding.listing_start(position)
        for _ in range(2):
            sighting = await self.store(ref).sight(known.ledger.partition, holding.segments.keys(), start_offset)
            known.take(ref, sighting, start_offset)
            if not any(finding.kind.is_damage for finding in sighting.findings):
                return

    async def _as_it_is(self, known: _Known) -> TieredPartition:
        ledger = known.ledger
        latest = youngest(ledger)
        findings = [finding for holding in known.holdings.values() for finding in holding.findings]
        damage = tuple(finding for finding in findings if finding.kind.is_damage)
        if latest is None:
            return TieredPartition(ledger.partition, ledger, known.origins, (), 0, 0, 0, damage)
        segment_id, end_offset = latest.segment_id.id, latest.end_offset + 1
        if known.state is None or known.state[0] != segment_id:
            store = self.store(known.origins[segment_id])
            of_segment = f"of segment {latest.segment_id}"
            epochs = await store.fetch_index(latest, IndexType.LEADER_EPOCH)
            checkpoint = decode_leader_epochs(epochs, name=f"leader epoch checkpoint {of_segment}")
            open_since = await first_open_offset(latest, store)
            known.state = segment_id, checkpoint, end_offset if open_since is None else min(end_offset, open_since)
        _, checkpoint, stable_offset = known.state
        lineage = history(latest, checkpoint)
        log_start = max(holding.log_start_offset for holding in known.holdings.values())
        readable = first_readable(ledger, lineage, end_offset)
        start = min(max(readable, log_start), end_offset)
        if readable <= log_start:
            damage = tuple(one for one in damage if one.start_offset is None or one.start_offset >= start)
        return TieredPartition(
            ledger.partition, ledger, known.origins, lineage, start, stable_offset, end_offset, damage
        )


def _latest_incarnations(found: Sequence[TieredPartition]) -> list[TieredPartition]:
    """Return each topic's partitions of its newest id: those of another id belong to another topic."""
    newest: dict[str, tuple[int, UUID]] = {}
    for partition in found:
        topic = partition.name.topic
        newest[topic] = max(newest.get(topic, (-2, UUID(int=0))), (_newest(partition), partition.partition.topic_id))
    latest = (one for one in found if newest[one.name.topic][1] == one.partition.topic_id)
    return sorted(latest, key=lambda one: one.name)


def _newest(partition: TieredPartition) -> int:
    return max((segment.max_timestamp_ms for segment in partition.ledger.finished()), default=-1)

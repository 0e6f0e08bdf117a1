"""What is known of a tier is brought up to date, not found out again"""

from __future__ import annotations

import random
import struct
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from tierfetch.pipeline.access.stores import StoreRef
from tierfetch.pipeline.layouts.kafka import KafkaLayout
from tierfetch.pipeline.planning.catalog import TierCatalog
from tierfetch.plugins.local import LocalTieredStorage
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import IndexType, ObjectRange
from tierfetch.remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata
from tierfetch.remote.survey import Sighting
from tierfetch.tests.fakes.random_tier import PARTITION, History, Segment, segments, write_kafka_tier

NAME = PARTITION.topic_partition


class CountingLayout(KafkaLayout):
    """Remembers what it was asked."""

    def __init__(self, root: Path) -> None:
        super().__init__(LocalTieredStorage(LocalTieredStorage.Config(dir=root)))
        self.sights: list[tuple[int, int, int]] = []
        self.indexes = 0

    async def sight(self, partition: TopicIdPartition, known: Collection[UUID] = (), start_offset: int = 0) -> Sighting:
        found = await super().sight(partition, known, start_offset)
        self.sights.append((start_offset, len(found.listed), len(found.described)))
        return found

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        self.indexes += 1
        return await super().fetch_index(metadata, index_type)


def copies(count: int) -> list[Segment]:
    """Segments of ten offsets each."""
    rng = random.Random(5)
    history = History().run([("plain", -1, 10)] * count, rng)
    return list(segments(history, list(range(count)), rng))


@pytest.fixture
def layout(tmp_path: Path) -> CountingLayout:
    return CountingLayout(tmp_path)


def catalog_of(layout: CountingLayout) -> TierCatalog:
    async def find() -> list[StoreRef]:
        return [StoreRef("there", "kafka")]

    return TierCatalog(find, lambda _: layout)


async def test_a_second_look_describes_only_what_is_new(tmp_path: Path, layout: CountingLayout) -> None:
    some = copies(8)
    write_kafka_tier(tmp_path, some[:5])
    catalog = catalog_of(layout)
    (first,) = await catalog.refresh(lambda _: True)
    assert (first.start_offset, first.end_offset) == (0, 50)
    (again,) = await catalog.refresh(lambda _: True)
    assert (again.start_offset, again.end_offset) == (0, 50)
    write_kafka_tier(tmp_path, some[5:])
    asked = layout.indexes
    (grown,) = await catalog.refresh(lambda _: True)
    assert grown.end_offset == 80
    assert layout.sights == [(0, 5, 5), (0, 5, 0), (0, 8, 3)]
    assert layout.indexes == asked + 2, "the checkpoint and the producers of the youngest"
    pieces, gaps = grown.pieces(0, 80)
    assert (len(pieces), gaps) == (8, [])


async def test_a_stream_lists_from_where_it_stands(tmp_path: Path, layout: CountingLayout) -> None:
    some = copies(8)
    write_kafka_tier(tmp_path, some[:6])
    catalog = catalog_of(layout)
    await catalog.refresh(lambda _: True)
    write_kafka_tier(tmp_path, some[6:])
    (grown,) = await catalog.refresh(lambda _: True, positions={NAME: 45})
    assert grown.end_offset == 80
    assert layout.sights[-1] == (40, 4, 2), "from the segment that holds the position"


async def test_a_new_leaders_segment_may_begin_below_where_a_stream_stands(
    tmp_path: Path, layout: CountingLayout
) -> None:
    rng = random.Random(5)
    history = History().run([("plain", -1, 10)] * 8, rng)
    some, others = list(segments(history, list(range(8)), rng)), list(segments(history, [2, 6], rng))
    write_kafka_tier(tmp_path, some[:5])
    catalog = catalog_of(layout)
    await catalog.refresh(lambda _: True)
    write_kafka_tier(tmp_path, others[1:])
    (grown,) = await catalog.refresh(lambda _: True, positions={NAME: 45})
    assert layout.sights[-2:] == [(40, 2, 1), (0, 7, 1)]
    pieces, gaps = grown.pieces(45, grown.end_offset)
    assert (pieces[-1].end_offset, gaps) == (80, [])


async def test_what_is_gone_is_forgotten(tmp_path: Path, layout: CountingLayout) -> None:
    some = copies(4)
    write_kafka_tier(tmp_path, some)
    catalog = catalog_of(layout)
    await catalog.refresh(lambda _: True)
    for path in sorted(tmp_path.glob("*/*/*"))[:5]:
        path.unlink()
    (left,) = await catalog.refresh(lambda _: True)
    assert (left.start_offset, left.end_offset) == (10, 40)
    write_kafka_tier(tmp_path, some[:1])
    (back,) = await catalog.refresh(lambda _: True)
    assert (back.start_offset, back.end_offset) == (0, 40)


async def test_what_is_deleted_while_it_is_looked_at_is_no_damage(
    tmp_path: Path, layout: CountingLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_kafka_tier(tmp_path, copies(3))
    original = LocalTieredStorage.read_objects

    async def read(self: LocalTieredStorage, ranges: Sequence[ObjectRange]) -> list[bytes | None]:
        for path in tmp_path.glob(f"*/*/{0:020d}-*"):
            path.unlink()
        return await original(self, ranges)

    monkeypatch.setattr(LocalTieredStorage, "read_objects", read)
    (left,) = await catalog_of(layout).refresh(lambda _: True)
    assert (left.start_offset, left.end_offset, left.damage) == (10, 30, ())


async def test_a_topic_that_is_gone_is_no_longer_there(tmp_path: Path, layout: CountingLayout) -> None:
    write_kafka_tier(tmp_path, copies(2))
    catalog = catalog_of(layout)
    assert len(await catalog.refresh(lambda _: True)) == 1
    assert await catalog.refresh(lambda topic: topic == "other") == []
    assert await catalog.refresh(lambda _: True, topic_ids={PARTITION.topic: UUID(int=1)}) == []


def of_another(segment: Segment, partition: TopicIdPartition, max_timestamp_ms: int) -> Segment:
    segment_id = RemoteLogSegmentId(partition, UUID(int=segment.metadata.segment_id.id.int ^ 1))
    return replace(
        segment,
        metadata=replace(segment.metadata, segment_id=segment_id),
        indexes={**segment.indexes, IndexType.TIMESTAMP: struct.pack(">qi", max_timestamp_ms, 0)},
    )


async def test_a_topic_made_anew_has_nothing_of_the_one_before(tmp_path: Path, layout: CountingLayout) -> None:
    """Which had more partitions, and more in them."""
    for number in range(3):
        old = TopicIdPartition(PARTITION.topic_id, PARTITION.topic, number)
        write_kafka_tier(tmp_path, [of_another(one, old, 1000) for one in copies(4)])
    new = UUID(int=0xBE)
    for number in range(2):
        write_kafka_tier(tmp_path, [of_another(copies(1)[0], TopicIdPartition(new, PARTITION.topic, number), 2000)])
    found = await catalog_of(layout).refresh(lambda _: True)
    assert [(one.partition.topic_id, one.name.partition, one.end_offset) for one in found] == [
        (new, 0, 10),
        (new, 1, 10),
    ]
    living = await catalog_of(layout).refresh(lambda _: True, topic_ids={PARTITION.topic: PARTITION.topic_id})
    assert [one.end_offset for one in living] == [40, 40, 40]

"""Where a stream stands in each partition, and how far its next batch goes. Pure.

    {"topic": {"0": next offset to read, "1": ..., "id": the topic's id}}

The id distinguishes a topic that was deleted and created again from the one that was read: its offsets
begin at 0 again. An offset that an older version noted has none, and is taken on trust.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol import TopicPartition
from .tier_splits import Bounds

Positions = dict[TopicPartition, int]
"""The next offset to read, of each partition."""
TopicIds = dict[str, str]
"""The topic ids by topic, as text."""
Extents = Mapping[TopicPartition, Bounds]
"""What is there of each partition."""
StreamOffset = dict[str, dict[str, int | str]]
_ID = "id"


def to_json(positions: Positions, topic_ids: TopicIds) -> StreamOffset:
    """Sorted: Spark compares the text."""
    out: StreamOffset = {}
    for name in sorted(positions):
        out.setdefault(name.topic, {})[str(name.partition)] = positions[name]
    for topic, of_partitions in out.items():
        if topic in topic_ids:
            of_partitions[_ID] = topic_ids[topic]
    return out


def from_json(offset: Mapping[str, Mapping[str, int | str]]) -> Positions:
    return {
        TopicPartition(topic, int(key)): int(value)
        for topic, of_partitions in offset.items()
        for key, value in of_partitions.items()
        if key != _ID
    }


def topic_ids_of(offset: Mapping[str, Mapping[str, int | str]]) -> TopicIds:
    return {topic: str(of_partitions[_ID]) for topic, of_partitions in offset.items() if _ID in of_partitions}


def advance(start: Positions, extents: Extents, offsets_max: int | None) -> Positions:
    """From `start` towards the ends of `extents`, never back; `offsets_max` in all, by what each partition has left. A
    partition that `start` does not know is noted at its begin, and read from there in the batch after: a restart then
    knows where that was, whatever has been deleted since.
    """
    at = {name: start.get(name, bounds.first_offset) for name, bounds in sorted(extents.items())}
    left = {name: max(0, extents[name].end_offset - at[name]) if name in start else 0 for name in at}
    total = sum(left.values())
    if offsets_max is None or total <= offsets_max:
        return {**start, **{name: at[name] + count for name, count in left.items()}}
    positions, budget = {**start, **at}, offsets_max
    for name, count in left.items():
        share = min(budget, -(-count * offsets_max // total))
        positions[name] += share
        budget -= share
    return positions

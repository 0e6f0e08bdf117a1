"""Where a stream stands in each partition, and how far its next batch goes. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ..protocol.topics import TopicPartition
from .tier_plan import Bounds

Positions = dict[TopicPartition, int]
"""The next offset to read, of each partition."""
Extents = Mapping[TopicPartition, Bounds]
"""What is there of each partition."""


def to_json(positions: Positions) -> dict[str, dict[str, int]]:
    """{"topic": {"0": 17}}, sorted: Spark compares the text."""
    out: dict[str, dict[str, int]] = {}
    for name in sorted(positions):
        out.setdefault(name.topic, {})[str(name.partition)] = positions[name]
    return out


def from_json(offset: Mapping[str, Mapping[str, int]]) -> Positions:
    return {
        TopicPartition(topic, int(partition)): position
        for topic, positions in offset.items()
        for partition, position in positions.items()
    }


def advance(start: Positions, extents: Extents, offsets_max: int | None) -> Positions:
    """From `start` towards the ends of `extents`, never back; `offsets_max` in all, by what each partition has left. A
    partition that `start` does not know begins where it begins.
    """
    at = {name: start.get(name, bounds.first_offset) for name, bounds in sorted(extents.items())}
    left = {name: max(0, extents[name].end_offset - position) for name, position in at.items()}
    total = sum(left.values())
    if offsets_max is None or total <= offsets_max:
        return {**start, **{name: at[name] + count for name, count in left.items()}}
    positions, budget = {**start, **at}, offsets_max
    for name, count in left.items():
        share = min(budget, -(-count * offsets_max // total))
        positions[name] += share
        budget -= share
    return positions

"""What changed in an image since the last copy: enough to bring a copy up to date without a walk over all."""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple
from uuid import UUID

from ...light_dataclass import dataclass


class ConfigResource(NamedTuple):
    """What a config belongs to; the name of a broker is its id, or empty for the default of all brokers."""

    resource_type: int
    name: str


@dataclass(slots=True)
class ImageDelta:
    """Names of what changed, not the values: those are in the image. A topic in `removed_topics` was deleted, one in
    `partitions` is there; a topic deleted and created again is in both, under its two ids.
    """

    partitions: dict[UUID, set[int]] = field(default_factory=dict)
    """Partitions that came, changed or went, by topic; an empty set for a topic that came without any."""
    removed_topics: dict[UUID, str] = field(default_factory=dict)
    brokers: set[int] = field(default_factory=set)
    configs: set[ConfigResource] = field(default_factory=set)
    features: set[str] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        return not (self.partitions or self.removed_topics or self.brokers or self.configs or self.features)

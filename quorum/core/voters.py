"""The voter set, and its history as the log records it (KIP-853).

A voter set is in effect from the moment its record is *appended*, committed or not, and a truncation that cuts the
record puts the set before it into effect again. The history therefore keeps, by offset, every set whose record may yet
be cut; what is at or below a snapshot is never cut.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property
from operator import attrgetter

from ...light_dataclass import dataclass
from .state import Endpoint, ReplicaKey

KRAFT_VERSION_STATIC = 0
"""Voters come from the configuration, without directory ids."""
KRAFT_VERSION_DYNAMIC = 1
"""Voters come from the log (KIP-853)."""


@dataclass(frozen=True, slots=True)
class VoterNode:
    """One voter: key, listeners (the first is the one that the quorum uses), and the kraft.versions that it speaks."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    min_kraft_version: int = KRAFT_VERSION_STATIC
    max_kraft_version: int = KRAFT_VERSION_DYNAMIC

    @property
    def id(self) -> int:
        return self.key.id

    @property
    def endpoint(self) -> Endpoint | None:
        return self.endpoints[0] if self.endpoints else None


@dataclass(frozen=True)
class VoterSet:
    """Voters in order of their ids; an id appears once."""

    nodes: tuple[VoterNode, ...] = ()

    def __post_init__(self) -> None:
        ids = [node.id for node in self.nodes]
        assert ids == sorted(set(ids)), f"voters {ids} are not in order, or one of them is there twice"

    @classmethod
    def of(cls, nodes: Iterable[VoterNode]) -> VoterSet:
        return cls(tuple(sorted(nodes, key=attrgetter("id"))))

    def __iter__(self) -> Iterator[VoterNode]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def by_id(self) -> dict[int, VoterNode]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def majority(self) -> int:
        """How many voters decide."""
        return len(self.nodes) // 2 + 1

    def contains(self, key: ReplicaKey) -> bool:
        """Whether this replica votes; where the set knows no directory id, its node id is enough."""
        node = self.by_id.get(key.id)
        return node is not None and (not node.key.has_directory or node.key.directory_id == key.directory_id)

    def with_voter(self, node: VoterNode) -> VoterSet:
        """Return the set with `node` added, or in place of the voter with the same id."""
        return VoterSet.of([other for other in self.nodes if other.id != node.id] + [node])

    def without_voter(self, voter_id: int) -> VoterSet:
        return VoterSet(tuple(node for node in self.nodes if node.id != voter_id))


@dataclass(frozen=True, slots=True)
class VotersAt:
    """The voter set, and the kraft.version, in effect from the record at `offset` on; -1: from the configuration."""

    offset: int
    voters: VoterSet
    kraft_version: int


@dataclass(frozen=True, slots=True)
class VoterHistory:
    """Voter sets by the offset of their record, never empty, in order."""

    entries: tuple[VotersAt, ...]

    @property
    def latest(self) -> VotersAt:
        return self.entries[-1]

    def appended(self, entry: VotersAt) -> VoterHistory:
        """Return the history with the set of a record just appended. Two records at one offset make one entry."""
        assert entry.offset >= self.latest.offset, (entry.offset, self.latest.offset)
        kept = self.entries[:-1] if entry.offset == self.latest.offset else self.entries
        return VoterHistory((*kept, entry))

    def truncated(self, end_offset: int) -> VoterHistory:
        """Without the records at or above `end_offset`."""
        if self.latest.offset < end_offset:
            return self
        kept = self.entries[: bisect_left(self.entries, end_offset, key=attrgetter("offset"))]
        assert kept, f"no voter set is left below {end_offset}, the first is at {self.entries[0].offset}"
        return VoterHistory(kept)

    def committed(self, high_watermark: int) -> VoterHistory:
        """Without sets that a later one below the high watermark has replaced: those never come back."""
        index = bisect_left(self.entries, high_watermark, key=attrgetter("offset"))
        return VoterHistory(self.entries[index - 1 :]) if index > 1 else self

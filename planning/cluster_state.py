"""What a cluster says of a plan's partitions at one moment, and what that means for each of them.

A reassignment has its target in the partition: `replicas` without `removing`. So whose move it is can be read off it:

    standing      the partition
    ------------  ----------------------------------------------------------------------------
    GONE          its topic no longer exists, or another topic has taken its name
    BEFORE        on the brokers of before the plan; in another order, if a reassignment was taken back
    MOVING        a reassignment is under way, to the plan's target
    DONE          at the plan's target, in either of its two orders
    RETURNING     a reassignment is under way, back to what it was before
    FOREIGN       anything else: another client has changed it, or is about to

Controller and brokers do not answer at the same moment: replicas that are target and before together, without a
reassignment, are one that has just begun or ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum, auto

from ..light_dataclass import dataclass
from .journal import Entry, Key


@dataclass(frozen=True, slots=True)
class PartitionState:
    """As Metadata and ListPartitionReassignments have it; `leader` -1: none."""

    topic_id: str
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def toward(self) -> tuple[int, ...]:
        """Where it is, or is about to be."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


@dataclass(frozen=True, slots=True)
class Placement:
    """The log directory of a replica, and that of its future log while it moves to another one (DescribeLogDirs)."""

    directory: str
    future: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a cluster says; all but `live`, `partitions` and `under_way` as far as it was asked for.

    `uploaded` has the next offsets to upload, of partitions whose leaders roll; `copied_bytes` what new replicas hold
    so far; `log_dirs` the log directories of brokers; `placements` where replicas are on them; `under_way` all
    reassignments of the cluster, whichever tool began them, with the brokers that each leaves, keeps or comes to;
    `throttles` the replication throttles of brokers, as leaders and as followers, None: none.
    """

    live: frozenset[int]
    partitions: Mapping[Key, PartitionState]
    uploaded: Mapping[Key, int] = field(default_factory=dict)
    copied_bytes: Mapping[Key, int] = field(default_factory=dict)
    under_way: Mapping[Key, frozenset[int]] = field(default_factory=dict)
    log_dirs: Mapping[int, frozenset[str]] = field(default_factory=dict)
    placements: Mapping[tuple[Key, int], Placement] = field(default_factory=dict)
    throttles: Mapping[int, tuple[int | None, int | None]] = field(default_factory=dict)


class Standing(Enum):
    GONE = auto()
    BEFORE = auto()
    MOVING = auto()
    DONE = auto()
    RETURNING = auto()
    FOREIGN = auto()


def standing(entry: Entry, topic_id: str, state: ClusterState) -> Standing:
    """See the module. Where target and before are the same, it is done."""
    found = state.partitions.get(entry.key)
    if found is None or found.topic_id != topic_id:
        return Standing.GONE
    toward = found.toward
    is_ours = toward in (entry.target, entry.final)
    if found.is_reassigning:
        if is_ours:
            return Standing.MOVING
        return Standing.RETURNING if toward == entry.before else Standing.FOREIGN
    if is_ours:
        return Standing.DONE
    if set(toward) == set(entry.before):
        return Standing.BEFORE
    if toward == _both(entry.target, entry.before):
        return Standing.MOVING
    return Standing.RETURNING if toward == _both(entry.before, entry.target) else Standing.FOREIGN


def _both(target: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The replicas while a reassignment to the target is under way."""
    return target + tuple(broker for broker in other if broker not in target)


def describe_foreign(entry: Entry, found: PartitionState) -> str:
    """What is there in place of what was expected."""
    if found.is_reassigning:
        return (
            f"{entry.name}: another plan moves it to {list(found.toward)}, this plan to {list(entry.target)}: wait for"
            " that, or cancel it"
        )
    return (
        f"{entry.name}: its replicas were changed meanwhile to {list(found.replicas)}; expected {list(entry.before)} or"
        f" {list(entry.target)}: make a new plan, or continue without it (--skip-changed)"
    )

"""Which partitions an event concerns, without a walk over all of them.

A broker that fails concerns the partitions that have it in their ISR, one that returns those without a leader, the
balancing timer those whose leader is not the preferred one. All follow from the registrations; `update` keeps them so.
The sets are dicts without values: their order is that of the changes, the same in every run.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from .registrations import NO_LEADER, PartitionKey, PartitionRegistration

_NOTHING: Final[dict[PartitionKey, None]] = {}


class PartitionIndexes:
    """Sets of partitions; do not change what is given out, and copy it before the next replay."""

    __slots__ = ("_in_isr", "leaderless", "not_preferred", "reassigning")

    def __init__(self) -> None:
        self._in_isr: dict[int, dict[PartitionKey, None]] = {}
        self.leaderless: dict[PartitionKey, None] = {}
        self.reassigning: dict[PartitionKey, None] = {}
        self.not_preferred: dict[PartitionKey, None] = {}

    def with_broker_in_isr(self, broker_id: int) -> Collection[PartitionKey]:
        return self._in_isr.get(broker_id, _NOTHING)

    def update(
        self, key: PartitionKey, before: PartitionRegistration | None, after: PartitionRegistration | None
    ) -> None:
        """`before` became `after`; None where there is no such partition."""
        isr_before = before.isr if before is not None else ()
        isr_after = after.isr if after is not None else ()
        if isr_before != isr_after:
            self._update_isr(key, isr_before, isr_after)
        _put(self.leaderless, key, after is not None and after.leader == NO_LEADER)
        _put(self.reassigning, key, after is not None and after.is_reassigning)
        _put(self.not_preferred, key, after is not None and after.leader != after.preferred_leader)

    def _update_isr(self, key: PartitionKey, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        for broker_id in before:
            if broker_id not in after:
                partitions = self._in_isr[broker_id]
                del partitions[key]
                if not partitions:
                    del self._in_isr[broker_id]
        for broker_id in after:
            if broker_id not in before:
                self._in_isr.setdefault(broker_id, {})[key] = None

    def as_sets(self) -> dict[str, object]:
        """Return the indexes as sets, for comparisons."""
        return {
            "in_isr": {broker_id: set(keys) for broker_id, keys in self._in_isr.items()},
            "leaderless": set(self.leaderless),
            "reassigning": set(self.reassigning),
            "not_preferred": set(self.not_preferred),
        }


def _put(keys: dict[PartitionKey, None], key: PartitionKey, is_member: bool) -> None:
    if is_member:
        keys[key] = None
    elif key in keys:
        del keys[key]

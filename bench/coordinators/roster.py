"""Which member of a group owns which partitions, and has read: when a group has begun, or recovered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain


class Roster:
    """The members that live, of one group, on partitions `0..partitions-1`."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._owned: dict[str, frozenset[int]] = {}
        self._read: dict[str, set[int]] = {}
        self._changed = asyncio.Event()

    def joins(self, member: str) -> None:
        """A member lives from now on, and owns nothing."""
        self._owned[member] = frozenset()
        self._read[member] = set()
        self._changed.set()

    def dies(self, member: str) -> frozenset[int]:
        """A member lives no longer; return what it owned."""
        self._changed.set()
        del self._read[member]
        return self._owned.pop(member)

    def owns(self, member: str, numbers: frozenset[int]) -> None:
        """Note what a member owns from now on; of a member that is dead it means nothing."""
        if member in self._owned:
            self._owned[member] = numbers
            self._read[member] &= numbers
            self._changed.set()

    def has_read(self, member: str, numbers: Iterable[int]) -> None:
        """A member has read records of these partitions."""
        if member in self._owned:
            self._read[member] |= self._owned[member] & frozenset(numbers)
            self._changed.set()

    @property
    def has_begun(self) -> bool:
        """Whether every member has read something."""
        return all(self._read.values())

    @property
    def is_served(self) -> bool:
        """Whether every partition is read by exactly one member, and none owns what it has not read."""
        owners = Counter(chain.from_iterable(self._owned.values()))
        is_whole = len(owners) == self._partitions and all(count == 1 for count in owners.values())
        return is_whole and all(self._read[member] >= numbers for member, numbers in self._owned.items())

    @property
    def is_even(self) -> bool:
        """Whether it is served, and no member has two partitions more than another."""
        counts = [len(numbers) for numbers in self._owned.values()]
        return self.is_served and max(counts) - min(counts) <= 1

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once a condition of the roster holds."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

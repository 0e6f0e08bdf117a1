"""Unclean elections that an operator asks for: each request permits one, until an answer says that it is over.

| the request                 | permits                                               |
|-----------------------------|-------------------------------------------------------|
| is under way                | elections of its partition                            |
| was answered                | none any more: what it did was committed before       |
| got no answer               | one: it may be carried out at any time, or never      |
"""

from __future__ import annotations

from collections import Counter

from ....controller.image.registrations import PartitionKey


class OperatorElections:
    """By partition."""

    def __init__(self) -> None:
        self._under_way = Counter[PartitionKey]()
        self._unanswered = Counter[PartitionKey]()

    def begins(self, key: PartitionKey) -> None:
        self._under_way[key] += 1

    def ends(self, key: PartitionKey, *, is_answered: bool) -> None:
        """A request has ended, for who made it."""
        assert self._under_way[key] > 0, key
        self._under_way[key] -= 1
        self._unanswered[key] += not is_answered

    def permits(self, key: PartitionKey) -> bool:
        """An election happened: whether a request permitted it."""
        if self._under_way[key]:
            return True
        is_permitted = self._unanswered[key] > 0
        self._unanswered[key] -= is_permitted
        return is_permitted

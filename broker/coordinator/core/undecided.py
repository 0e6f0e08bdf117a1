"""Values of open transactions, by producer, until their markers: what counts is what came last in the log.

    hold(producer, key, value)   waits for the producer's marker
    settle(key)                  a record outside of transactions came later: what waits for the key no longer counts
    end(producer)                its marker: if it commits, what came earlier than its values no longer counts either

A marker brings back no value that a later one has replaced: the log's cleaner keeps the record that is last, and what a
coordinator knows does not depend on whether it has run. Kafka's coordinators compare the offsets of the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class Undecided(Generic[KeyT, ValueT]):
    """See the module's docstring."""

    def __init__(self) -> None:
        self._held: dict[int, dict[KeyT, ValueT]] = {}
        self._producers: dict[KeyT, list[int]] = {}
        """Whose values wait for a key, in the order of the log."""

    def __contains__(self, key: KeyT) -> bool:
        """Return whether a transaction that is open may change the value of the key."""
        return key in self._producers

    def __bool__(self) -> bool:
        return bool(self._producers)

    def __iter__(self) -> Iterator[tuple[int, KeyT, ValueT]]:
        """Yield producer, key and value; those of one key in the order of the log."""
        for key, producer_ids in self._producers.items():
            for producer_id in producer_ids:
                yield producer_id, key, self._held[producer_id][key]

    def waited_for(self) -> list[KeyT]:
        """Return the keys that values wait for, as they are now."""
        return list(self._producers)

    def values_of(self, key: KeyT) -> list[ValueT]:
        """Return the values that wait for a key, in the order of the log."""
        return [self._held[producer_id][key] for producer_id in self._producers.get(key, ())]

    def clear(self) -> None:
        self._held.clear()
        self._producers.clear()

    def hold(self, producer_id: int, key: KeyT, value: ValueT) -> None:
        held = self._held.setdefault(producer_id, {})
        producer_ids = self._producers.setdefault(key, [])
        if held.pop(key, None) is not None:
            producer_ids.remove(producer_id)
        held[key] = value
        producer_ids.append(producer_id)

    def settle(self, key: KeyT) -> None:
        for producer_id in self._producers.pop(key, ()):
            self._drop(producer_id, key)

    def end(self, producer_id: int, *, is_committed: bool) -> dict[KeyT, ValueT]:
        """Return what counts from now on, in the order of the log."""
        held = self._held.pop(producer_id, {})
        for key in held:
            producer_ids = self._producers[key]
            place = producer_ids.index(producer_id)
            if is_committed:
                for earlier in producer_ids[:place]:
                    self._drop(earlier, key)
            left = producer_ids[place + 1 :] if is_committed else [each for each in producer_ids if each != producer_id]
            if left:
                self._producers[key] = left
            else:
                del self._producers[key]
        return held if is_committed else {}

    def _drop(self, producer_id: int, key: KeyT) -> None:
        held = self._held[producer_id]
        del held[key]
        if not held:
            del self._held[producer_id]

"""A bounded map that evicts the least recently used; the bound is in bytes, as the caller counts them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ByteLru(Generic[K, V]):
    """`make_room`, then `add`: what is evicted comes back to the caller, who may have to release it."""

    def __init__(self, bytes_max: int) -> None:
        assert bytes_max >= 0, bytes_max
        self._bytes_max = bytes_max
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def fits(self, size: int) -> bool:
        """Whether a value of this size may be added at all."""
        return size <= self._bytes_max

    def get(self, key: K) -> V | None:
        """The value, now the one used last."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def peek(self, key: K) -> V | None:
        """The value; does not count as a use."""
        return self._entries[key][0] if key in self._entries else None

    def pop(self, key: K) -> V | None:
        if key not in self._entries:
            return None
        value, size = self._entries.pop(key)
        self._size_bytes -= size
        return value

    def make_room(self, size: int) -> list[V]:
        """Evict until `size` more bytes fit; what was evicted, least recently used first."""
        assert self.fits(size), (size, self._bytes_max)
        evicted = []
        while self._size_bytes + size > self._bytes_max:
            _, (value, freed) = self._entries.popitem(last=False)
            self._size_bytes -= freed
            evicted.append(value)
        return evicted

    def add(self, key: K, value: V, size: int) -> None:
        assert key not in self._entries, key
        assert self._size_bytes + size <= self._bytes_max, (self._size_bytes, size, self._bytes_max)
        self._entries[key] = value, size
        self._size_bytes += size

"""What a log directory takes while its disk fills: less and less, before it is full, so that all else continues.

| usable bytes                     | clients' records | replicas | the metadata log, checkpoints, internal topics |
|----------------------------------|------------------|----------|------------------------------------------------|
| `min_bytes` and more             | yes              | yes      | yes                                            |
| below `min_bytes`                | refused          | yes      | yes                                            |
| below half of it, `keep_bytes`   | refused          | not      | yes                                            |
|                                  |                  | fetched  |                                                |

A full disk stops what frees it: retention writes checkpoints, the tier wants its metadata, consumers commit offsets,
and a controller that cannot write its metadata log ends. So each of these marks keeps room for what is right of it. A
file of reserved bytes, to be removed when a write fails, would not: the first writer has the room that comes free.

Clients' records are accepted again a quarter above their mark, replicas at twice theirs: a directory must not change
its mind with each segment that is deleted.

What is written between two measurements is counted when it is accepted (`begin_write`), before it is on the disk, so
that what is accepted at the same time finds the room already taken: a mark is passed by one append at most. A
measurement may or may not have seen what was written while it was taken, or was under way when it began: all of that
is subtracted from it (`mark`).
"""

from __future__ import annotations

from ...light_dataclass import dataclass


@dataclass(slots=True)
class FreeSpace:
    """What is known of the disk of one directory. `min_bytes` 0: nothing is ever refused."""

    min_bytes: int
    usable_bytes: int | None = None
    """The bytes last measured, less what was accepted since; None before that."""
    accepts_clients: bool = True
    accepts_replicas: bool = True
    _begun_bytes: int = 0
    """The bytes of all writes that were ever accepted."""
    _ended_bytes: int = 0
    """The bytes of those that have ended."""

    @property
    def resume_bytes(self) -> int:
        return self.min_bytes + self.min_bytes // 4

    @property
    def keep_bytes(self) -> int:
        """What replicas leave free."""
        return self.min_bytes // 2

    @property
    def mark(self) -> int:
        """A value to be taken when a measurement begins, for `measured`."""
        return self._ended_bytes

    def measured(self, usable_bytes: int, mark: int) -> bool:
        """Take a measurement that began at `mark`; return whether anything else is accepted from now on."""
        return self._is_changed_by(max(0, usable_bytes - (self._begun_bytes - mark)))

    def begin_write(self, size_bytes: int) -> bool:
        """Count an append that was accepted; return as `measured` does. `end_write` must follow."""
        self._begun_bytes += size_bytes
        return self.usable_bytes is not None and self._is_changed_by(max(0, self.usable_bytes - size_bytes))

    def end_write(self, size_bytes: int) -> None:
        """Note that the append has ended: a measurement that begins from now on sees it."""
        self._ended_bytes += size_bytes

    def has_room_for(self, size_bytes: int) -> bool:
        """Return whether clients' records would still be accepted after a write of that size."""
        if self.usable_bytes is None or not self.min_bytes:
            return True
        return self.accepts_clients and self.usable_bytes - size_bytes >= self.min_bytes

    def _is_changed_by(self, usable_bytes: int) -> bool:
        self.usable_bytes = usable_bytes
        before = self.accepts_clients, self.accepts_replicas
        self.accepts_clients = usable_bytes >= (self.min_bytes if self.accepts_clients else self.resume_bytes)
        self.accepts_replicas = usable_bytes >= (self.keep_bytes if self.accepts_replicas else 2 * self.keep_bytes)
        return before != (self.accepts_clients, self.accepts_replicas)

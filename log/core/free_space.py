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
its mind with each segment that is deleted. What is written between two measurements is counted (`written`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class FreeSpace:
    """What is known of the disk of one directory. `min_bytes` 0: nothing is ever refused."""

    min_bytes: int
    usable_bytes: int | None = None
    """As last measured, less what was written since; None before that."""
    accepts_clients: bool = True
    accepts_replicas: bool = True

    @property
    def resume_bytes(self) -> int:
        return self.min_bytes + self.min_bytes // 4

    @property
    def keep_bytes(self) -> int:
        """What replicas leave free."""
        return self.min_bytes // 2

    def measured(self, usable_bytes: int) -> bool:
        """Take a measurement; return whether anything else is accepted from now on."""
        self.usable_bytes = usable_bytes
        before = self.accepts_clients, self.accepts_replicas
        self.accepts_clients = usable_bytes >= (self.min_bytes if self.accepts_clients else self.resume_bytes)
        self.accepts_replicas = usable_bytes >= (self.keep_bytes if self.accepts_replicas else 2 * self.keep_bytes)
        return before != (self.accepts_clients, self.accepts_replicas)

    def written(self, size_bytes: int) -> bool:
        """Count what was appended since the measurement; return as `measured` does."""
        return self.usable_bytes is not None and self.measured(max(0, self.usable_bytes - size_bytes))

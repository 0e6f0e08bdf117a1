"""When a log directory takes no more of what clients produce: before its disk is full, so that all else continues.

    ACCEPTING --usable below `min_bytes`--> FULL --usable at or above `min_bytes` and a quarter--> ACCEPTING

A full disk stops what frees it: retention writes checkpoints, the tier wants its metadata, consumers commit offsets.
So clients' records are refused while there is room for these. The gap between the two marks keeps a directory from
changing its mind with each segment that is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class FreeSpace:
    """What is known of the disk of one directory. `min_bytes` 0: clients' records are never refused."""

    min_bytes: int
    usable_bytes: int | None = None
    """As last measured; None before that."""
    accepts_clients: bool = True

    @property
    def resume_bytes(self) -> int:
        return self.min_bytes + self.min_bytes // 4

    def measured(self, usable_bytes: int) -> bool:
        """Take a measurement; return whether `accepts_clients` has changed."""
        self.usable_bytes = usable_bytes
        needed = self.min_bytes if self.accepts_clients else self.resume_bytes
        accepts = usable_bytes >= needed
        has_changed, self.accepts_clients = accepts != self.accepts_clients, accepts
        return has_changed

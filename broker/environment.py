"""What a node takes from the machine it runs on: the seams at which a simulation takes the machine's place.

The event loop is not among them: whatever runs uses the loop it runs on.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from ..light_dataclass import dataclass
from ..log.disk import Disk, OsDisk, lock_directory
from ..log.keeper import HeldLock
from ..remote import RemoteStorageManager, load_remote_storage
from .cluster.view import ClusterView
from .core.write_rules import IsOngoing
from .share.persister import LeaderPersister

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class NodeDisk(Disk, Protocol):
    """A disk that the node closes; `queue_depth` counts calls that wait or run."""

    @property
    def queue_depth(self) -> int: ...

    async def close(self) -> None: ...


def _system_random() -> random.Random:
    return random.Random(uuid4().int)


def _load_remote_storage(name: str, config: Mapping[str, str], key_prefix: str) -> RemoteStorageManager:
    return load_remote_storage(name, config, key_prefix=key_prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEnvironment:
    """The real machine by default. Chance comes from `rng` alone, time of day from `now_ms`.

    `open_remote_storage(plugin name, configuration, key prefix for messages)` raises PluginError. A node without a
    `cluster_view` makes its own from its configuration.
    """

    disk: NodeDisk = field(default_factory=OsDisk)
    rng: random.Random = field(default_factory=_system_random)
    now_ms: Callable[[], int] = wall_clock_ms
    lock_directory: Callable[[Path], HeldLock] = lock_directory
    open_remote_storage: Callable[[str, Mapping[str, str], str], RemoteStorageManager] = _load_remote_storage
    may_start_processes: bool = False
    """Whether this process is the node's own: then copies to the tier may run in a process beside it."""
    cluster_view: ClusterView | None = None
    is_ongoing: IsOngoing | None = None
    """Verifies transactions (KIP-890) in the place of their coordinators; None where these do."""
    share_persister: LeaderPersister | None = None
    """Keeps the state of share groups in the place of their coordinators, and turns share groups on; None where these
    do, once `share.version` is 1."""
    process_metrics: Callable[[], Iterable[Metric]] | None = None
    """Gives the metrics of the process; None: those that the operating system counts of this one."""

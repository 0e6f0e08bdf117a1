"""Faults of disks and of the store that lie, rot or hang: drawn beside the schedule of a seed, in a share of the seeds.

What must hold meanwhile, and who judges it:

| kind             | allowed                                      | not allowed                                        |
|------------------|----------------------------------------------|----------------------------------------------------|
| disk errors      | a log fails, and is reopened once the        | an acknowledged record is lost; a node gives up    |
|                  | disk takes files; a directory goes offline;  | whose disk does what it should                     |
|                  | a node without any ends, and is restarted    |                                                    |
| failed fsync     | the same                                     | what it was to write counts as flushed, because a  |
|                  |                                              | later one succeeded                                |
| lost pages       | the same; records of which the last in-sync  | a replica that lacks what it had acknowledged is   |
|                  | copy is lost                                 | in an ISR, with others, once it serves or fetches  |
| open files       | as of disk errors                            | the same; descriptors that are left open           |
| hung disk        | sessions end, others are elected             | the event loop waits with the disk                 |
| bit rot          | reads of clients, followers, uploads fail    | a damaged batch is appended, uploaded, believed    |
| rotten downloads | reads fail; a bootstrap begins again         | a replica adopts what was never there              |
| late listings    | what is deleted is there for longer          | what a listing does not show is deleted, or is     |
|                  |                                              | left for ever                                      |

A host has faults of one kind of its own only, and calls that fail are no fsyncs of open files: nothing helps a log
whose disk takes neither an fsync nor the mark that one has failed, if its process ends before it does. Full disks, slow
ones and clocks come with the schedule.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Final

from .schedule import Fault, FaultKind

SHARE: Final = 0.5
"""The share of seeds that have any."""
EARLIEST_MS: Final = 2_000
"""Everything has started by then."""
OF_A_HOST: Final = (FaultKind.DISK_ERRORS, FaultKind.FAILED_FSYNC, FaultKind.HUNG_DISK, FaultKind.BIT_ROT)
OF_THE_STORE: Final = (FaultKind.ROTTEN_DOWNLOADS, FaultKind.LATE_LISTINGS)
KIND_SHARE: Final = 0.5
LOST_PAGES_SHARE: Final = 0.4
"""Of the seeds with faults of the hardware; on a host that has no other."""
TIMES_MAX: Final = 3
OPEN_FILES_SHARE: Final = 0.06
_LONGEST_MS: Mapping[FaultKind, int] = {
    FaultKind.HUNG_DISK: 4_000,
    FaultKind.LATE_LISTINGS: 12_000,
    FaultKind.BIT_ROT: 8_000,
}
_VALUES: Mapping[FaultKind, Sequence[float]] = {
    FaultKind.DISK_ERRORS: (0.02, 0.3, 1.0),
    FaultKind.FAILED_FSYNC: (0.1, 0.5, 1.0),
    FaultKind.LOST_PAGES: (0.3, 1.0),
    FaultKind.OPEN_FILES: (0.3, 1.0),
    FaultKind.ROTTEN_DOWNLOADS: (0.1, 0.5),
    FaultKind.LATE_LISTINGS: (1, 10, 60),
}


def hardware(rng: Random, nodes: Sequence[str], safety_ms: int, *, has_store: bool) -> list[Fault]:
    """The faults of a seed, if it has any."""
    if rng.random() >= SHARE:
        return []
    hosts = rng.sample(nodes, min(len(OF_A_HOST), len(nodes)))
    kinds = OF_A_HOST if len(hosts) == len(OF_A_HOST) else rng.sample(OF_A_HOST, len(hosts))
    chosen: list[tuple[FaultKind, tuple[str, ...]]] = [
        (kind, (host,)) for kind, host in zip(kinds, hosts, strict=True) if rng.random() < KIND_SHARE
    ]
    if has_store:
        chosen += [(kind, ()) for kind in OF_THE_STORE if rng.random() < KIND_SHARE]
    faults = [
        _fault(rng, kind, targets, safety_ms) for kind, targets in chosen for _ in range(rng.randint(1, TIMES_MAX))
    ]
    taken = {target for fault in faults for target in fault.targets}
    free = [node for node in nodes if node not in taken]
    if has_store and free and rng.random() < LOST_PAGES_SHARE:
        host = rng.choice(free)
        faults += [_fault(rng, FaultKind.LOST_PAGES, (host,), safety_ms) for _ in range(rng.randint(1, TIMES_MAX))]
    return faults


def open_files(rng: Random, nodes: Sequence[str], ill: Collection[str], safety_ms: int) -> list[Fault]:
    """The times at which a process has no descriptor left, if a seed has any: of a node that is not `ill` otherwise."""
    well = [node for node in nodes if node not in ill]
    if rng.random() >= OPEN_FILES_SHARE or not well:
        return []
    return [_fault(rng, FaultKind.OPEN_FILES, (rng.choice(well),), safety_ms) for _ in range(rng.randint(1, TIMES_MAX))]


def _fault(rng: Random, kind: FaultKind, targets: tuple[str, ...], safety_ms: int) -> Fault:
    at_ms = rng.randint(EARLIEST_MS, safety_ms - 1_000)
    duration_ms = min(safety_ms - at_ms, rng.randint(300, _LONGEST_MS.get(kind, 3_000)))
    return Fault(at_ms, kind, targets, duration_ms, rng.choice(_VALUES.get(kind, (0,))))

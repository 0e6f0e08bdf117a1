"""Faults of one log directory of several, and moves between them: drawn for the seeds whose brokers have several.

| kind             | allowed                                      | not allowed                                        |
|------------------|----------------------------------------------|----------------------------------------------------|
| directory fails  | it goes offline until the next start; its    | a replica of another directory leaves an ISR for   |
|                  | replicas leave their ISRs, others lead       | it; a new log takes the place of one in it         |
| directory hangs  | the same, once a call has not returned for   | a call on another directory waits for it           |
|                  | `log.dir.hang.timeout.ms`                    |                                                    |
| directory fills  | produce is refused to its partitions, its    | the same                                           |
|                  | replicas follow no leader                    |                                                    |
| directory lost   | its replicas are lost, as by a wipe          | a replica of another directory is lost             |

An administrator moves replicas of any broker at any time, and of the one that is ill shortly before each of its faults,
so that copies are under way, and while it lasts. Each replica ends where it was moved to, or stays whole where it was
(`judges.directory_moves`).

The second directory is hit more often: without the first, which has files of the broker itself, it does not start. It
is the only one to be lost: with the first, deletions from the tier that were noted there would be.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import Final

from .schedule import Fault, FaultKind

EARLIEST_MS: Final = 2_000
"""Everything has started by then."""
TIMES_MAX: Final = 4
FIRST_SHARE: Final = 0.25
MOVES_MAX: Final = 4
"""Moves at any time; those about a fault come beside them."""
BEFORE_MS: Final = 1_200
KINDS: Final = (
    FaultKind.DIRECTORY_FAILS,
    FaultKind.DIRECTORY_HANGS,
    FaultKind.DIRECTORY_FILLS,
    FaultKind.DIRECTORY_LOST,
)


def sick_directories(rng: Random, brokers: Sequence[str], taken: Collection[str], safety_ms: int) -> list[Fault]:
    """Return the faults of a seed: of one broker of which no other hardware is ill, one kind after the other."""
    free = [broker for broker in brokers if broker not in taken]
    if not free:
        return []
    host = rng.choice(free)
    return [_fault(rng, host, safety_ms) for _ in range(rng.randint(1, TIMES_MAX))]


def _fault(rng: Random, host: str, safety_ms: int) -> Fault:
    kind = rng.choice(KINDS)
    number = 1 if kind is not FaultKind.DIRECTORY_LOST and rng.random() < FIRST_SHARE else 2
    at_ms = rng.randint(EARLIEST_MS, safety_ms - 1_000)
    return Fault(at_ms, kind, (host,), min(safety_ms - at_ms, rng.randint(500, 5_000)), number)


def directory_moves(rng: Random, brokers: Sequence[str], ill: Sequence[Fault], safety_ms: int) -> list[Fault]:
    """Return the moves of a seed; `ill` are the faults of its directories."""
    latest_ms = safety_ms - 1_000
    moments = [(rng.randint(EARLIEST_MS, latest_ms), rng.choice(brokers)) for _ in range(rng.randint(1, MOVES_MAX))]
    for fault in ill:
        around = rng.randint(fault.at_ms - BEFORE_MS, fault.at_ms), rng.randint(fault.at_ms, fault.end_ms)
        moments += [(min(max(at_ms, EARLIEST_MS), latest_ms), fault.targets[0]) for at_ms in around]
    return [Fault(at_ms, FaultKind.MOVE_DIRECTORY, (host,)) for at_ms, host in moments]

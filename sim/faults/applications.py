"""It draws the faults of a run of an application: everything that a cluster survives without loss, and what hosts of an
application go through.

Nothing acknowledged is lost under these, so what an application misses in the end it has lost itself: topics have three
replicas, of which two must have a record, and each flushes before it answers. Hence no kind that loses what was
flushed: no wiped disk, no failed fsync, no corruption. `kinds_named` refuses them.

Hosts of the application are nodes like all others, and get a few faults of their own, so that most seeds hit them: they
are killed, lose power, are asked to stop, and pause, also for longer than a group waits for its members.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from random import Random
from typing import Final

from ...protocol import OperatorError
from ..machine.chance import Chance
from .schedule import Fault, FaultKind, Schedule, Targets, generate
from .table import Cast, beside

_OF_CLUSTER: Final = frozenset(
    {
        FaultKind.PROCESS_CRASH,
        FaultKind.MACHINE_CRASH,
        FaultKind.POWER_FAILURE,
        FaultKind.PAUSE,
        FaultKind.PARTITION,
        FaultKind.ONE_WAY,
        FaultKind.SLOW_LINK,
        FaultKind.REORDERING,
        FaultKind.CLOCK_DRIFT,
        FaultKind.STORE_OUTAGE,
        FaultKind.STORE_ERRORS,
        FaultKind.LOST_REPLIES,
        FaultKind.HUNG_UPLOADS,
        FaultKind.SLOW_DISK,
        FaultKind.MOVE_LEADER,
        FaultKind.ISOLATE_LEADER,
    }
)
_OF_TABLE: Final = frozenset(
    {
        FaultKind.RESETS,
        FaultKind.REFUSED,
        FaultKind.SLOW_STORE,
        FaultKind.THROTTLED_STORE,
        FaultKind.RESTART,
    }
)
KINDS: Final = _OF_CLUSTER | _OF_TABLE
OWN_KINDS: Final = (
    (FaultKind.PROCESS_CRASH, (200, 3_000)),
    (FaultKind.PROCESS_CRASH, (200, 12_000)),
    (FaultKind.MACHINE_CRASH, (500, 8_000)),
    (FaultKind.PAUSE, (500, 5_000)),
    (FaultKind.PAUSE, (8_000, 20_000)),
    (FaultKind.RESTART, (0, 0)),
)
"""What hosts of the application go through, and for how long, in ms."""
OWN_TIMES_MAX: Final = 3
"""The faults of one host of the application."""
GAPS_MS: Final = (2_000, 4_000, 8_000)
"""The mean time between two faults of the cluster: applications come to do something in between."""
EARLIEST_MS: Final = 1_000


class UnsafeFaultError(OperatorError, ValueError):
    """A kind of fault that does not exist, or that loses what was acknowledged."""


def kinds_named(names: Collection[str]) -> frozenset[FaultKind]:
    """Return the kinds of these names; raise UnsafeFaultError for others."""
    unknown = sorted(set(map(str, names)) - set(map(str, KINDS)))
    if unknown:
        raise UnsafeFaultError(
            f"faults {unknown} are none that an application can be tested under; these are: {sorted(map(str, KINDS))}"
        )
    return frozenset(FaultKind(str(name)) for name in names)


def of_application(
    chance: Chance,
    *,
    nodes: Sequence[str],
    brokers: Sequence[str],
    own: Sequence[str],
    client: str,
    kinds: frozenset[FaultKind],
    safety_ms: int,
) -> Schedule:
    """Draw a schedule of these kinds. `own` of the nodes run the application; `client` is only cut off."""
    targets = Targets(
        nodes=tuple(nodes),
        wiped=(),
        clients=(client,),
        has_store=True,
        has_quorum=True,
        kinds=kinds & _OF_CLUSTER,
        gaps_ms=GAPS_MS,
    )
    cast = Cast(nodes=nodes, brokers=brokers, clients=(client,), has_store=True, kinds=kinds)
    drawn = generate(chance("faults"), targets, safety_ms) if kinds & _OF_CLUSTER else Schedule(safety_ms)
    more = [*beside(chance("table"), cast, safety_ms), *_own(chance("own"), own, kinds, safety_ms)]
    return drawn.with_more(more)


def _own(rng: Random, hosts: Sequence[str], kinds: frozenset[FaultKind], safety_ms: int) -> Iterator[Fault]:
    possible = [row for row in OWN_KINDS if row[0] in kinds]
    for host in hosts if possible else ():
        for _ in range(rng.randint(0, OWN_TIMES_MAX)):
            kind, (shortest, longest) = rng.choice(possible)
            at_ms = rng.randint(EARLIEST_MS, safety_ms - EARLIEST_MS)
            yield Fault(at_ms, kind, (host,), min(safety_ms - at_ms, rng.randint(shortest, longest)))

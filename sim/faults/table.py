"""Faults of connections and of the tier, strangers, and what operators do: drawn beside the schedule of a seed.

A new kind is a row of `ROWS`, and what the injector or the scenario does when it begins. A share of the seeds has some
of the kinds; each comes up to `times_max` times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final

from ...light_dataclass import dataclass
from .schedule import Fault, FaultKind

SHARE: Final = 0.4
"""The share of seeds that have any."""
KIND_SHARE: Final = 0.3
"""The share of those seeds that have a given kind."""
EARLIEST_MS: Final = 2_000
"""Everything has started by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """The hosts that a row may hit. `has_store`: there is a tier, and there are topics."""

    nodes: Sequence[str]
    brokers: Sequence[str] = ()
    clients: Sequence[str] = ()
    has_store: bool = False
    kinds: frozenset[FaultKind] | None = None
    """The kinds that may be drawn; None: all."""


Choice = Callable[[Random, Cast], tuple[str, ...]]


def _nobody(rng: Random, cast: Cast) -> tuple[str, ...]:
    return ()


def _node(rng: Random, cast: Cast) -> tuple[str, ...]:
    return (rng.choice(cast.nodes),)


def _broker(rng: Random, cast: Cast) -> tuple[str, ...]:
    return (rng.choice(cast.brokers),)


def _anyone(rng: Random, cast: Cast) -> tuple[str, ...]:
    return (rng.choice([*cast.nodes, *cast.clients]),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How a kind is drawn. A duration of 0: it happens at once; with `down_ms` in the middle of so long a time in which
    its target is down.
    """

    kind: FaultKind
    targets: Choice = _nobody
    duration_ms: tuple[int, int] = (0, 0)
    values: Sequence[float] = (0,)
    times_max: int = 2
    down_ms: tuple[int, int] | None = None
    needs_store: bool = True
    """Whether it is of the cluster scenario only."""


ROWS: Final[Sequence[Row]] = (
    Row(
        kind=FaultKind.RESETS,
        targets=_anyone,
        duration_ms=(500, 5_000),
        values=(3, 15),
        times_max=3,
        needs_store=False,
    ),
    Row(kind=FaultKind.REFUSED, targets=_node, duration_ms=(500, 4_000), needs_store=False),
    Row(kind=FaultKind.IMPOSTOR, targets=_broker),
    Row(kind=FaultKind.QUORUM_GHOST, times_max=3, needs_store=False),
    Row(kind=FaultKind.SLOW_STORE, duration_ms=(3_000, 9_000), values=(0.3, 0.7, 1.5), times_max=1),
    Row(kind=FaultKind.THROTTLED_STORE, duration_ms=(1_000, 8_000), values=(5, 30)),
    Row(kind=FaultKind.HALF_ANSWERS, duration_ms=(1_000, 8_000), values=(0.1, 0.5)),
    Row(kind=FaultKind.NO_BUCKET, duration_ms=(2_000, 10_000), times_max=1),
    Row(kind=FaultKind.RESTART, targets=_node, times_max=3),
    Row(kind=FaultKind.DELETE_RECORDS, times_max=4),
    Row(kind=FaultKind.MIN_ISR),
    Row(kind=FaultKind.UNREGISTER, targets=_broker, down_ms=(4_000, 6_000)),
    Row(kind=FaultKind.QUOTA, times_max=3),
)


def beside(rng: Random, cast: Cast, safety_ms: int) -> list[Fault]:
    """Return the faults of a seed, if it has any."""
    if rng.random() >= SHARE:
        return []
    possible = [row for row in ROWS if cast.kinds is None or row.kind in cast.kinds]
    rows = [row for row in possible if (cast.has_store or not row.needs_store) and rng.random() < KIND_SHARE]
    return [
        fault
        for row in rows
        for _ in range(rng.randint(1, row.times_max))
        for fault in _faults(rng, row, cast, safety_ms)
    ]


def _faults(rng: Random, row: Row, cast: Cast, safety_ms: int) -> Iterator[Fault]:
    at_ms = rng.randint(EARLIEST_MS, safety_ms - 1_000)
    duration_ms = min(safety_ms - at_ms, rng.randint(*row.duration_ms))
    targets = row.targets(rng, cast)
    if row.down_ms is not None:
        down_ms = rng.randint(*row.down_ms)
        at_ms = min(at_ms, safety_ms - down_ms)
        yield Fault(at_ms, FaultKind.PROCESS_CRASH, targets, down_ms)
        at_ms += down_ms // 2
    yield Fault(at_ms, row.kind, targets, duration_ms, rng.choice(row.values))

"""Where each 10 ms of a replacement goes: the replicas by state, and the CPU time of the processes. Pure.

    state                        from                                     until
    ---------------------------  ---------------------------------------  ---------------------------------------------
    the process starts           just before its process                  it asks the controllers
    reads the metadata           -                                        it has the cluster's metadata
    waits for its turn           -                                        first question to the leader for this replica
    asks where to begin          -                                        the answers are there
    rebuilds state from the tier -                                        where it continues is settled
    fetches                      -                                        the leader has it in the ISR
    in the ISR                   -                                        the end

A state begins where the one before it ends, so at each moment all replicas are counted, once. What no line says is `not
seen`, up to the next instant that one says. Instants are those of `bench.model.traces`, of both systems.

Apache Kafka's fetcher rebuilds one replica after the other, on the thread that fetches, and says only when each is
done: its time for that includes the wait for the others. Ours rebuilds several at once, and counts the seconds of each;
those end when it is settled where the replica goes on, so that one question that follows is counted with them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Final

from ..model.breakdown import Span, spans
from ..model.traces import Said, trace_of

STEP_S: Final = 0.01


class State(StrEnum):
    """See the module; in the order in which a replica passes through them."""

    STARTS = "the process starts"
    METADATA = "reads the metadata"
    WAITS = "waits for its turn"
    ASKS = "asks where to begin"
    REBUILDS = "rebuilds state from the tier"
    FETCHES = "fetches"
    IN_ISR = "in the ISR"
    NOT_SEEN = "not seen"


Life = Sequence[Span[State]]
"""What one replica went through, without a gap."""


def life_of(said: Said, number: int, joined_s: float | None, began_s: float, ended_s: float) -> Life:
    """Return what the follower said of a replica, and the leader of its ISR; None: it was not in the ISR by the end."""
    trace = trace_of(said, number, joined_s=ended_s if joined_s is None else joined_s)
    settled_s, rebuilt_s = trace.settled_s, said.rebuilt_s.get(number)
    asked_s = settled_s if settled_s is None or rebuilt_s is not None else settled_s - (trace.tier_s or 0.0)
    steps = [
        (State.STARTS, trace.up_s),
        (State.METADATA, trace.replayed_s),
        (State.WAITS, trace.asked_s),
        (State.ASKS, asked_s),
        (State.REBUILDS, settled_s if rebuilt_s is None else rebuilt_s),
        (State.FETCHES, ended_s if joined_s is None else joined_s),
        (State.IN_ISR, ended_s),
    ]
    return [span for span in spans(steps, began_s, ended_s, State.NOT_SEEN) if span.until_s > span.from_s]


def counts(lives: Iterable[Life], began_s: float, ended_s: float) -> dict[State, list[int]]:
    """Return how many replicas are in which state in the middle of each step; none where no replica ever was in it."""
    steps = steps_of(began_s, ended_s)
    changes = {state: [0] * (steps + 1) for state in State}

    def at(moment_s: float) -> int:
        return min(steps, max(0, math.ceil((moment_s - began_s) / STEP_S - 0.5)))

    for life in lives:
        for number, span in enumerate(life):
            change = changes[span.step]
            change[0 if number == 0 else at(span.from_s)] += 1
            change[steps if number == len(life) - 1 else at(span.until_s)] -= 1
    return {state: list(accumulate(of[:-1])) for state, of in changes.items() if any(of)}


def steps_of(began_s: float, ended_s: float) -> int:
    """Return how many steps there are; the last one may be shorter."""
    return max(1, math.ceil(round((ended_s - began_s) / STEP_S, 6)))


def cores(samples: Sequence[tuple[float, float]], began_s: float, ended_s: float) -> list[float]:
    """Return the cores that were in use in each step, from (moment, CPU seconds until then) in order.

    Between two samples the use is even; before the first one and after the last there is none.
    """
    edges = [began_s + step * STEP_S for step in range(steps_of(began_s, ended_s) + 1)]
    used_s = [_used_s(samples, edge) for edge in edges]
    return [(after - before) / STEP_S for before, after in pairwise(used_s)]


def _used_s(samples: Sequence[tuple[float, float]], moment_s: float) -> float:
    if not samples:
        return 0.0
    after = bisect_left(samples, (moment_s, -math.inf))
    if after in (0, len(samples)):
        return samples[min(after, len(samples) - 1)][1]
    (from_s, before), (until_s, until) = samples[after - 1], samples[after]
    return before + (until - before) * (moment_s - from_s) / (until_s - from_s)


@dataclass(frozen=True, slots=True)
class Phase:
    """How long a replica is in a state, and when the last one leaves it, from the start on."""

    mean_s: float
    last_s: float


def phases(lives: Sequence[Life], began_s: float) -> dict[State, Phase]:
    """Return the phases that there were, without the ISR, in which all end."""
    found: dict[State, Phase] = {}
    for state in State:
        of_state = [span for life in lives for span in life if span.step is state]
        if of_state and state is not State.IN_ISR:
            mean_s = math.fsum(span.until_s - span.from_s for span in of_state) / len(lives)
            found[state] = Phase(mean_s, max(span.until_s for span in of_state) - began_s)
    return found

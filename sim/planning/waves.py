"""In which order partitions move: as many at a time as leave producers their headroom.

A wave ends when all its replicas are in sync; the next begins then. In one wave a broker sends, and a broker receives,
at most 1 of "load", which a partition has of

    1 / partitions_per_broker                    so that few are unfinished when something happens
    bytes / (throttle * wave_s)                  so that a wave takes `wave_s`
    produced bytes/s / (throttle * CATCH_UP)     so that what is produced meanwhile leaves room to catch up

whichever is the largest. A partition that is more than that alone has a wave of its own at its brokers. Partitions are
taken in the given order; a broker's waves never go back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

CATCH_UP: Final = 0.5
"""Of the throttle, what producers of moving partitions may take."""
WHOLE: Final = 1_000_000
"""Units of load that a broker has in a wave: sums of whole numbers are exact."""
NOTHING: Final[Mapping[int, Sequence[int]]] = MappingProxyType({})


def assign_waves(
    sources: Sequence[int],
    targets: Sequence[int],
    loads: Sequence[int],
    partitions_per_wave: int,
    more_targets: Mapping[int, Sequence[int]] = NOTHING,
) -> list[int]:
    """The wave of each partition, from 0. `sources`: who sends (leaders), `targets`: who receives; `more_targets` by
    place, of partitions that more than one broker receives. `loads` in units of which a wave has `WHOLE`.
    """
    assert partitions_per_wave > 0, partitions_per_wave
    brokers = 1 + max((*sources, *targets, *(broker for more in more_targets.values() for broker in more)), default=0)
    sent, received = [0] * brokers, [0] * brokers  # wave * WHOLE + what is used of it
    totals = [0]
    waves = []
    for place, (source, target, load) in enumerate(zip(sources, targets, loads, strict=True)):
        units = load if 0 < load <= WHOLE else WHOLE
        used = max(sent[source], received[target])
        more = more_targets.get(place) if more_targets else None
        if more is not None:
            used = max(used, *[received[broker] for broker in more])
        wave = (used + units - 1) // WHOLE
        while wave < len(totals) and totals[wave] >= partitions_per_wave:
            wave += 1
        if wave == len(totals):
            totals.append(0)
        totals[wave] += 1
        start = wave * WHOLE
        sent[source] = max(sent[source], start) + units
        received[target] = max(received[target], start) + units
        for broker in more or ():
            received[broker] = max(received[broker], start) + units
        waves.append(wave)
    return waves

"""In which order partitions move: as many at a time as leave producers their headroom.

A wave ends when all its replicas are in sync; the next begins then. In one wave a broker sends, and a broker receives,
at most 1 of "load", which a partition has of

    1 / partitions_per_broker                    so that few are unfinished when something happens
    bytes / (throttle * wave_s)                  so that a wave takes `wave_s`
    produced bytes/s / (throttle * CATCH_UP)     so that what is produced meanwhile leaves room to catch up

whichever is the largest. A partition that is more than that alone has a wave of its own at its brokers. Partitions are
taken in the given order; a broker's waves never go back.

What brokers share (the uplinks of racks, `headroom.py`) has as much room in a wave, of which a partition takes other
shares than of its brokers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

CATCH_UP: Final = 0.5
"""The share of the throttle that producers of moving partitions may take."""
WHOLE: Final = 1_000_000
"""Units of load that a broker has in a wave: sums of whole numbers are exact."""
NOTHING: Final[Mapping[int, Sequence[int]]] = MappingProxyType({})
Taken = Sequence[tuple[int, int]]
"""Numbers of what brokers share, each with the units that a partition takes of it."""
NOTHING_SHARED: Final[Mapping[int, Taken]] = MappingProxyType({})


def assign_waves(
    sources: Sequence[int],
    targets: Sequence[int],
    loads: Sequence[int],
    partitions_per_wave: int,
    more_targets: Mapping[int, Sequence[int]] = NOTHING,
    shared: Mapping[int, Taken] = NOTHING_SHARED,
) -> list[int]:
    """The wave of each partition, from 0. `sources`: who sends (leaders), `targets`: who receives; `more_targets` by
    place, of partitions that more than one broker receives. `loads` in units of which a wave has `WHOLE`; `shared` by
    place, of partitions that take of what brokers share.
    """
    assert partitions_per_wave > 0, partitions_per_wave
    named = (sources, targets, *more_targets.values())
    brokers = 1 + max((max(each) for each in named if each), default=0)
    sent, received = [0] * brokers, [0] * brokers  # wave * WHOLE + what is used of it
    totals = [0]
    waves = []
    others: list[Sequence[int]] = [()] * len(sources)
    for place, brokers_more in more_targets.items():
        others[place] = brokers_more
    passed: list[Taken] = [()] * len(sources)
    for place, taken in shared.items():
        passed[place] = taken
    carried: dict[int, int] = {}
    for source, target, load, more, takes in zip(sources, targets, loads, others, passed, strict=True):
        units = load if 0 < load <= WHOLE else WHOLE
        sends, receives = sent[source], received[target]
        used = sends if sends > receives else receives  # as everywhere here: max() takes most of a large plan's time
        for broker in more:
            used = received[broker] if received[broker] > used else used
        wave = (used + units - 1) // WHOLE
        for number, part in takes:
            wave = max(wave, (carried.get(number, 0) + part - 1) // WHOLE)
        while wave < len(totals) and totals[wave] >= partitions_per_wave:
            wave += 1
        if wave == len(totals):
            totals.append(0)
        totals[wave] += 1
        start = wave * WHOLE
        sent[source] = (sends if sends > start else start) + units
        received[target] = (receives if receives > start else start) + units
        for broker in more:
            received[broker] = (received[broker] if received[broker] > start else start) + units
        for number, part in takes:
            carried[number] = max(carried.get(number, 0), start) + part
        waves.append(wave)
    return waves

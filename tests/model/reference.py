"""The engine once more, slow and plain: one wave, one event at a time, every rate anew, Python's own numbers.

It shares nothing with the engine but its inputs, and knows only what the tests vary: NICs, disks, throttles, uplinks of
racks, produce.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Replica:
    source: int
    target: int
    remaining: float
    produce: float
    joined_s: float = float("inf")


def fair(connections: dict, available: dict) -> dict:
    """Progressive filling. `connections`: pair -> names of the resources it takes."""
    rates: dict = {}
    left = dict(available)
    growing = set(connections)
    while growing:
        load: dict = defaultdict(int)
        for pair in growing:
            for name in connections[pair]:
                load[name] += 1
        name = min(load, key=lambda each: left[each] / load[each])
        share = left[name] / load[name]
        for pair in [each for each in growing if name in connections[each]]:
            rates[pair] = share
            growing.discard(pair)
            for each in connections[pair]:
                left[each] -= share
    return rates


def resources_of(source: int, target: int, racks: Sequence[int]) -> tuple:
    return (
        *crossed(source, target, racks),
        ("out", source),
        ("read", source),
        ("throttle out", source),
        ("in", target),
        ("write", target),
        ("throttle in", target),
    )


def crossed(source: int, target: int, racks: Sequence[int]) -> tuple:
    """The uplinks between two brokers, each in the rack at its place."""
    if racks[source] == racks[target]:
        return ()
    return ("uplink out", racks[source]), ("uplink in", racks[target])


def run(replicas: list[Replica], available: dict, racks: Sequence[int]) -> None:
    """Fills in `joined_s`; `available` is what moves may take of each resource at the start."""
    now = 0.0
    fetching = list(replicas)
    while fetching:
        pairs = {(each.source, each.target) for each in fetching}
        rates = fair({pair: resources_of(*pair, racks) for pair in pairs}, available)
        count: dict = defaultdict(int)
        for each in fetching:
            count[each.source, each.target] += 1
        speed = {id(each): rates[each.source, each.target] / count[each.source, each.target] for each in fetching}
        nears = {id(each): speed[id(each)] - each.produce for each in fetching}
        ends = [each.remaining / nears[id(each)] for each in fetching if nears[id(each)] > 0]
        if not ends:
            return
        step = min(ends)
        now += step
        for each in list(fetching):
            each.remaining -= nears[id(each)] * step
            if each.remaining <= 1e-6 * (1 + each.produce):
                each.joined_s = now
                fetching.remove(each)
                live = ("out", each.source), ("in", each.target), ("write", each.target)
                for name in (*live, *crossed(each.source, each.target, racks)):
                    available[name] -= each.produce

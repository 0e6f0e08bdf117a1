"""Breadth first through every state, each once; the shortest way to a broken invariant comes out."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from dataclasses import dataclass
from operator import le

from ..cluster import InvariantBroken
from .model import Bounds, World, initial_world, successors

Used = tuple[int, int, int]
Key = tuple[object, Used]


@dataclass(frozen=True)
class Exploration:
    """`violation`: None, or what broke, with the actions that lead there. `is_complete`: every state was seen."""

    states: int
    transitions: int
    depth: int
    seconds: float
    is_complete: bool
    violation: str | None = None
    way: tuple[str, ...] = ()

    def __str__(self) -> str:
        extent = "all" if self.is_complete else "the first"
        text = (
            f"{extent} {self.states} states, {self.transitions} transitions, depth {self.depth}, {self.seconds:.1f} s"
        )
        if self.violation is None:
            return text
        return "\n".join([text, self.violation, *(f"  {action}" for action in self.way)])


def explore(bounds: Bounds, *, states_max: int = 10_000_000) -> Exploration:
    """Those that have used least first, so that most others are covered when they come."""
    begin = time.process_time()
    first = initial_world(bounds)
    parents: dict[object, tuple[object, str]] = {}
    first_key = (first.fingerprint(), first.used)
    seen: dict[object, list[Used]] = {first_key[0]: [first.used]}
    queues: defaultdict[int, deque[tuple[World, Key, int]]] = defaultdict(deque)
    queues[0].append((first, first_key, 0))
    states = transitions = depth = 0

    def finish(*, is_complete: bool, violation: str | None = None, way: tuple[str, ...] = ()) -> Exploration:
        seconds = time.process_time() - begin
        return Exploration(states, transitions, depth, seconds, is_complete, violation, way)

    while queues:
        total = min(queues)
        queue = queues[total]
        if not queue:
            del queues[total]
            continue
        world, key, way_length = queue.popleft()
        if is_covered(world.used, [used for used in seen[key[0]] if used != world.used]):
            continue
        states += 1
        depth = max(depth, way_length)
        action = "?"
        try:
            for action, after in successors(bounds, world):
                transitions += 1
                if after is None:
                    continue
                after_key = (after.fingerprint(), after.used)
                known = seen.setdefault(after_key[0], [])
                if is_covered(after.used, known):
                    continue
                known.append(after.used)
                parents[after_key] = (key, action)
                queues[sum(after.used)].append((after, after_key, way_length + 1))
        except AssertionError as error:
            way = _way(parents, key)
            return finish(
                is_complete=False, violation=f"{type(error).__name__}: {error}", way=(*way, f"after {action}")
            )
        if states >= states_max:
            return finish(is_complete=False)
    return finish(is_complete=True)


def is_covered(used: Used, known: list[Used]) -> bool:
    """Whether one of `known` has used no more of anything."""
    return any(all(map(le, other, used)) for other in known)


def _way(parents: dict[object, tuple[object, str]], world_print: object) -> tuple[str, ...]:
    actions: list[str] = []
    while world_print in parents:
        world_print, action = parents[world_print]
        actions.append(action)
    return tuple(reversed(actions))


__all__ = ["Bounds", "Exploration", "InvariantBroken", "explore"]

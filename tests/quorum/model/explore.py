"""Breadth first through every state, each once; the shortest way to a broken invariant comes out."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from ..cluster import InvariantBroken
from .model import Bounds, initial_world, successors


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
    begin = time.perf_counter()
    first = initial_world(bounds)
    parents: dict[object, tuple[object, str]] = {}
    first_print = first.fingerprint()
    seen = {first_print}
    queue = deque([(first, first_print, 0)])
    transitions = depth = 0

    def finish(*, is_complete: bool, violation: str | None = None, way: tuple[str, ...] = ()) -> Exploration:
        seconds = time.perf_counter() - begin
        return Exploration(len(seen), transitions, depth, seconds, is_complete, violation, way)

    while queue:
        world, world_print, depth = queue.popleft()
        action = "?"
        try:
            for action, after in successors(bounds, world):
                transitions += 1
                if after is None:
                    continue
                after_print = after.fingerprint()
                if after_print in seen:
                    continue
                seen.add(after_print)
                parents[after_print] = (world_print, action)
                queue.append((after, after_print, depth + 1))
        except AssertionError as error:
            way = _way(parents, world_print)
            return finish(
                is_complete=False, violation=f"{type(error).__name__}: {error}", way=(*way, f"after {action}")
            )
        if len(seen) >= states_max:
            return finish(is_complete=False)
    return finish(is_complete=True)


def _way(parents: dict[object, tuple[object, str]], world_print: object) -> tuple[str, ...]:
    actions: list[str] = []
    while world_print in parents:
        world_print, action = parents[world_print]
        actions.append(action)
    return tuple(reversed(actions))


__all__ = ["Bounds", "Exploration", "InvariantBroken", "explore"]

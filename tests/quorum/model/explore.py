"""Every state within the bounds, each once; the actions that lead to a broken invariant come out.

Worlds are taken in the order of what they have used (crashes, losses, appends), then breadth first. One that has used
no less of anything than an equal one seen before is *covered* by that one and left out. Nothing is lost by it: budgets
only forbid actions, so whatever the one can still do, the other can do as well and comes to equal worlds, which again
have used no more; and no invariant asks what was used. Since those that have used less come first, nearly all worlds
with a crash or a loss behind them that are no news are covered when they come. A search for the first states only is
breadth first instead: the shortest way to a bug may need a crash.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from operator import le

from ..cluster import InvariantBroken
from .model import Bounds, Used, World, initial_world, successors

Key = tuple[object, Used]
"""A world's fingerprint and what it has used."""


@dataclass(frozen=True)
class Exploration:
    """`violation`: None, or what broke, with the actions that lead there. `is_complete`: every state was seen.
    `committed`: how many records at most; `seconds` of CPU time.
    """

    states: int
    transitions: int
    depth: int
    committed: int
    seconds: float
    is_complete: bool
    violation: str | None = None
    way: tuple[str, ...] = ()

    def __str__(self) -> str:
        extent = "all" if self.is_complete else "the first"
        counts = f"{self.states} states, {self.transitions} transitions, depth {self.depth}"
        text = f"{extent} {counts}, up to {self.committed} records committed, {self.seconds:.1f} CPU s"
        if self.violation is None:
            return text
        return "\n".join([text, self.violation, *(f"  {action}" for action in self.way)])


class _Search:
    """`seen`: what the worlds of a fingerprint have used; `parents`: from where, and by what, each was found."""

    def __init__(self, first: World, *, is_breadth_first: bool) -> None:
        self._is_breadth_first = is_breadth_first
        self.seen: defaultdict[object, list[Used]] = defaultdict(list)
        self.parents: dict[Key, tuple[Key, str]] = {}
        self._queues: defaultdict[int, deque[tuple[World, Key, int]]] = defaultdict(deque)
        self._put(first, (first.fingerprint(), first.used), 0)

    def worlds(self) -> Iterator[tuple[World, Key, int]]:
        """Each with its distance from the first; those that are found meanwhile come, too."""
        while self._queues:
            rank = min(self._queues)
            queue = self._queues[rank]
            while queue:
                world, key, depth = queue.popleft()
                if not is_covered(world.used, [used for used in self.seen[key[0]] if used != world.used]):
                    yield world, key, depth
            del self._queues[rank]

    def found(self, world: World, parent: Key, action: str, depth: int) -> None:
        key = (world.fingerprint(), world.used)
        if not is_covered(world.used, self.seen[key[0]]):
            self.parents[key] = (parent, action)
            self._put(world, key, depth)

    def way_to(self, key: Key) -> tuple[str, ...]:
        actions: list[str] = []
        while key in self.parents:
            key, action = self.parents[key]
            actions.append(action)
        return tuple(reversed(actions))

    def _put(self, world: World, key: Key, depth: int) -> None:
        self.seen[key[0]].append(world.used)
        self._queues[depth if self._is_breadth_first else sum(world.used)].append((world, key, depth))


def is_covered(used: Used, known: list[Used]) -> bool:
    """Whether one of `known` has used no more of anything."""
    return any(all(map(le, other, used)) for other in known)


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Worlds hold no circles, and millions of them stay: each look through them all finds nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@_without_garbage_collection()
def explore(bounds: Bounds, *, states_max: int | None = None) -> Exploration:
    """All of it, or the first states; up to a violation."""
    began_s = time.process_time()
    search = _Search(initial_world(bounds), is_breadth_first=states_max is not None)
    states = transitions = deepest = committed = 0

    def finish(*, is_complete: bool, violation: str | None = None, way: tuple[str, ...] = ()) -> Exploration:
        seconds = time.process_time() - began_s
        return Exploration(states, transitions, deepest, committed, seconds, is_complete, violation, way)

    for world, key, depth in search.worlds():
        states += 1
        deepest = max(deepest, depth)
        committed = max(committed, len(world.committed))
        action = "?"
        try:
            for action, after in successors(bounds, world):
                transitions += 1
                if after is not None:
                    search.found(after, key, action, depth + 1)
        except AssertionError as error:
            violation = f"{type(error).__name__}: {error}"
            return finish(is_complete=False, violation=violation, way=(*search.way_to(key), f"after {action}"))
        if states == states_max:
            return finish(is_complete=False)
    return finish(is_complete=True)


__all__ = ["Bounds", "Exploration", "InvariantBroken", "explore"]

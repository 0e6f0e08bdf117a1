"""One seed for everything: each part of the simulation has a `Random` of its own, derived by its name.

So a part that draws once more, or a new part, does not change what the others draw. Nothing depends on `hash`.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from math import log as _log
from random import Random

Chance = Callable[[str], Random]
"""The streams of one seed, by name."""


def derived(seed: int, name: str) -> Random:
    """The stream of that name: the same on every machine."""
    digest = blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    return Random(int.from_bytes(digest, "big"))


def exponential(rng: Random, mean: float) -> float:
    """`Random.expovariate` in a form that costs less."""
    return -mean * _log(1.0 - rng.random())

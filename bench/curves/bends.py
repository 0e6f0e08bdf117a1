"""Where a curve of costs bends upward. Pure.

A curve bends at the first count at which the cost is more than `BEND` times the least cost at a smaller count. What is
measured twice differs by less on this kind of machine, and what grows with the count from the first on bends at the
second. A point that was tried and gave nothing costs more than any other. Where more is better, the cost is one by it.

| ours | Kafka's | reading |
|---|---|---|
| does not bend | | flat |
| bends at n | at n or before | not before Kafka's |
| bends at n | later | **before Kafka's** |
| bends at n | does not, but has no points from n on | unknown: Kafka was not measured there |
| bends at n | does not, and has points from n on | **before Kafka's** |
"""

from __future__ import annotations

import math
from typing import Final

from .points import Curve

BEND: Final = 2.0
MORE_IS_BETTER: Final = ("MB/s", "a second")
"""The units of quantities of which more is better: how their names end."""


def cost(quantity: str, value: float) -> float:
    """Return what is better if it is less; infinity for a point without a value."""
    if math.isnan(value):
        return math.inf
    if quantity.endswith(MORE_IS_BETTER):
        return 1 / value if value else math.inf
    return value


def bend(quantity: str, curve: Curve) -> int | None:
    """Return the first count at which the curve bends upward; None if it does not."""
    least = math.inf
    for count in sorted(curve):
        of_count = cost(quantity, curve[count])
        if of_count > BEND * least:
            return count
        least = min(least, of_count)
    return None


def is_before(quantity: str, ours: Curve, other: Curve) -> bool | None:
    """Return whether our curve bends before the other one; None where that is not known."""
    our_bend, its_bend = bend(quantity, ours), bend(quantity, other)
    if our_bend is None:
        return False
    if its_bend is not None:
        return our_bend < its_bend
    return True if any(count >= our_bend for count in other) else None


def reading(quantity: str, ours: Curve, other: Curve | None) -> str:
    """Return a line on our curve, beside the other one where there is one."""
    our_bend = bend(quantity, ours)
    said = "flat" if our_bend is None else f"bends at {our_bend:,}"
    if not other:
        return said
    its_bend = bend(quantity, other)
    said += f"; Kafka's {'flat' if its_bend is None else f'bends at {its_bend:,}'} up to {max(other):,}"
    before = is_before(quantity, ours, other)
    said += {True: ": BEFORE Kafka's", False: "", None: ": not known, Kafka was not measured there"}[before]
    common = [count for count in ours if count in other and not math.isnan(ours[count] + other[count])]
    if common:
        largest = max(common)
        ratio = cost(quantity, ours[largest]) / cost(quantity, other[largest])
        said += f"; at {largest:,}: {ratio:.2f} of its cost"
    return said

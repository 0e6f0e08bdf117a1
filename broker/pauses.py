"""Pauses of a node's process: how long its event loop did not turn, and what the garbage collector has to do with it.

A full collection looks at all objects: 0.3 s with the metadata of some hundred thousand partitions. Almost all of them
live as long as the process, so `GarbageCollection` puts them out of the collector's sight (`gc.freeze`):

| objects of the oldest generation since the last freeze | done | pause |
|---|---|---|
| at most `COLLECT_MIN` | once in `COLLECT_INTERVAL_S` a full collection, which sees only these | some 10 ms |
| more | a full collection at once; what it leaves is frozen if that is still more | in proportion to them, not to all |
| more than `COLLECT_MAX` | frozen without a look: state is being loaded | none |

What is left of few is not frozen: among it are the connections and logs of the moment, which end in cycles. A process
that only works, and loads no state, therefore freezes nothing, and what it lets go of is freed within a minute.

Cycles among frozen objects are never collected. Reference counts free all else, frozen or not: what has a short life
must not be part of a cycle when it ends. The collector's young generations work as ever.

Time of the loop is measured by a timer: how much later than planned it runs, and for how much of that the thread of the
loop had a CPU. The rest is the machine's: other processes, a host that lends the CPU to others, memory that is swapped.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from prometheus_client import Histogram, disable_created_metrics
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from ..protocol.net import cancelled

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each histogram, which nobody reads

COLLECT_MIN: Final = 15_000
COLLECT_MAX: Final = 60_000
"""Objects that a full collection goes through in some 30 ms."""
LOOK_INTERVAL_S: Final = 0.25
"""The time between two looks: what a busy process leaves in that time is less than `COLLECT_MAX`."""
COLLECT_INTERVAL_S: Final = 60.0
TICK_S: Final = 0.02
"""Pauses that are shorter may fall between two ticks."""
YOUNG_OBJECTS: Final = 2_000
"""New objects until the collector looks at them. With its own 700 it meets the parts of large requests in use, which
then count as old: with 4,000 partitions ten full collections a minute followed, of 100 ms each.
"""
NEVER: Final = 1_000_000_000
"""Young collections until the collector itself begins a full one."""

_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class GarbageCollection:
    """Bounds the pauses of the garbage collector of this process, and measures them, between `begin` and `end`."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self.histogram = Histogram(
            "tierfetch_gc_pause_seconds",
            "Pauses for garbage collection.",
            ["generation"],
            buckets=_BUCKETS_S,
            registry=None,
        )
        self._now_s = now_s
        self._began_s = 0.0
        self._collect_at_s = 0.0
        self._may_have_grown = True
        """Whether the oldest generation may have more objects than at the last look: counting lists them all."""
        self._thresholds = gc.get_threshold()

    def begin(self) -> None:
        self._thresholds = gc.get_threshold()
        self._collect_at_s = self._now_s() + COLLECT_INTERVAL_S
        gc.set_threshold(YOUNG_OBJECTS, 10, NEVER)
        gc.callbacks.append(self._on_collection)

    def end(self) -> None:
        gc.callbacks.remove(self._on_collection)
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def look(self) -> None:
        """Collect or freeze as in the table of the module."""
        now_s = self._now_s()
        is_due = now_s >= self._collect_at_s
        if not (self._may_have_grown or is_due):
            return
        self._may_have_grown = False
        count = _oldest()
        if count <= COLLECT_MIN and not is_due:
            return
        self._collect_at_s = now_s + COLLECT_INTERVAL_S
        if count <= COLLECT_MAX:
            gc.collect()
            count = _oldest()
        if count > COLLECT_MIN:
            gc.freeze()

    def _on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._began_s = self._now_s()
        else:
            self._may_have_grown |= info["generation"] > 0  # generation 1 leaves what it finds to the oldest
            self.histogram.labels(info["generation"]).observe(self._now_s() - self._began_s)


def _oldest() -> int:
    return len(gc.get_objects(generation=2))


class Pauses:
    """The pauses of this process. There is one loop and one collector in it, so there is one of these: `PAUSES`."""

    def __init__(self) -> None:
        self.garbage = GarbageCollection()
        self.histogram = Histogram(
            "tierfetch_loop_pause_seconds",
            "How much later than planned a timer of the event loop ran.",
            buckets=_BUCKETS_S,
            registry=None,
        )

        self.own = Histogram(
            "tierfetch_loop_pause_own_seconds",
            "The CPU time of the event loop's thread in each of these pauses.",
            buckets=_BUCKETS_S,
            registry=None,
        )

    def families(self) -> Iterator[Metric]:
        yield from self.histogram.collect()
        yield from self.own.collect()
        yield from self.garbage.histogram.collect()
        yield GaugeMetricFamily("tierfetch_loop_tasks", "Tasks of the event loop.", value=len(asyncio.all_tasks()))

    @asynccontextmanager
    async def measured(self) -> AsyncIterator[None]:
        """Measure and bound pauses meanwhile."""
        self.garbage.begin()
        ticks = asyncio.create_task(self._tick(), name="loop pauses")
        try:
            yield
        finally:
            await cancelled(ticks)
            self.garbage.end()

    async def _tick(self) -> None:
        now_s = asyncio.get_running_loop().time
        look_at_s = now_s() + LOOK_INTERVAL_S
        while True:
            planned_s, used_s = now_s() + TICK_S, time.thread_time()
            await asyncio.sleep(TICK_S)
            late_s = max(0.0, now_s() - planned_s)
            self.histogram.observe(late_s)
            # What the thread did in the `TICK_S` before may be counted too, which no bucket of a long pause feels.
            self.own.observe(min(late_s, time.thread_time() - used_s))
            if now_s() >= look_at_s:
                self.garbage.look()
                look_at_s = now_s() + LOOK_INTERVAL_S


PAUSES: Final = Pauses()

"""Keeps what the engine passes through: the peak of each resource, and bytes by broker over time."""

from __future__ import annotations

from typing import Final

import numpy as np

from .arrays import Floats

SAMPLES_MAX: Final = 256
"""Kept while the engine runs; each second one is dropped when there are twice as many."""


class Recorder:
    """`peak` and `peak_at_s` [resources]. Bytes are kept as running totals: whatever is left out, no byte is lost."""

    def __init__(self, resources: int, brokers: int) -> None:
        self.peak = np.zeros(resources)
        self.peak_at_s = np.zeros(resources)
        self._into = np.zeros(brokers)
        self._out_of = np.zeros(brokers)
        self._samples = [(0.0, self._into.copy(), self._out_of.copy())]

    def interval(self, from_s: float, to_s: float, use: Floats, into: Floats, out_of: Floats) -> None:
        """Rates that hold from `from_s` to `to_s`: `use` [resources], `into` and `out_of` [brokers]."""
        higher = use > self.peak
        self.peak[higher] = use[higher]
        self.peak_at_s[higher] = from_s
        if from_s > self._samples[-1][0]:
            self._samples.append((from_s, self._into.copy(), self._out_of.copy()))
        self._into += into * (to_s - from_s)
        self._out_of += out_of * (to_s - from_s)
        if to_s > from_s:
            self._samples.append((to_s, self._into.copy(), self._out_of.copy()))
        if len(self._samples) > 2 * SAMPLES_MAX:
            self._samples = [self._samples[0], *self._samples[2:-1:2], self._samples[-1]]

    def rates(self, edges_s: Floats) -> tuple[Floats, Floats]:
        """Mean rates into and out of each broker between each two of N+1 instants, [N, B] each."""
        at = np.array([sample[0] for sample in self._samples])
        into = np.stack([sample[1] for sample in self._samples])
        out_of = np.stack([sample[2] for sample in self._samples])
        return _slopes(at, into, edges_s), _slopes(at, out_of, edges_s)


def _slopes(at: Floats, totals: Floats, edges: Floats) -> Floats:
    after = np.clip(np.searchsorted(at, edges, side="left"), 1, len(at) - 1) if len(at) > 1 else None
    if after is None:
        return np.zeros((len(edges) - 1, totals.shape[1]))
    width = at[after] - at[after - 1]
    share = np.clip((edges - at[after - 1]) / np.where(width > 0, width, 1.0), 0.0, 1.0)
    values = totals[after - 1] + share[:, None] * (totals[after] - totals[after - 1])
    return np.asarray(np.diff(values, axis=0) / np.diff(edges)[:, None])

"""Max-min fair rates: no flow can get more without taking from one that has no more than itself.

Flow f takes `weights[w]` of resource `uses[f, w]` for each byte, and never needs more than `caps[f]`. A resource's fair
share is what is left of it, by the weight of its flows that are not settled yet. Settled in one round are all flows of
every resource whose share is the smallest that each of its flows sees, and all flows whose cap is below every share
they see: shares of other resources only grow when slower flows are taken out, so these rates are final. Rounds are as
many as there are bottlenecks in a row, seldom above ten, however many flows there are.

The result carries its own proof: each flow has its cap, or a saturated resource on which no flow is faster.
"""

from __future__ import annotations

import numpy as np

from .arrays import Floats, Ints, sums

TOLERANCE = 1e-9
"""Relative; shares this close are equal."""


def max_min_rates(uses: Ints, weights: Floats, available: Floats, caps: Floats) -> Floats:
    """Rates [F] of F flows. `uses` [F, W] names resources, `weights` [W], `available` [resources], `caps` [F] >= 0."""
    rates = np.zeros(len(uses))
    left = available.astype(np.float64, copy=True)
    open_ = np.arange(len(uses))
    while len(open_):
        taken = uses[open_]
        shares = _shares(taken, weights, left)
        own_shares = shares[taken]
        wanted = np.minimum(own_shares.min(axis=1), caps[open_])
        smallest = np.full(len(left), np.inf)
        for column in range(uses.shape[1]):
            np.minimum.at(smallest, taken[:, column], wanted)
        is_final = smallest >= shares * (1 - TOLERANCE)
        settled = (wanted >= caps[open_]) | (is_final[taken] & (own_shares <= wanted[:, None] * (1 + TOLERANCE))).any(1)
        assert settled.any(), f"no flow of {len(open_)} is at its bottleneck: shares {own_shares[:3]}"
        rates[open_[settled]] = wanted[settled]
        left = np.maximum(0.0, left - use_of(taken[settled], weights, wanted[settled], len(left)))
        open_ = open_[~settled]
    return rates


def use_of(uses: Ints, weights: Floats, rates: Floats, resources: int) -> Floats:
    """What flows at these rates take of each resource, [resources]."""
    amounts = rates[:, None] * weights[None, :]
    return sums(uses.ravel(), amounts.ravel(), resources)


def _shares(taken: Ints, weights: Floats, left: Floats) -> Floats:
    load = sums(taken.ravel(), np.tile(weights, len(taken)), len(left))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(load > 0, left / load, np.inf)

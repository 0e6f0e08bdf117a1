"""What replication throttles let through: all brokers', either way, as the engine passes from event to event.

    burst    the debt of a fetch that is waited for after it, and so not of the last one: `burst_bytes`, once
    credit   what a throttle was not used for is kept, up to `rest_s` of its rate, and passes at once

While one of both is left a throttle is open. That of a broker that is replaced, for what comes in, has not rested when
its replicas begin: it is known no sooner than they are.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..arrays import Bools, Floats, Ints

SPENT_BYTES: Final = 1.0
"""Less is nothing."""


class Throttle:
    """[resources] each; `rate` 0: of what is no throttle, or has no limit. Changed in place."""

    def __init__(self, rate: Floats, burst_bytes: float, rest_s: float) -> None:
        self._rate = rate
        self._credit_max = rate * rest_s
        self._burst = np.where(rate > 0, burst_bytes, 0.0)
        self._credit = np.zeros(len(rate))
        self._rests = rate > 0

    def begin_rested(self, but: Ints) -> None:
        """All have rested before the start, but for these, which do only once `may_rest` says so."""
        self._credit = self._credit_max.copy()
        self._credit[but] = 0.0
        self._rests[but] = False

    def may_rest(self, numbers: Ints) -> None:
        """From now on these rest when they are not used."""
        self._rests[numbers] = self._rate[numbers] > 0

    @property
    def is_open(self) -> Bools:
        return np.asarray((self._burst > 0) | (self._credit > 0))

    def left_s(self, use: Floats) -> float:
        """Return how long it takes at this use until one of them holds; infinite if none does."""
        draining = (self._burst > 0) & (use > 0)
        over = (self._burst <= 0) & (self._credit > 0) & (use > self._rate)
        of_bursts = (self._burst[draining] / use[draining]).min(initial=np.inf)
        of_credits = (self._credit[over] / (use[over] - self._rate[over])).min(initial=np.inf)
        return float(min(of_bursts, of_credits))

    def pass_on(self, use: Floats, elapsed_s: float) -> None:
        """So much was used, for so long."""
        had_burst = self._burst > 0
        self._burst = np.maximum(0.0, self._burst - use * elapsed_s)
        self._burst[self._burst < SPENT_BYTES] = 0.0
        gained = np.where(had_burst, 0.0, (self._rate - use) * elapsed_s)
        gained[~self._rests & (gained > 0)] = 0.0
        self._credit = np.clip(self._credit + gained, 0.0, self._credit_max)
        self._credit[self._credit < SPENT_BYTES] = 0.0

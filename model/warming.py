"""Thin replicas made whole: how long it takes to bring what is only in the tier to the new replicas' disks.

It begins when the last replica is in the ISR, and continues in the background on each broker at
`thin.replica.warmer.max.bytes.per.second` at most. All brokers share the tier's bandwidth max-min fairly, those of a
rack the uplink into it; each has its NIC and its disk to itself, but for the foreground.
"""

from __future__ import annotations

import numpy as np

from .arrays import Floats, Ints, sums
from .fair_share import max_min_rates
from .resources import Kind, Resources


def warming_s(resources: Resources, racks: Ints, target: Ints, thin_bytes: Floats, warmer_bytes_per_s: float) -> float:
    """Seconds until every broker ([B], in `racks`) has what its new replicas ([M], on `target`) lack; 0 if they lack
    nothing.
    """
    left = sums(target, thin_bytes, resources.brokers)
    available = resources.left_by(resources.foreground)
    now_s = 0.0
    brokers = np.flatnonzero(left > 0)
    while len(brokers):
        nic_in, disk_write = Kind.NIC_IN * resources.brokers + brokers, Kind.DISK_WRITE * resources.brokers + brokers
        shared = resources.uplink_in(racks[brokers]), np.full(len(brokers), resources.tier)
        uses = np.stack([nic_in, disk_write, *shared], axis=1)
        rates = max_min_rates(uses, np.ones(uses.shape[1]), available, np.full(len(brokers), warmer_bytes_per_s))
        step_s = float((left[brokers] / rates).min())
        now_s += step_s
        left[brokers] -= rates * step_s
        brokers = brokers[left[brokers] > 1.0]
    return now_s

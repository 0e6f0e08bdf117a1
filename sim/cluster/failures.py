"""Brokers that die: who leads then. Election as the controller does it: the first replica in sync that is alive."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from .arrays import NONE, ClusterArrays


def fail_over(arrays: ClusterArrays, brokers: Collection[int]) -> ClusterArrays:
    """The cluster without these brokers (indices): out of every ISR, and no leader any more.

    A partition whose whole ISR is gone has no leader (-1): nobody is elected uncleanly.
    """
    dead = np.isin(arrays.replicas, list(brokers))
    in_sync = arrays.in_sync & ~dead
    lost = np.isin(arrays.leader, list(brokers))
    first = np.argmax(in_sync, axis=1)
    rows = np.arange(arrays.partition_count)
    elected = np.where(in_sync.any(axis=1), arrays.replicas[rows, first], NONE)
    return replace(arrays, in_sync=in_sync, leader=np.where(lost, elected, arrays.leader).astype(np.int32))

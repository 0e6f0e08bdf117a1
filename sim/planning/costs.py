"""What new replicas would copy from their leaders if they began now: `sim.cluster.bootstraps` of all partitions."""

from __future__ import annotations

import numpy as np

from ..cluster.arrays import ClusterArrays
from ..cluster.bootstraps import Bootstraps, bootstraps
from ..cluster.inventory import Policy


def new_replicas(arrays: ClusterArrays, policy: Policy) -> Bootstraps:
    """Of a new replica of each partition, [P]."""
    partitions = np.arange(arrays.partition_count, dtype=np.int32)
    return bootstraps(arrays, partitions, np.zeros(arrays.partition_count), policy)

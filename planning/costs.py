"""What new replicas would copy from their leaders if they began now: `model.bootstraps` of all partitions."""

from __future__ import annotations

import numpy as np

from ..model import Policy
from ..model.arrays import ClusterArrays
from ..model.bootstraps import Bootstraps, bootstraps


def new_replicas(arrays: ClusterArrays, policy: Policy) -> Bootstraps:
    """Return what a new replica of each partition would copy, [P]."""
    partitions = np.arange(arrays.partition_count, dtype=np.int32)
    return bootstraps(arrays, partitions, np.zeros(arrays.partition_count), policy)

"""A cluster with more brokers than it has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .arrays import ClusterArrays


def with_new_brokers(arrays: ClusterArrays, count: int) -> ClusterArrays:
    """`count` empty brokers more, with the next free ids, always in the rack that has the fewest; each is built like
    the first broker of its rack.
    """
    racks = arrays.racks.tolist()
    for _ in range(count):
        racks.append(int(np.argmin(np.bincount(racks, minlength=len(arrays.rack_names)))))
    added = np.array(racks[arrays.broker_count :], dtype=np.int32)
    like = np.array([int(np.flatnonzero(arrays.racks == rack)[0]) for rack in added], dtype=np.int64)
    next_id = int(arrays.broker_ids.max()) + 1
    return replace(
        arrays,
        broker_ids=np.append(arrays.broker_ids, np.arange(next_id, next_id + count, dtype=np.int32)),
        racks=np.append(arrays.racks, added),
        nic_in=np.append(arrays.nic_in, arrays.nic_in[like]),
        nic_out=np.append(arrays.nic_out, arrays.nic_out[like]),
        disk_read=np.append(arrays.disk_read, arrays.disk_read[like]),
        disk_write=np.append(arrays.disk_write, arrays.disk_write[like]),
        cores=np.append(arrays.cores, arrays.cores[like]),
        disk_bytes=np.append(arrays.disk_bytes, arrays.disk_bytes[like]),
        partitions_max=np.append(arrays.partitions_max, arrays.partitions_max[like]),
    )

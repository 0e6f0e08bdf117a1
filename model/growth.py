"""A cluster with more brokers than it has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .arrays import ClusterArrays


def with_new_brokers(arrays: ClusterArrays, count: int) -> ClusterArrays:
    """`count` empty brokers more, with the next free ids, always in the rack that has the fewest; each is built like
    the first broker of its rack.
    """
    in_rack = np.bincount(arrays.racks, minlength=len(arrays.rack_names))
    added = np.zeros(count, dtype=np.int32)
    for number in range(count):
        added[number] = np.argmin(in_rack)
        in_rack[added[number]] += 1
    firsts = np.array([np.argmax(arrays.racks == rack) for rack in range(len(in_rack))], dtype=np.int64)
    like = firsts[added]
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

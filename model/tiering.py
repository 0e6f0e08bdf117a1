"""How much of a partition waits for its upload at a time: leaders roll, upload and trim while replicas are built.

    pending(t) = pending(0) + produced(t) - uploaded(t)
    uploaded(t) = min(closed(t - interval / 2), copied(t))

`closed` are whole segments: the active one is never uploaded. At the start the pending bytes are whole segments that
wait, and a rest that is active. A pass of the remote log manager finds a closed segment after half an interval on
average. Copying continues at the partition's part of its leader's quota, which all tiered partitions of the leader
share evenly. Without a quota copying is taken to keep up.
"""

from __future__ import annotations

import numpy as np

from .arrays import ClusterArrays, Floats, Ints


def pending_at(arrays: ClusterArrays, partitions: Ints, at_s: Floats) -> Floats:
    """Bytes from the next upload to the log end, of each of these partitions at its time (seconds since the start)."""
    before = arrays.pending_bytes[partitions]
    topics = arrays.topic[partitions]
    segment = arrays.segment_bytes[topics]
    produced = arrays.produce[partitions] * at_s
    pass_s = arrays.rlm.interval_s / 2
    found = before + arrays.produce[partitions] * np.maximum(0.0, at_s - pass_s)
    closed = np.where(at_s >= pass_s, np.floor(found / segment) * segment, 0.0)
    quota = arrays.rlm.copy_bytes_per_s
    uploaded = closed if quota is None else np.minimum(closed, _copy_rate(arrays, quota)[partitions] * at_s)
    return np.where(arrays.tiered[topics], np.maximum(0.0, before + produced - uploaded), before + produced)


def _copy_rate(arrays: ClusterArrays, quota: float) -> Floats:
    """Bytes for each second that each partition can upload, [P]."""
    copies = arrays.tiered[arrays.topic] & (arrays.leader >= 0)
    led = np.bincount(arrays.leader[copies], minlength=arrays.broker_count)
    return np.where(copies, quota / np.maximum(1, led[arrays.leader]), 0.0)

"""The decisions of a broker that need only values. Pure.

cluster_image   names what a broker knows of its cluster: brokers, topics, partitions.
metadata_view   replays metadata records into immutable cluster images.
image_changes   finds the partitions of a broker that differ between two images.
follower_reads  decides what a consumer may read from a follower (KIP-392).
write_rules     says what Produce must not write: internal topics, transactions that no coordinator tracks.
read_replicas   chooses the replica that a consumer should read from (`replica.selector.class`).
move_throttle   says when replicas may be copied on between log directories.
recompression   rewrites a batch in the topic's codec (`compression.type`).
"""

from __future__ import annotations

from .metadata_view import MetadataView
from .read_replicas import ReadReplica, ReplicaSelector

__all__ = [
    "MetadataView",
    "ReadReplica",
    "ReplicaSelector",
]

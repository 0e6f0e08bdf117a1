"""Decides what is known of share-partitions: pure, without a log, a clock or a network.

batches  the delivery states of a share-partition's records, as disjoint ranges of offsets.
records  the records of `__share_group_state` in Kafka's format.
state    one share-partition: what its records add up to, and which record a request becomes.
shard    the share-partitions of one partition of `__share_group_state`, with what is not committed yet.
"""

"""The coordinator of consumer groups, classic and of KIP-848: their members, and the offsets they committed.

coordinator   routes a group's requests to the partition of `__consumer_offsets` that holds it.
core/         decides: one group as a state machine, and the groups of one partition.
active_shard  performs what the groups of one led partition decide, on the runtime of `broker.coordinator`.
decided_groups performs the decisions of groups that are what their records add up to.
consumer_groups performs those of groups of KIP-848.
share_groups performs those of share groups (KIP-932), and has share-partitions initialized.
settings      reads the coordinator's keys from the broker's configuration.
"""

"""The share coordinator: keeps what is delivered of share-partitions in `__share_group_state` (KIP-932).

coordinator   routes the requests for a share-partition to the partition of the topic that holds it.
core/         decides: one share-partition, and those of one partition of the topic.
active_shard  performs what is decided of the share-partitions of one led partition, and deletes what is not needed.
client        asks share coordinators for what the group coordinator and the leaders of partitions need.
settings      reads the coordinator's keys from the broker's configuration.
"""

"""The coordinator of transactions: who may write in one, and how it ends, on every partition or on none.

parts         composes the coordinator, the sender of markers, and the verifier of one broker.
coordinator   routes a transactional id's requests to the partition of `__transaction_state` that holds it.
core/         decides: one transactional id as a state machine, and those of one partition.
active_shard  performs what the machines of one led partition decide, on the runtime of `broker.coordinator`.
markers       writes the markers of transactions to the leaders of their partitions until all have them.
verifier      verifies that a batch belongs to an ongoing transaction, before it is appended (KIP-890).
settings      reads the coordinator's keys from the broker's configuration.
"""

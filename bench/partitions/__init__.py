"""A broker with thousands of partitions: start, steady state, failover, stop (`bench partitions`).

command    runs the cluster, and measures.
producers  measures the producers of one partition: their memory, and pauses by snapshots and expiry.
"""

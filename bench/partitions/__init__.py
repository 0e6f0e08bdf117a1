"""A broker with thousands of partitions: start, steady state, failover, stop (`bench partitions`).

command    runs the cluster, and measures.
bare_loop  measures what the machine does to an event loop that has nothing to do.
producers  measures the producers of one partition: their memory, and pauses by snapshots and expiry.
"""

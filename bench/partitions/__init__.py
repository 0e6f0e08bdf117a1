"""A broker with thousands of partitions: start, steady state, failover, stop (`bench partitions`).

command  runs the cluster, and measures.
"""

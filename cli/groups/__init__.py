"""`tierfetch groups`: consumer groups, their members, offsets and lag, on any Kafka cluster.

command       the commands and their tables.
coordinators  asks the coordinator of each group, and waits for one that is just being found.
lag           pairs committed offsets with the ends of partitions.
reset         decides the new offset of each partition; pure.
"""

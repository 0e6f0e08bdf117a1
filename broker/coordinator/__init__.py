"""The one runtime of all coordinators: each leads partitions of an internal topic, and what it knows is in them.

roles         the partitions that this broker leads, where a key is coordinated, and what is done each interval.
shard         one led partition, from the beginning of a leader epoch to its end: loading, tasks, timers, requests.
core          keeps the last record of each key of a compacted topic, and values of open transactions.
log_reader    reads a partition from its start when leadership begins, in slices.
compacted_shard  is a shard of a compacted topic: only the last record of each key is decoded.
log_writer    appends a partition's records and wakes the callers once they are committed.
state_topic   the internal topic, made by the first who needs it, and which of its partitions holds a key.
"""

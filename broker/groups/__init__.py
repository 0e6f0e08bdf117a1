"""The coordinator of consumer groups (classic protocol): their members, and the offsets they committed.

coordinator   routes a group's requests to the partition of `__consumer_offsets` that holds it.
core/         decides: one group as a state machine, and the groups of one partition.
active_shard  runs one led partition from the beginning of a leader epoch to its end.
loader        replays a partition from its start when leadership begins.
writer        appends a partition's records and wakes the callers once they are committed.
settings      reads the coordinator's keys from the broker's configuration.
"""

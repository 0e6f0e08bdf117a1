"""One consumer group, and the groups of one partition of `__consumer_offsets`, as state machines. Pure.

events       What a group hears and what it wants done
group        One consumer group of the classic protocol
group_state  What one group is at a moment, how it got there, and what every part of its behaviour needs: no
membership   Who belongs to one group
rebalance    A rebalance
records      The records of `__consumer_offsets`
shard        The groups of one partition of `__consumer_offsets`, and their offsets
"""

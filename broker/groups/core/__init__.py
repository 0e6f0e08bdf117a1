"""One consumer group, and the groups of one partition of `__consumer_offsets`, as state machines. Pure.

group        is the state machine of one group: `step(event, now) -> effects`.
events       declares the values that go into `step` and come out of it.
group_state  holds the state of one group; it decides nothing.
membership   keeps the members, their leader, and the protocols that all of them support.
rebalance    runs a rebalance: members join, the leader assigns, the assignment is committed.
shard        holds the groups of one partition and their committed offsets.
decided      holds decisions of groups that are what their records add up to, and takes them back.
targeted     is what groups have in common whose members move towards a target assignment.
memory       limits what the members of groups take.
records      encodes and decodes the records of `__consumer_offsets`.
"""

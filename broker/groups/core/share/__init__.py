"""Share groups (KIP-932): the coordinator assigns, and several members may share a partition.

records    bytes and values of Kafka's ShareGroup* records in `__consumer_offsets`.
assignor   gives each partition to as many members as it needs, and each member something to do.
state      one group: what its records add up to, and the sessions of its members.
heartbeat  decides a heartbeat: joins, stays, leaves, is fenced.
starts     lets share-partitions begin: what has to be initialized, is, or is deleted.
"""

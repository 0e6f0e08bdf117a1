"""Consumer groups of KIP-848: the coordinator assigns, members acknowledge.

records      bytes and values of Kafka's ConsumerGroup* records in `__consumer_offsets`.
topics       the topics of the cluster as groups see them, and regular expressions over their names.
assignors    the port of server-side assignors, with `uniform` and `range`.
state        one group: what its records add up to, and the deadlines of its members.
reconcile    moves one member one step towards its target assignment.
decision     the parts of every decision: subscribe, assign, advance, remove, resolve.
subscription what clients of the classic protocol say and are given, as bytes.
migration    carries a group from the classic protocol to this one, and back.
classic      serves members of the classic protocol while clients are upgraded.
heartbeat    decides a heartbeat: joins, stays, leaves, is fenced.
"""

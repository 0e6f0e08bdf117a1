"""How a follower keeps up with its leader: epoch validation, truncation, bootstrap from the tier, resume.

It knows a leader only as an endpoint, and the leader's half of the same protocol as pure functions.

core/              decides: the answer to a Fetch, the truncation point, where an empty follower begins.
ports              declares what a follower needs: the leader, and the partition it replicates into.
replica_fetcher    fetches any number of partitions from one leader.
followed_replica   holds one replica's state, back-off and costs.
wanted_partitions  keeps the list of partitions to fetch, and revisits only those that changed.
bootstrap_runner   runs one bootstrap: it asks the leader and the tier, prepares, and commits.
policy_registry    finds the bootstrap policy that is configured.
aux_state          rebuilds leader epochs and producer state from the tier (KIP-405).
all_done           waits for several tasks.

Other folders import decisions from `fetcher.core`, and the rest from its module: exported here, the shells would be
loaded with every decision, by the quorum's core too.
"""

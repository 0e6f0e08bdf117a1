"""How a follower keeps up: epoch validation, truncation, bootstrap from the tier, resume.

Knows a leader only as an endpoint, and the leader's half of the same protocol as pure functions.

    decides (pure)                                     does
    -------------------------------------------------  ------------------------------------------------------------
    epoch_fetch: the leader's answer to a Fetch,       replica_fetcher: one leader, many partitions
      the follower's truncation point                  bootstrapper: one attempt to begin, asked and committed
    leader_offsets: answers to ListOffsets             aux_state: leader epochs and producer state from the tier
    leader_replicas: high watermark and ISR            ports: what both need from outside
    bootstrap, policies: where to begin
    fetch_outcome: what a follower makes of an answer
"""

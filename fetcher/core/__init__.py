"""The decisions of one validated Fetch, on the leader's and on the follower's side, and of a bootstrap. Pure.

partition_fetch    declares the request and the response of one partition.
epoch_fetch        decides the leader's answer to a Fetch, and where the follower truncates (KIP-101, KIP-595).
fetch_outcome      decides what a follower does with an answer that disagrees with its log.
policies           chooses where an empty follower begins: one generator for each bootstrap policy.
bootstrap          declares the requests, replies and decisions of a bootstrap, and when a policy may act.
leader_offsets     answers ListOffsets with a special timestamp (KIP-405, KIP-1005, KIP-1023).
leader_replicas    keeps followers' positions in one leader epoch; derives high watermark and ISR changes.
replication_quota  limits how fast replicas outside the ISR are filled (KIP-73).
fetched_records    finds the first byte and the last whole batch in a Fetch answer.
"""

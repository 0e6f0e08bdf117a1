"""The decisions of one validated Fetch, on the leader's and on the follower's side, and of a bootstrap. Pure.

bootstrap          Where an empty follower begins
epoch_fetch        One epoch-validated Fetch
fetch_outcome      What a follower does with the leader's answer for one partition where the two do not agree
fetched_records    The edges of the record bytes in a Fetch answer
leader_offsets     A leader's answers to ListOffsets with a special timestamp (KIP-207, KIP-405, KIP-1005
leader_replicas    What a leader knows of its followers under one leader epoch, and what follows
policies           The bootstrap policies
replication_quota  How fast replicas that are not in sync may be filled
"""

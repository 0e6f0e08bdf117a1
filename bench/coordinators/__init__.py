"""What coordinators cost, and how long their clients wait: transactions, groups, many groups.

raw           asks clusters by protocol: features, topics, coordinators.
roster        knows which member of a group owns and has read what, and when a condition of it holds.
members       are members of groups by protocol: classic, KIP-848.
transactions  measures transactions of librdkafka: commits a second, latency from end to end.
groups        measures the time to the first record of a group, and to that after a member was killed.
real_members  is a group of librdkafka's consumers.
killed_member is a group of librdkafka's processes, one of which is killed.
population    is many groups in one process: they join, send heartbeats, commit.
scale         measures a broker that coordinates a thousand groups.
loading       measures what a coordinator spends on its log when it takes over.
"""

"""Who speaks to a cluster in another's name, from a host that no fault hits; nothing that they say may count.

impostors       `Impostors` ask to be registered in the place of brokers that live.
quorum_ghost    `QuorumGhost` sends voters every request of the quorum with epochs that none reaches.
zombie_brokers  `ZombieBrokers` wakes processes of the past, which controllers and leaders have to refuse.
"""

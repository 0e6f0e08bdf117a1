"""Which replicas go where, with as few bytes as possible, and how a plan is carried out.

    goals.py         what is asked for: replace, add, remove, rebalance
    costs.py         bytes that a new replica copies: what is not tiered, by policy
    placement.py     a cluster while it is being planned: who may take which replica
    forced.py        replicas whose broker goes, or whose rack is shared
    balancing.py     replicas that move so that numbers and disks are even
    leaders.py       who leads: even, at no bytes, and never a replica that is still thin
    bounds.py        how few moves and bytes could do at best
    waves.py         in which order, so that producers keep their headroom
    tier_first.py    what it saves to have leaders roll and tier before
    planner.py       all of it, arrays to arrays
    plan_file.py     the JSON of kafka-reassign-partitions, with the rest of a plan beside it
    execution.py     what to do next with a plan on a live cluster; progress.py, journal.py: what it knows

Everything here is pure; the last three know no numpy.
"""

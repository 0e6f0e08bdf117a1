"""Which replicas go where, with as few bytes as possible, and how a plan is carried out. Everything here is pure.

Planning, arrays to arrays (numpy):

    goals.py          what is asked for: replace, add, remove, rebalance
    costs.py          bytes that a new replica copies: what is not tiered, by policy
    placement.py      a cluster while it is being planned: who may take which replica
    forced.py         replicas whose broker goes, or that share a rack
    balancing.py      how many replicas, and bytes, each broker gives and takes; handing.py, choice.py: which, to whom
    disks.py          what is left to be evened out on disks
    leaders.py        who leads: even, at no bytes, and never a replica that is still thin
    bounds.py         how few moves and bytes could do at best
    headroom.py       what producers leave; waves.py: in which order, so that they keep it
    tier_first.py     what it saves to have leaders roll and tier before
    planner.py        all of it
    plan_arrays.py    to and from files

Carrying out, without numpy:

    plan_file.py      the JSON of kafka-reassign-partitions, with the rest of a plan beside it
    preflight.py      what of a plan is to be done, and what forbids it
    journal.py        what its execution remembers; cluster_state.py: what the cluster says
    throttling.py     the configs of a throttle
    execution.py      what to do next
"""

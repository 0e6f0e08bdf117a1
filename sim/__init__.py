"""Deterministic simulation: the production nodes, unchanged, on virtual time, with faults chosen by one seed.

Each room knows the ones below it only; `cli/simulate.py` is the only door from the rest of the program.

scenarios  run a cluster or a quorum with its clients, from the options of a seed to a report
faults     draw the schedule of faults of a seed, make them happen, and shorten a schedule that fails
judges     look at everything that runs, and raise the violation of an invariant at its event
machine    is the world: event loop, network, machines, disks, clocks and object store
"""

"""A model of a cluster: how long broker replacement, rebalance and failover take, and what they cost.

inventory.py        what a person or a capture writes (YAML or JSON), read and checked
inventory_parts.py  its values: brokers, racks, tier, topics, partitions
checks.py           what an inventory may not say, and what it says that is unwise
arrays.py           the same as numpy arrays, which planner and engine take
calibration.py      what was measured of a system: fixed seconds, rates, CPU
moves.py            replicas that are to be built elsewhere
results.py          what the engine answers
"""

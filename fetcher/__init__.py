"""How a follower keeps up: epoch validation, truncation, bootstrap from the tier, resume.

Knows a leader only as an endpoint, and the leader's half of the same protocol as pure functions.
"""

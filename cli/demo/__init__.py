"""`tierfetch demo`: replace a broker under each bootstrap policy, time it, and prove the result.

command   is the command.
scenario  produces, tiers, then kills, wipes and replaces the follower for each policy.
proof     compares the replica's bytes with the leader's, and reads everything back.
report    writes the JSON document, the table and the chart.
"""

from .command import demo

__all__ = ["demo"]

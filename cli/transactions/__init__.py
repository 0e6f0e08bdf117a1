"""`tierfetch transactions`: what transactions there are, and how one that will not end is ended.

command   has the commands and prints their results.
asking    asks coordinators for transactions, leaders for producers, and has markers written.
hanging   decides which open transactions of partitions no coordinator will ever end. Pure.
"""

from .command import transactions

__all__ = ["transactions"]

"""`tierfetch model`: how long replacement, rebalance and failover take, before anybody touches a cluster."""

from .command import model

__all__ = ["model"]

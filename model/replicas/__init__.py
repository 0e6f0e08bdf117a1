"""What becomes of single replicas while moves run: what throttles let through, how sure each time is. Pure.

throttles  holds what replication throttles let through in a burst.
joining    computes how sure the time is at which each replica joins.
"""

from .joining import MACHINE, Factors, Joining, factors_of, joining_of
from .throttles import Throttle

__all__ = ["MACHINE", "Factors", "Joining", "Throttle", "factors_of", "joining_of"]

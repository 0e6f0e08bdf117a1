"""What becomes of single replicas while moves run: who lags, what throttles let through, how sure each time is. Pure.

lags       holds the followers that copy already when moves begin.
throttles  holds what replication throttles let through in a burst.
joining    computes how sure the time is at which each replica joins.

The model's arrays hold lags, and the other modules need these arrays: names are imported when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .joining import MACHINE, Factors, Joining, factors_of, joining_of
    from .lags import Lags, copying
    from .throttles import Throttle

__all__ = ["MACHINE", "Factors", "Joining", "Lags", "Throttle", "copying", "factors_of", "joining_of"]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "Factors": "joining",
            "Joining": "joining",
            "Lags": "lags",
            "MACHINE": "joining",
            "Throttle": "throttles",
            "copying": "lags",
            "factors_of": "joining",
            "joining_of": "joining",
        },
    )

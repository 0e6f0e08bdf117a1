"""Whether the quorum's epoch stays where elections put it.

| invariant     | violated when                                                                                     |
|---------------|---------------------------------------------------------------------------------------------------|
| bounded epoch | a replica's epoch is above what a run's elections reach: a peer was believed that named a number |

Epochs are 31 bits and never fall: a quorum whose epoch a stranger has raised to the last no longer has a leader.
"""

from __future__ import annotations

from typing import Final

from ..events import Observed, QuorumEpochMoved
from ..partition import InvariantViolationError

EPOCH_MAX: Final = 2_000
"""A run is a few hundred elections at most; requests of strangers may add a thousand (`quorum/core/requests.py`)."""


class QuorumEpochsJudge:
    """Judges every epoch that a replica of the quorum takes."""

    def on(self, event: Observed) -> None:
        if isinstance(event, QuorumEpochMoved) and event.epoch > EPOCH_MAX:
            raise InvariantViolationError("bounded epoch", f"{event.host} is in epoch {event.epoch}")

"""The engine's face: `simulate`. What it computes is described in docs/model.md."""

from __future__ import annotations

from .arrays import ClusterArrays
from .calibration import Calibration
from .inventory import Policy
from .moves import Moves
from .results import ModelResult


def simulate(arrays: ClusterArrays, moves: Moves, policy: Policy, calibration: Calibration) -> ModelResult:
    """All moves, until each has ended or never will."""
    raise NotImplementedError

"""What clients are given."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.sim.history import History
from tierfetch.sim.invariants import InvariantViolationError
from tierfetch.sim.workload import Shared


def test_a_producer_id_is_given_out_once() -> None:
    shared = Shared(History(), lambda: 0, asyncio.Event())
    shared.take_producer_id(1)
    shared.take_producer_id(2)
    with pytest.raises(InvariantViolationError, match="new producer id: 1 is somebody's already"):
        shared.take_producer_id(1)

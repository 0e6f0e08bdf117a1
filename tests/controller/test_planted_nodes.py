"""A bug of the controller's shell, planted and caught by seeds of `chaos`."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from tierfetch.controller.core import batches
from tierfetch.controller.node import ControllerNode
from tierfetch.controller.records import encode_record

from .chaos import Chaos
from .nodes import simulate

SEEDS = 5


@pytest.mark.slow
def test_answering_before_the_commit_is_found() -> None:
    async def commit(self: ControllerNode, result: Any) -> None:
        for records in batches(result):
            await self._node.append(self._epoch, [encode_record(record) for record in records])

    with patch.object(ControllerNode, "_commit", commit):
        for seed in range(1, SEEDS + 1):
            try:
                simulate(lambda cluster: Chaos(cluster, cluster.world.rng("chaos")).run(), seed)
            except (AssertionError, TimeoutError):
                return
    pytest.fail(f"not found in {SEEDS} seeds")

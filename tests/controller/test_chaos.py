"""C5, C6, C9 under faults: whole seeds of controllers and brokers that crash, stop, and lose their network."""

from __future__ import annotations

import pytest

from .chaos import Chaos
from .nodes import simulate


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_C5_controllers_and_brokers_agree_after_any_faults(seed: int) -> None:
    simulate(lambda cluster: Chaos(cluster, cluster.world.rng("chaos")).run(), seed)

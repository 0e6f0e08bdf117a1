"""C5, C6, C9 under faults: whole seeds of controllers and brokers that crash, stop, and lose their network."""

from __future__ import annotations

import pytest

from .chaos import Chaos
from .nodes import simulate


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_C5_controllers_and_brokers_agree_after_any_faults(seed: int) -> None:
    simulate(lambda cluster: Chaos(cluster, cluster.world.rng("chaos")).run(), seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_C5_also_with_a_snapshot_every_moment(seed: int) -> None:
    simulate(
        lambda cluster: Chaos(cluster, cluster.world.rng("chaos")).run(),
        seed,
        metadata_log_max_record_bytes_between_snapshots="2000",
    )

"""Faults of disks and of the store that a seed draws beside its schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from tierfetch.sim.faults.hardware import OF_A_HOST, OF_THE_STORE, hardware, open_files
from tierfetch.sim.faults.schedule import HARDWARE_KINDS, Fault, FaultKind

NODES = ("a", "b", "c", "d", "e")
SAFETY_MS = 15_000


def drawn(seed: int, nodes: Sequence[str] = NODES, *, has_store: bool = True) -> list[Fault]:
    return hardware(Random(seed), nodes, SAFETY_MS, has_store=has_store)


@pytest.mark.parametrize("nodes", [NODES, NODES[:3]])
def test_half_of_the_seeds_have_some_and_every_kind_comes(nodes: Sequence[str]) -> None:
    seeds = [drawn(seed, nodes) for seed in range(200)]
    assert 60 < sum(not faults for faults in seeds) < 140
    kinds = Counter(fault.kind for faults in seeds for fault in faults)
    assert kinds.keys() == {*OF_A_HOST, *OF_THE_STORE, FaultKind.LOST_PAGES} == HARDWARE_KINDS - {FaultKind.OPEN_FILES}
    assert not any(fault.kind in OF_THE_STORE for seed in range(50) for fault in drawn(seed, has_store=False))


def test_in_some_seeds_a_node_that_is_well_has_no_descriptor_left() -> None:
    seeds = [open_files(Random(seed), NODES, ("a", "b"), SAFETY_MS) for seed in range(300)]
    assert 5 < sum(bool(faults) for faults in seeds) < 40
    assert {target for faults in seeds for fault in faults for target in fault.targets} == {"c", "d", "e"}
    assert all(fault.end_ms <= SAFETY_MS for faults in seeds for fault in faults)
    assert not any(open_files(Random(seed), NODES, NODES, SAFETY_MS) for seed in range(100))


def test_they_end_with_the_safety_phase_and_a_host_has_one_kind() -> None:
    for seed in range(100):
        faults = drawn(seed)
        assert faults == drawn(seed)
        assert all(fault.end_ms <= SAFETY_MS for fault in faults)
        pairs = {(fault.targets, fault.kind) for fault in faults if fault.targets}
        assert len(pairs) == len({targets for targets, _ in pairs})

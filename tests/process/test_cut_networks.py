"""A broker on a machine of its own (a network namespace): its network is cut, or its process dies.

The two look different to a controller: a dead process refuses a connect, a network that is cut says nothing. So the
first is fenced on proof and the second when its session ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.tests.process.namespaces import AWAY, BROKERS, Machine, SplitCluster, needs_namespaces

pytestmark = [pytest.mark.faults, needs_namespaces]


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


@pytest.fixture
def cluster(tmp_path: Path, machine: Machine) -> Iterator[SplitCluster]:
    with SplitCluster(tmp_path, machine) as cluster:
        yield cluster


def test_C1_a_network_that_is_cut_is_no_death(cluster: SplitCluster, machine: Machine) -> None:
    machine.cut()
    cluster.wait_live(gone=frozenset({AWAY}))
    assert not cluster.is_fenced_on_proof(), "its session had to end"
    machine.mend()
    cluster.wait_live(set(BROKERS))
    assert not cluster.is_fenced_on_proof()


def test_C1_a_process_that_dies_on_another_machine_is_fenced_on_proof(cluster: SplitCluster) -> None:
    cluster.wait_reached()
    cluster.kill(AWAY)
    cluster.wait_live(gone=frozenset({AWAY}))
    assert cluster.is_fenced_on_proof()
    cluster.start(AWAY)
    cluster.wait_live(set(BROKERS))

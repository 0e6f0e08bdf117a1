"""The table of faults beside the schedule: each row is drawn, and fits where it is drawn for."""

from __future__ import annotations

import itertools
from random import Random

from tierfetch.sim.faults.schedule import AT_ONCE, TABLE_KINDS, Fault, FaultKind
from tierfetch.sim.faults.table import EARLIEST_MS, ROWS, Cast, beside

SAFETY_MS = 15_000
CLUSTER = Cast(
    nodes=("broker-1", "broker-2", "controller-1"), brokers=("broker-1", "broker-2"), clients=("c",), has_store=True
)
QUORUM = Cast(nodes=("controller-1", "controller-2"))


def drawn(cast: Cast) -> list[list[Fault]]:
    return [beside(Random(seed), cast, SAFETY_MS) for seed in range(300)]


def test_every_kind_of_the_table_has_a_row_and_is_drawn() -> None:
    assert {row.kind for row in ROWS} == TABLE_KINDS
    kinds = {fault.kind for faults in drawn(CLUSTER) for fault in faults}
    assert kinds == TABLE_KINDS | {FaultKind.PROCESS_CRASH}, "one that must be down is killed before"


def test_a_quorum_has_neither_a_store_nor_topics() -> None:
    kinds = {fault.kind for faults in drawn(QUORUM) for fault in faults}
    assert kinds == {FaultKind.RESETS, FaultKind.REFUSED, FaultKind.QUORUM_GHOST}


def test_faults_begin_once_all_is_up_end_in_time_and_hit_who_is_there() -> None:
    for faults in drawn(CLUSTER):
        for fault in faults:
            assert EARLIEST_MS <= fault.at_ms <= fault.end_ms <= SAFETY_MS, fault
            assert set(fault.targets) <= {*CLUSTER.nodes, *CLUSTER.clients}, fault
            assert (fault.duration_ms == 0) == (fault.kind in AT_ONCE), fault


def test_most_seeds_have_none_so_that_what_is_known_of_them_stays_true() -> None:
    assert sum(not faults for faults in drawn(CLUSTER)) > 150


def test_a_broker_is_unregistered_while_it_is_down() -> None:
    for faults in drawn(CLUSTER):
        pairs = [(crash, fault) for crash, fault in itertools.pairwise(faults) if fault.kind is FaultKind.UNREGISTER]
        for crash, fault in pairs:
            assert crash.kind is FaultKind.PROCESS_CRASH
            assert crash.targets == fault.targets
            assert crash.at_ms < fault.at_ms < crash.end_ms

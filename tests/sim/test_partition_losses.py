"""What the fault model permits to be lost, case by case."""

from __future__ import annotations

from tierfetch.sim.judges.core.allowed_losses import PartitionLosses

NEVER = 2**63 - 1


def test_one_member_that_kept_it_is_enough() -> None:
    losses = PartitionLosses(NEVER)
    losses.machine_crashed(1, surviving_end=3, committed_end=10)
    assert losses.allowed_from([1, 2], 10) is None
    assert losses.allowed_from([1], 10) == 3


def test_all_members_lost_it_from_the_lowest_end_on() -> None:
    losses = PartitionLosses(NEVER)
    losses.machine_crashed(1, surviving_end=3, committed_end=10)
    losses.machine_crashed(2, surviving_end=7, committed_end=10)
    assert losses.allowed_from([1, 2], 10) == 3
    assert losses.allowed_from([2], 10) == 7


def test_flush_messages_bounds_what_is_permitted() -> None:
    losses = PartitionLosses(1)
    losses.machine_crashed(1, surviving_end=3, committed_end=10)
    assert losses.allowed_from([1], 10) is None
    every_fourth = PartitionLosses(4)
    every_fourth.machine_crashed(1, surviving_end=3, committed_end=10)
    assert every_fourth.allowed_from([1], 10) == 7


def test_what_was_not_committed_needs_no_excuse() -> None:
    losses = PartitionLosses(NEVER)
    losses.machine_crashed(1, surviving_end=8, committed_end=10)
    assert losses.allowed_from([1], 8) is None


def test_a_member_that_is_level_again_counts_again() -> None:
    losses = PartitionLosses(NEVER)
    losses.machine_crashed(1, surviving_end=0, committed_end=10)
    losses.is_running(1, 5, 10)
    assert losses.allowed_from([1], 10) == 0
    losses.is_running(1, 10, 10)
    assert losses.allowed_from([1], 10) is None


def test_an_empty_isr_excuses_nothing() -> None:
    assert PartitionLosses(NEVER).allowed_from([], 10) is None


def test_a_wiped_member_never_leads_and_decides_nothing() -> None:
    losses = PartitionLosses(NEVER)
    losses.wiped(1)
    assert losses.has_lost(1)
    assert losses.allowed_from([1], 10) is None
    assert losses.allowed_from([1, 2], 10) is None
    losses.machine_crashed(2, surviving_end=4, committed_end=10)
    assert losses.allowed_from([1, 2], 10) == 4

"""Each invariant on statuses made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfetch.log.core import EpochEntry
from tierfetch.sim.judges.core.partition import (
    InvariantViolationError,
    PartitionJudge,
    ReplicaStatus,
    first_difference,
)


def status(node: int, *, hw: int, end: int, epoch: int = 0, leads: bool = False, epochs=((0, 0),), **changes):
    made = ReplicaStatus(
        node_id=node,
        incarnation=1,
        leader_epoch=epoch,
        leads_epoch=epoch if leads else None,
        log_start_offset=0,
        local_log_start_offset=0,
        high_watermark=hw,
        log_end_offset=end,
        epochs=tuple(EpochEntry(*entry) for entry in epochs),
    )
    return replace(made, **changes)


def violated(invariants: PartitionJudge, now: ReplicaStatus) -> str:
    with pytest.raises(InvariantViolationError) as caught:
        invariants.observe(now)
    return caught.value.invariant


def committed(end: int = 10) -> PartitionJudge:
    """Node 1 led epoch 0 and reported everything below `end`; node 2 has it."""
    invariants = PartitionJudge("t-0")
    invariants.observe(status(1, hw=end, end=end, leads=True))
    invariants.observe(status(2, hw=end - 1, end=end))
    return invariants


def test_clean_leader_change() -> None:
    invariants = committed()
    invariants.observe(status(2, hw=9, end=10, epoch=1, leads=True, epochs=((0, 0), (1, 10))))
    invariants.observe(status(2, hw=12, end=12, epoch=1, leads=True, epochs=((0, 0), (1, 10))))
    assert invariants.committed_end == 12
    invariants.observe(status(1, hw=10, end=10, epoch=1))


def test_two_leaders_of_one_epoch() -> None:
    assert violated(committed(), status(2, hw=10, end=10, leads=True)) == "one leader an epoch"


def test_epoch_goes_back() -> None:
    invariants = committed()
    invariants.observe(status(2, hw=9, end=10, epoch=3))
    assert violated(invariants, status(2, hw=9, end=10, epoch=2)) == "monotonic epoch"
    invariants.forget(2)
    invariants.observe(status(2, hw=9, end=10, epoch=2))


def test_watermark_of_a_leader_goes_back() -> None:
    assert violated(committed(), status(1, hw=9, end=10, leads=True)) == "monotonic watermark"


def test_a_leader_without_what_was_committed() -> None:
    behind = status(2, hw=9, end=9, epoch=1, leads=True, epochs=((0, 0), (1, 9)))
    assert violated(committed(), behind) == "committed never lost"


def test_a_leader_with_another_history() -> None:
    invariants = committed()
    other = status(2, hw=11, end=11, epoch=1, leads=True, epochs=((0, 0), (1, 9)))
    assert violated(invariants, other) == "committed never lost"


def test_a_deposed_leader_may_end_anywhere_above_its_watermark() -> None:
    invariants = committed()
    invariants.observe(status(2, hw=12, end=12, epoch=1, leads=True, epochs=((0, 0), (1, 10))))
    invariants.observe(status(1, hw=10, end=14, epoch=0, leads=True))
    assert violated(invariants, status(1, hw=11, end=14, epoch=0, leads=True)) == "no divergence"


def test_a_follower_that_differs_below_its_watermark() -> None:
    invariants = committed()
    invariants.observe(status(2, hw=12, end=12, epoch=1, leads=True, epochs=((0, 0), (1, 10))))
    assert violated(invariants, status(3, hw=11, end=12, epoch=1)) == "no divergence"
    committed().observe(status(3, hw=10, end=12, epoch=0))


def test_a_watermark_that_no_leader_reported() -> None:
    assert violated(committed(), status(2, hw=11, end=12)) == "no phantom commit"


def test_offsets_out_of_order() -> None:
    assert violated(committed(), status(2, hw=11, end=10)) == "ordered offsets"
    assert violated(committed(), status(2, hw=1, end=10, log_start_offset=5)) == "ordered offsets"


def test_a_truncation_leaves_an_epoch_above_the_end() -> None:
    invariants = committed()
    invariants.observe(status(3, hw=8, end=14, epoch=1, epochs=((0, 0), (1, 12))))
    assert violated(invariants, status(3, hw=8, end=10, epoch=2, epochs=((0, 0), (1, 12)))) == "truncated epochs"
    committed().observe(status(3, hw=8, end=10, epochs=((0, 0), (1, 12))))


def test_forgiven_losses() -> None:
    invariants = committed()
    invariants.forget(1)
    invariants.forgive(6, (1, 2, 3))
    shorter = ((0, 0), (1, 6))
    invariants.observe(status(1, hw=6, end=6, epoch=1, leads=True, epochs=shorter))
    invariants.observe(status(1, hw=9, end=9, epoch=1, leads=True, epochs=shorter))
    invariants.observe(status(2, hw=9, end=10))
    invariants.observe(status(2, hw=6, end=6, epoch=1))
    invariants.observe(status(2, hw=8, end=9, epoch=1, epochs=shorter))
    assert violated(invariants, status(2, hw=9, end=9, epoch=1)) == "no divergence"


def forgiven() -> PartitionJudge:
    """[6, 10) were lost."""
    invariants = committed()
    invariants.forgive(6, (1, 2))
    return invariants


def test_who_led_before_a_loss_commits_nothing_above_it() -> None:
    forgiven().observe(status(1, hw=10, end=12, leads=True))
    assert violated(forgiven(), status(1, hw=11, end=12, leads=True)) == "no phantom commit"


def test_who_believes_in_what_was_lost_believes_in_nothing_above_it() -> None:
    forgiven().observe(status(2, hw=10, end=12))
    assert violated(forgiven(), status(2, hw=11, end=12)) == "no phantom commit"
    assert violated(forgiven(), status(3, hw=9, end=10)) == "no phantom commit"


def test_doubts_end_with_the_last_replica_that_follows_or_goes() -> None:
    invariants = forgiven()
    invariants.observe(status(2, hw=6, end=6, epoch=1))
    assert invariants.has_doubts
    invariants.left(1)
    assert not invariants.has_doubts
    assert violated(invariants, status(2, hw=7, end=7, epoch=1)) == "no phantom commit"


def test_a_trimmed_or_adopted_history_is_compared_from_its_start_on() -> None:
    invariants = committed()
    thin = status(3, hw=10, end=10, epochs=((0, 4),), log_start_offset=4, local_log_start_offset=8)
    invariants.observe(thin)
    other = replace(thin, epochs=(EpochEntry(1, 4),))
    assert violated(invariants, other) == "no divergence"


def test_first_difference() -> None:
    one = (EpochEntry(0, 0), EpochEntry(2, 5))
    other = (EpochEntry(0, 0), EpochEntry(2, 6))
    assert first_difference(one, other, 0, 10) == 5
    assert first_difference(one, other, 6, 10) is None
    assert first_difference(one, other, 0, 5) is None

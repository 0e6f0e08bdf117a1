"""The judge of what is read, shown to convict damage that no fault has made."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tierfetch.sim.judges.core.events import DamageRead, MomentPassed
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.judges.sound_reads import SoundReadsJudge


def broker(damaged_reads: int) -> Any:
    counters = SimpleNamespace(damaged_reads=damaged_reads)
    return SimpleNamespace(tier=SimpleNamespace(manager=SimpleNamespace(counters=counters)))


def judge(damaged_reads: int = 0, *, may_be_corrupt: bool = False, was_damaged: bool = False) -> SoundReadsJudge:
    brokers = {1: None, 2: SimpleNamespace(tier=None), 3: broker(damaged_reads)}
    return SoundReadsJudge(lambda: may_be_corrupt, lambda: was_damaged, lambda: brokers, Counter())


def test_a_damaged_batch_for_a_reader_is_found_unless_something_may_be_corrupt() -> None:
    with pytest.raises(InvariantViolationError, match="sound reads: a bit"):
        judge().on(DamageRead("a bit"))
    judge(may_be_corrupt=True).on(DamageRead("a bit"))


def test_damage_that_a_broker_has_found_in_the_tier_is_found_unless_a_fault_has_made_it() -> None:
    with pytest.raises(InvariantViolationError, match="sound tier: broker 3 has found damage in the tier 2 times"):
        judge(2).on(MomentPassed())
    judge(2, was_damaged=True).on(MomentPassed())
    judge(0).on(MomentPassed())

"""Offsets of a share group that an operator has set: whoever coordinates says what was acknowledged last."""

from __future__ import annotations

from random import Random

import pytest

from tierfetch.protocol.topics import TopicPartition
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.scenarios.operations.share_offsets import NOWHERE, ShareOffsets


def offsets(lost: tuple[str, ...] = ()) -> ShareOffsets:
    made = ShareOffsets([TopicPartition("in", number) for number in range(2)], (), Random(1), lost.__contains__)
    made.known = {0: 7}
    return made


def test_what_is_told_is_what_was_acknowledged_or_nothing_is_known_of_it() -> None:
    offsets().check({0: 7, 1: 99})


@pytest.mark.parametrize("told", [6, 8, NOWHERE])
def test_another_offset_convicts(told: int) -> None:
    with pytest.raises(InvariantViolationError, match=r"share offsets stay: reset-1 begins at .* acknowledged was 7"):
        offsets().check({0: told})


def test_nothing_is_said_once_coordinators_may_have_lost_something() -> None:
    offsets(("__share_group_state",)).check({0: 6})

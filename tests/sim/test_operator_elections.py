"""A request for an unclean election permits what it may have done, and nothing later."""

from __future__ import annotations

from uuid import UUID

from tierfetch.controller.image.registrations import PartitionKey
from tierfetch.sim.judges.core.truth import OperatorElections

KEY = PartitionKey(UUID(int=1), 0)


def test_nothing_is_permitted_unasked_or_elsewhere() -> None:
    asked = OperatorElections()
    asked.begins(KEY)
    assert not asked.permits(PartitionKey(UUID(int=1), 1))
    assert asked.permits(KEY)


def test_a_request_that_was_answered_permits_nothing_more() -> None:
    asked = OperatorElections()
    asked.begins(KEY)
    asked.ends(KEY, is_answered=True)
    assert not asked.permits(KEY)


def test_one_without_an_answer_may_have_its_effect_once() -> None:
    asked = OperatorElections()
    asked.begins(KEY)
    asked.ends(KEY, is_answered=False)
    assert asked.permits(KEY)
    assert not asked.permits(KEY)

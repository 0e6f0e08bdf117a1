"""A controller that dies inside a transaction (KIP-868)"""

from __future__ import annotations

from uuid import UUID

from tierfetch.controller.records import BeginTransactionRecord, TopicRecord

from .harness import Harness


def test_C5_the_next_controller_aborts_what_was_begun_and_goes_on() -> None:
    harness = Harness()
    harness.start(1, 2)
    harness.append([BeginTransactionRecord(), TopicRecord(name="half", topic_id=UUID(int=7))])
    assert harness.core.next_deadline_ms() == 0
    harness.failover()
    assert not harness.image.is_in_transaction
    assert harness.image.topic("half") is None
    harness.create("t", [1, 2])
    assert harness.image.topic("t") is not None

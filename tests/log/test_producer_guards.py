"""Guards of batches that are verified to be in an ongoing transaction (KIP-890): a marker makes them void, and what
opens the transaction is the batch that came first.
"""

from __future__ import annotations

import pytest

from tierfetch.log.core import ProducerStateManager
from tierfetch.log.core import producers as module
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.records import SEQUENCE_MAX
from tierfetch.tests.log.test_producers import CLIENT, end, marker_batch, refused, transactional

PRODUCER = 7


def test_a_verified_batch_does_not_open_a_transaction_that_has_ended() -> None:
    manager = ProducerStateManager()
    guard = manager.guard(PRODUCER, 0, 0)
    assert manager.guard(PRODUCER, 0, 0) is guard, "batches that are verified at the same time share it"
    assert manager.check(transactional(), CLIENT, guard=guard) is None
    manager.apply(marker_batch(), marker=end())
    assert refused(manager, transactional(1), guard=guard) is ErrorCode.invalid_txn_state
    assert manager.check(transactional(1), CLIENT) is None, "unverified: the log cannot know"
    assert manager.check(transactional(1), CLIENT, guard=manager.guard(PRODUCER, 0, 0)) is None, "verified again"


def test_the_second_batch_of_a_transaction_needs_no_guard_of_its_own() -> None:
    manager = ProducerStateManager()
    guard = manager.guard(PRODUCER, 0, 0)
    manager.apply(transactional())
    assert manager.is_ongoing(PRODUCER, 0)
    assert not manager.is_ongoing(PRODUCER, 1)
    assert manager.check(transactional(1, sequence=1), CLIENT, guard=guard) is None


def test_guards_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GUARDS_MAX", 2)
    manager = ProducerStateManager()
    guards = [manager.guard(producer_id, 0, 0) for producer_id in range(3)]
    assert manager.guard(2, 0, 0) is guards[2]
    assert manager.guard(0, 0, 0) is not guards[0]


def test_the_second_batch_does_not_open_the_transaction_in_the_place_of_the_first() -> None:
    """The first one is refused for a moment, as its coordinator cannot be asked; the log does not know the producer."""
    manager = ProducerStateManager()
    manager.guard(PRODUCER, 0, 0)
    guard = manager.guard(PRODUCER, 0, 8)
    assert refused(manager, transactional(sequence=8), guard=guard) is ErrorCode.out_of_order_sequence_number
    assert manager.check(transactional(), CLIENT, guard=guard) is None
    manager.apply(transactional())
    assert manager.check(transactional(1, sequence=1), CLIENT, guard=guard) is None, "it is open"


def test_a_new_epoch_begins_with_its_own_sequences() -> None:
    manager = ProducerStateManager()
    manager.guard(PRODUCER, 0, 0)
    guard = manager.guard(PRODUCER, 1, 5)
    assert manager.guard(PRODUCER, 0, 0) is guard
    assert manager.check(transactional(epoch=1, sequence=5), CLIENT, guard=guard) is None


def test_a_late_duplicate_keeps_no_later_transaction_from_opening() -> None:
    """A retry of what is in the log may come once its transaction has ended: the log knows which batch is next."""
    manager = ProducerStateManager()
    manager.apply(transactional())
    manager.apply(marker_batch(1), marker=end())
    manager.guard(PRODUCER, 0, 0)
    guard = manager.guard(PRODUCER, 0, 1)
    assert manager.check(transactional(2, sequence=1), CLIENT, guard=guard) is None
    assert refused(manager, transactional(2, sequence=9), guard=guard) is ErrorCode.out_of_order_sequence_number


def test_sequences_begin_again_behind_the_last_one() -> None:
    manager = ProducerStateManager()
    manager.guard(PRODUCER, 0, SEQUENCE_MAX)
    guard = manager.guard(PRODUCER, 0, 0)
    assert refused(manager, transactional(), guard=guard) is ErrorCode.out_of_order_sequence_number
    assert manager.check(transactional(sequence=SEQUENCE_MAX), CLIENT, guard=guard) is None


def test_a_batch_without_a_sequence_keeps_no_other_out() -> None:
    """It is refused where it is appended, which is after it was verified."""
    manager = ProducerStateManager()
    manager.guard(PRODUCER, 0, -1)
    assert manager.check(transactional(), CLIENT, guard=manager.guard(PRODUCER, 0, 0)) is None

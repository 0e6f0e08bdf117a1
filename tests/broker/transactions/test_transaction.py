"""One transactional id: who may begin, write and end (KIP-98, KIP-360, KIP-890)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.broker.transactions.core.events import (
    NO_PRODUCER,
    AddPartitions,
    End,
    Expire,
    Producer,
    Resume,
    TimedOut,
)
from tierfetch.broker.transactions.core.states import PREVIOUS, TransactionState
from tierfetch.protocol import ErrorCode
from tierfetch.tests.broker.transactions.stage import NOW_MS, TIMEOUT_MS, A, B, Stage

State = TransactionState
NONE = ErrorCode.none
FENCED = ErrorCode.producer_fenced
CONCURRENT = ErrorCode.concurrent_transactions
INVALID = ErrorCode.invalid_txn_state
UNMAPPED = ErrorCode.invalid_producer_id_mapping


def begun(version: int = 0) -> Stage:
    """A producer with a transaction on A and B."""
    stage = Stage()
    assert stage.init(version=version).error is NONE
    assert stage.add(A, B) is NONE
    return stage


def ended(*, commit: bool = True, version: int = 0) -> Stage:
    stage = begun(version)
    assert stage.end(commit=commit, version=version).error is NONE
    stage.write_markers()
    return stage


# InitProducerId.


def test_the_first_producer_has_epoch_0() -> None:
    stage = Stage()
    assert stage.init().producer == Producer(1001, 0)
    assert stage.state is State.EMPTY
    assert stage.value.start_ms == -1


def test_the_next_producer_of_the_same_id_fences_the_one_before() -> None:
    stage = Stage()
    first = stage.init().producer
    second = stage.init().producer
    assert second == Producer(first.producer_id, 1)
    assert stage.add(A, producer=first) is FENCED
    assert stage.end(producer=first).error is FENCED
    assert stage.transaction.verify(first, frozenset({A})) is FENCED


def test_a_producer_continues_with_a_bumped_epoch_and_may_ask_twice() -> None:
    stage = Stage()
    first = stage.init().producer
    second = stage.init(first).producer
    assert second.epoch == 1
    assert stage.init(first).producer == second, "the answer was lost, and the request repeated"
    assert stage.init(Producer(first.producer_id, 7)).error is FENCED
    assert stage.init(Producer(77, 0)).error is FENCED


def test_an_open_transaction_is_aborted_before_another_producer_may_begin() -> None:
    stage = begun()
    zombie = stage.producer
    assert stage.init().error is CONCURRENT
    assert stage.state is State.PREPARE_ABORT
    assert stage.markers[-1].producer_epoch == zombie.epoch + 1, "the marker fences the zombie in the logs"
    assert stage.init().error is CONCURRENT, "while markers are written"
    stage.write_markers()
    assert stage.init().producer == Producer(zombie.producer_id, zombie.epoch + 2)
    assert stage.end(producer=zombie).error is FENCED


@pytest.mark.parametrize("continues", [True, False])
def test_a_producer_id_whose_epochs_are_used_up_is_replaced(continues: bool) -> None:
    stage = Stage(replace(ended().value, producer_epoch=32_766))
    old = stage.producer
    fresh = stage.init(old if continues else None).producer
    assert fresh == Producer(1002, 0)
    assert stage.value.previous_producer_id == old.producer_id
    if continues:
        assert stage.init(old).producer == fresh, "a retry"
    else:
        assert stage.init(old).error is FENCED


def test_the_epoch_that_fences_is_never_given_away() -> None:
    stage = Stage(replace(begun().value, producer_epoch=32_766))
    assert stage.init().error is CONCURRENT
    assert stage.value.producer_epoch == 32_767
    stage.write_markers()
    assert stage.init().producer == Producer(1002, 0)


# Partitions.


def test_partitions_are_added_to_what_is_there() -> None:
    stage = Stage()
    stage.init()
    assert stage.add(A) is NONE
    started = stage.value.start_ms
    stage.now_ms += 5
    assert stage.add(B) is NONE
    assert stage.value.partitions == {A, B}
    assert stage.value.start_ms == started
    count = len(stage.records)
    assert stage.add(A, B) is NONE
    assert len(stage.records) == count, "nothing new, no record"


def test_only_what_is_durable_is_verified() -> None:
    stage = Stage()
    stage.init()
    stage.holds = True
    stage.transaction.step(_adding(stage), NOW_MS)
    assert stage.transaction.verify(stage.producer, frozenset({A})) == frozenset()


def _adding(stage: Stage) -> AddPartitions:
    return AddPartitions(token="add", producer=stage.producer, partitions=frozenset({A}))


def test_what_was_not_added_is_not_in_the_transaction() -> None:
    stage = Stage()
    stage.init()
    stage.add(A)
    assert stage.transaction.verify(stage.producer, frozenset({A, B})) == frozenset({A})
    assert stage.transaction.verify(Producer(5, 0), frozenset({A})) is UNMAPPED
    stage.end()
    assert stage.transaction.verify(stage.producer, frozenset({A})) is CONCURRENT
    stage.write_markers()
    assert stage.transaction.verify(stage.producer, frozenset({A})) == frozenset()


def test_nothing_is_added_while_markers_are_written() -> None:
    stage = begun()
    stage.end()
    assert stage.add(A) is CONCURRENT
    stage.write_markers()
    assert stage.add(A) is NONE


@pytest.mark.parametrize("producer", [Producer(1001, 0), NO_PRODUCER])
def test_a_transactional_id_that_was_never_initialized_is_unknown(producer: Producer) -> None:
    stage = Stage()
    assert stage.add(A, producer=producer) is UNMAPPED
    assert stage.end(producer=producer).error is UNMAPPED
    assert stage.transaction.is_idle


# EndTxn, before transaction version 2.


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_once_its_markers_are_written(commit: bool) -> None:
    stage = begun()
    assert stage.end(commit=commit).error is NONE
    assert stage.state is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT)
    assert stage.markers == [stage.value]
    assert stage.end(commit=commit).error is CONCURRENT
    assert stage.end(commit=not commit).error is INVALID
    stage.write_markers()
    assert stage.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert stage.value.partitions == frozenset()
    assert stage.end(commit=commit).error is NONE, "a retry"
    assert stage.end(commit=not commit).error is INVALID


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_without_a_beginning_is_invalid(commit: bool) -> None:
    stage = Stage()
    stage.init()
    assert stage.end(commit=commit).error is INVALID


# EndTxn of transaction version 2.


@pytest.mark.parametrize("commit", [True, False])
def test_each_end_bumps_the_epoch(commit: bool) -> None:
    stage = begun(2)
    before = stage.producer
    after = Producer(before.producer_id, before.epoch + 1)
    assert stage.end(commit=commit, version=2).producer == after
    assert stage.markers[-1].producer_epoch == after.epoch
    assert stage.end(commit=commit, producer=before, version=2).error is CONCURRENT
    assert stage.end(commit=not commit, producer=before, version=2).error is INVALID
    stage.write_markers()
    retried = stage.end(commit=commit, producer=before, version=2)
    assert (retried.error, retried.producer) == (NONE, after), "a retry is told the bumped epoch"
    assert stage.end(commit=not commit, producer=before, version=2).error is INVALID


def test_a_late_end_of_the_transaction_before_does_not_end_this_one() -> None:
    stage = begun(2)
    before = stage.producer
    stage.end(version=2)
    stage.write_markers()
    assert stage.add(A) is NONE
    for commit in (True, False):
        assert stage.end(commit=commit, producer=before, version=2).error is FENCED
    assert stage.state is State.ONGOING


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("epoch", [0, 32_766])
def test_the_next_transaction_waits_for_the_markers_of_the_one_before(epoch: int, commit: bool) -> None:
    """Its client has the bumped epoch, or the next producer id, from the answer to EndTxn: it is no zombie."""
    stage = Stage(replace(begun(2).value, producer_epoch=epoch))
    after = stage.end(version=2).producer
    assert stage.add(A, producer=after) is CONCURRENT
    assert stage.end(commit=commit, producer=after, version=2).error is CONCURRENT
    assert stage.init(after).error is CONCURRENT
    stage.write_markers()
    assert stage.add(A) is NONE
    assert stage.end(commit=commit, producer=after, version=2).error is NONE


@pytest.mark.parametrize("has_ended", [True, False])
def test_nothing_can_be_aborted_with_a_bump_but_not_committed(has_ended: bool) -> None:
    stage = ended(version=2) if has_ended else Stage()
    if not has_ended:
        stage.init()
    before, count = stage.producer, len(stage.markers)
    assert stage.end(commit=True, version=2).error is INVALID
    assert stage.end(commit=False, version=2).producer == Producer(before.producer_id, before.epoch + 1)
    assert stage.state is State.COMPLETE_ABORT
    assert len(stage.markers) == count, "there is no partition that needs one"


def test_the_last_epoch_ends_with_the_next_id() -> None:
    stage = Stage(replace(begun(2).value, producer_epoch=32_766))
    old = stage.producer
    assert stage.end(version=2).producer == Producer(1002, 0)
    marker = stage.markers[-1]
    assert (marker.producer_id, marker.producer_epoch) == (old.producer_id, 32_767), "the logs know the old id"
    stage.write_markers()
    assert stage.producer == Producer(1002, 0)
    assert stage.end(producer=old, version=2).producer == Producer(1002, 0), "a retry"
    assert stage.add(A) is NONE
    assert stage.end(producer=old, version=2).error is UNMAPPED


# Timeouts and expiry.


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_that_is_open_for_too_long_is_aborted(version: int) -> None:
    stage = begun(version)
    zombie = stage.producer
    stage.now_ms += TIMEOUT_MS - 1
    stage.step(TimedOut(version))
    assert stage.markers == []
    stage.now_ms += 1
    stage.step(TimedOut(version))
    assert stage.state is State.PREPARE_ABORT
    assert stage.markers[-1].producer_epoch == zombie.epoch + 1
    stage.write_markers()
    assert stage.add(A, producer=zombie) is FENCED
    assert stage.end(commit=True, producer=zombie, version=version).error is (INVALID if version else FENCED)


def timed_out(stage: Stage, version: int) -> Producer:
    """Let the coordinator abort the transaction of a producer, to the end; return the producer."""
    producer = stage.producer
    stage.now_ms += TIMEOUT_MS
    stage.step(TimedOut(version))
    stage.write_markers()
    return producer


@pytest.mark.parametrize("times_out", [True, False])
def test_an_abort_in_the_place_of_a_producer_takes_the_next_id_in_the_last_epoch(times_out: bool) -> None:
    """As a retry its own late abort would else be given the epoch that fences it, in which no transaction can end."""
    stage = Stage(replace(begun(2).value, producer_epoch=32_766))
    old = stage.producer
    if times_out:
        timed_out(stage, 2)
    else:
        assert stage.init(version=2).error is CONCURRENT
        stage.write_markers()
    marker = stage.markers[-1]
    assert (marker.producer_id, marker.producer_epoch) == (old.producer_id, 32_767), "the logs know the old id"
    assert stage.end(commit=True, producer=old, version=2).error is INVALID
    late = stage.end(commit=False, producer=old, version=2)
    assert (late.error, late.producer) == (NONE, Producer(1002, 0))
    assert stage.add(A, producer=late.producer) is NONE
    assert stage.end(version=2).producer == Producer(1002, 1)


@pytest.mark.parametrize("version", [0, 2])
def test_no_producer_acts_in_the_epoch_that_fences_the_last_one(version: int) -> None:
    stage = Stage(replace(begun().value, producer_epoch=32_766))
    timed_out(stage, 0)
    forged = stage.producer
    assert forged.epoch == 32_767
    assert stage.add(A, producer=forged) is FENCED
    assert stage.end(producer=forged, version=2).error is FENCED
    assert stage.end(commit=False, producer=forged, version=2).error is FENCED
    # Another coordinator may have let it begin: it ends all the same.
    stage = Stage(replace(begun(version).value, producer_epoch=32_767))
    timed_out(stage, version)
    assert stage.state is State.COMPLETE_ABORT
    assert stage.init().producer == (Producer(1002, 1) if version else Producer(1002, 0))


@pytest.mark.parametrize("version", [0, 2])
def test_a_producer_whose_transaction_took_too_long_continues_from_version_2_on(version: int) -> None:
    """As with Kafka: with it the abort is as if the producer had aborted."""
    stage = begun(version)
    old = timed_out(stage, version)
    answer = stage.init(old, version)
    assert (answer.error, answer.producer) == (
        (NONE, Producer(old.producer_id, old.epoch + 1)) if version else (FENCED, NO_PRODUCER)
    )


@pytest.mark.parametrize("is_open", [True, False])
def test_an_unused_transactional_id_is_forgotten(is_open: bool) -> None:
    stage = begun() if is_open else ended()
    stage.now_ms += 100
    stage.step(Expire(101))
    assert stage.transaction.value is not None
    stage.step(Expire(100))
    assert stage.transaction.is_idle is not is_open
    assert (stage.records[-1] is None) is not is_open


# Records that wait, fail, or were another's.


def test_while_a_record_is_under_way_nothing_else_is_decided() -> None:
    stage = begun()
    stage.holds = True
    producer = stage.producer
    assert stage.step(_ending(stage)) is None, "nothing is answered before it is durable"
    assert stage.markers == []
    assert stage.add(A) is CONCURRENT
    assert stage.init().error is CONCURRENT
    assert stage.end(producer=producer).error is CONCURRENT
    assert stage.end(producer=Producer(producer.producer_id, producer.epoch - 1)).error is FENCED
    stage.now_ms += TIMEOUT_MS
    stage.step(TimedOut())
    assert len(stage.held) == 1
    stage.commit()
    assert [reply.token for reply in stage.replies if reply.token == "held"] == ["held"]
    assert len(stage.markers) == 1


def _ending(stage: Stage) -> End:
    return End(token="held", producer=stage.producer, is_commit=True)


def test_a_record_that_is_refused_leaves_everything_as_it_was() -> None:
    stage = begun()
    before = stage.value
    stage.holds = True
    stage.step(_ending(stage))
    stage.refuse()
    assert stage.replies[-1].error is ErrorCode.coordinator_not_available
    assert stage.value == before
    assert stage.markers == []
    assert stage.end(commit=False).error is NONE, "no promise was made: it may end the other way"


@pytest.mark.parametrize("commit", [True, False])
def test_a_new_coordinator_writes_the_markers_that_another_began(commit: bool) -> None:
    stage = begun()
    stage.end(commit=commit)
    successor = Stage(stage.value)
    successor.step(Resume())
    assert successor.markers == [stage.value]
    successor.write_markers()
    assert successor.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)


def test_a_new_coordinator_leaves_an_open_transaction_open() -> None:
    successor = Stage(begun().value)
    successor.step(Resume())
    assert successor.markers == []
    assert successor.add(A) is NONE
    assert successor.end().error is NONE


# Any conversation.

ACTIONS = (
    "init",
    "continue",
    "zombie init",
    "add",
    "commit",
    "abort",
    "retry",
    "markers",
    "time out",
    "restart",
    "refuse",
)


class Conversation:
    """A client, the zombie that it replaced, and a coordinator that may change under them."""

    def __init__(self, version: int, epoch: int) -> None:
        stage = Stage()
        stage.init(version=version)
        self.stage = Stage(replace(stage.value, producer_epoch=epoch))
        self.version = version
        self.client = self.zombie = self.stage.producer
        self.last_end = (self.client, True)

    def act(self, action: str) -> None:
        self.stage.now_ms += 1
        match action:
            case "init" | "continue" | "zombie init":
                self._init(action)
            case "add":
                self.stage.add(A, producer=self.client)
            case "commit" | "abort":
                self._end(commit=action == "commit")
            case "retry":
                producer, commit = self.last_end
                self.stage.end(commit=commit, producer=producer, version=self.version)
            case "restart":
                self._restart()
            case _:
                self._happen(action)

    def _init(self, action: str) -> None:
        expected = {"init": None, "continue": self.client, "zombie init": self.zombie}[action]
        reply = self.stage.init(expected, self.version)
        if reply.error is NONE and action != "zombie init":
            self.zombie, self.client = self.client, reply.producer

    def _end(self, *, commit: bool) -> None:
        self.last_end = (self.client, commit)
        reply = self.stage.end(commit=commit, producer=self.client, version=self.version)
        if reply.error is NONE and self.version:
            self.client = reply.producer

    def _restart(self) -> None:
        old = self.stage
        # What is in no record is forgotten.
        self.stage = Stage(replace(old.value, last_producer_epoch=-1))
        self.stage.records, self.stage.markers = old.records, old.markers
        self.stage.next_id, self.stage.now_ms = old.next_id, old.now_ms
        self.stage.step(Resume())

    def _happen(self, action: str) -> None:
        if action == "markers" and self.stage.markers:
            self.stage.write_markers()
        elif action == "time out":
            self.stage.now_ms += TIMEOUT_MS
            self.stage.step(TimedOut(self.version))
        elif action == "refuse":
            self.stage.holds = True
            self.stage.now_ms += TIMEOUT_MS
            self.stage.step(TimedOut(self.version))
            self.stage.refuse()


@given(st.lists(st.sampled_from(ACTIONS), max_size=40), st.sampled_from((0, 2)), st.sampled_from((0, 32_763, 32_766)))
def test_any_conversation_keeps_the_order_of_states_and_of_epochs(actions: list[str], version: int, epoch: int) -> None:
    conversation = Conversation(version, epoch)
    first = conversation.stage.value
    for action in actions:
        conversation.act(action)
    stage = conversation.stage
    history = [first, *(value for value in stage.records if value is not None)]
    for before, after in pairwise(history):
        assert before.state in PREVIOUS[after.state]
        is_new_id = after.producer_id > before.producer_id and after.producer_epoch == 0
        assert is_new_id or after.producer_id == before.producer_id
        assert is_new_id or after.producer_epoch >= before.producer_epoch
    given_away = [reply.producer.epoch for reply in stage.replies if reply.error is NONE]
    assert max(given_away, default=0) < 32_767

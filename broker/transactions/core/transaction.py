"""One transactional id as a state machine: `step(event, now_ms) -> effects`.

`value` is what is durable, `_under_way` the transition whose record is being written. What guards what:

* Nothing is decided on what is not durable. While a record is under way every other request is answered
  CONCURRENT_TRANSACTIONS, which clients repeat; so transitions of one transactional id never overlap.
* An answer leaves only once its record is committed; markers leave only once Prepare* is committed. So what a marker
  says can never be taken back, whichever broker coordinates next.
* Complete* is written only once every marker is committed. A coordinator that finds Prepare* in its log sends all
  markers again, which is harmless.
* A producer whose epoch was passed over never succeeds again: each request compares epochs with the durable value, and
  markers carry the bumped epoch to the logs.
* A write that is refused for certain leaves everything as it was. One whose fate is open stays under way until it is
  known; the leadership that could not learn it ends, and the next one reads it.
"""

from __future__ import annotations

from dataclasses import replace

from ....light_dataclass import dataclass
from ....protocol import ErrorCode, TopicPartition
from .endings import completed, fenced, is_of_next, is_present, judge_end, needs_new_id, prepared, producer_after
from .events import (
    AddPartitions,
    Effect,
    End,
    Event,
    Expire,
    Init,
    MarkersWritten,
    NeedProducerId,
    Producer,
    Reply,
    Resume,
    SendMarkers,
    Store,
    Stored,
    TimedOut,
    Token,
)
from .states import (
    NO_PRODUCER_EPOCH,
    NO_TIMESTAMP,
    PREPARED,
    PREVIOUS,
    PRODUCER_EPOCH_MAX,
    TransactionState,
    TransactionValue,
)

State = TransactionState
NONE = ErrorCode.none


@dataclass(frozen=True, slots=True)
class _UnderWay:
    store_id: int
    value: TransactionValue | None
    """None for a tombstone."""
    token: Token | None = None
    """The token of the request that is answered once the value is durable; None if no request waits."""
    answer: Reply | None = None


class Transaction:
    """See the module's docstring. `value` is None until the first record."""

    __slots__ = ("_store_id", "_under_way", "transactional_id", "value")

    def __init__(self, transactional_id: str, value: TransactionValue | None = None) -> None:
        self.transactional_id = transactional_id
        self.value = value
        self._under_way: _UnderWay | None = None
        self._store_id = 0

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to remember."""
        return self.value is None and self._under_way is None

    @property
    def is_under_way(self) -> bool:
        """Whether a record is being written."""
        return self._under_way is not None

    def is_timed_out(self, now_ms: int) -> bool:
        """Return whether a transaction is open for longer than its timeout."""
        value = self.value
        return value is not None and value.state is State.ONGOING and now_ms >= value.start_ms + value.timeout_ms

    def is_unused(self, now_ms: int, retention_ms: int) -> bool:
        """Return whether the transactional id may be forgotten."""
        value = self.value
        return value is not None and value.is_at_rest and now_ms >= value.last_update_ms + retention_ms

    def verify(
        self, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> ErrorCode | frozenset[TopicPartition]:
        """Return those of the partitions that are in the ongoing transaction of the producer (KIP-890 part 1), or why
        it has none. What is under way does not count: a marker that follows is fenced where the batch is appended.
        """
        value = self.value
        if value is None or value.producer_id != producer.producer_id:
            return ErrorCode.invalid_producer_id_mapping
        if value.producer_epoch != producer.epoch:
            return ErrorCode.producer_fenced
        if value.state in PREPARED:
            return ErrorCode.concurrent_transactions
        return partitions & value.partitions

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take in what happened at `now_ms` (wall clock), and return what has to be done about it."""
        match event:
            case Init():
                return self._init(event, now_ms)
            case AddPartitions():
                return self._add(event, now_ms)
            case End():
                return self._end(event, now_ms)
            case TimedOut():
                return self._time_out(event, now_ms)
            case Expire(retention_ms):
                return self._expire(retention_ms, now_ms)
            case Stored():
                return self._stored(event, now_ms)
            case MarkersWritten(producer):
                return self._complete(producer, now_ms)
            case Resume():
                return self._resume(now_ms)

    # Requests.

    def _init(self, event: Init, now_ms: int) -> list[Effect]:
        value, expected, token = self.value, event.expected, event.token
        if self._under_way is not None:
            return [Reply(token, ErrorCode.concurrent_transactions)]
        if value is None:
            if event.new_producer_id is None:
                return [NeedProducerId(event)]
            value = _first(event.new_producer_id, event.timeout_ms, now_ms)
        if expected is not None and not _is_expected(value, expected):
            return [Reply(token, ErrorCode.producer_fenced)]
        if value.state in PREPARED:
            return [Reply(token, ErrorCode.concurrent_transactions)]
        if value.state is State.ONGOING:
            # The client comes again. A new one has the epoch bumped a second time, so that it never has the one that
            # fences; one that continues (KIP-360) has that one, as after its own abort, in version 2.
            return self._fence(value, event, now_ms, token, Reply(token, ErrorCode.concurrent_transactions))
        if value.is_epoch_exhausted and (expected is None or expected.epoch == value.producer_epoch):
            if event.new_producer_id is None:
                return [NeedProducerId(event)]
            return self._store(_rotated(value, event, event.new_producer_id, now_ms), token)
        bumped = _bumped(value, event, now_ms)
        if bumped is None:
            return [Reply(token, ErrorCode.producer_fenced)]
        return self._store(bumped, token)

    def _add(self, event: AddPartitions, now_ms: int) -> list[Effect]:
        value, token = self.value, event.token
        error = self._judge_producer(event.producer)
        if error is not NONE:
            return [Reply(token, error)]
        assert value is not None, self
        if self._under_way is not None or value.state in PREPARED:
            return [Reply(token, ErrorCode.concurrent_transactions)]
        is_ongoing = value.state is State.ONGOING
        if is_ongoing and event.partitions <= value.partitions:
            return [Reply(token, NONE, event.producer)]
        added = replace(
            value,
            state=State.ONGOING,
            partitions=value.partitions | event.partitions,
            start_ms=value.start_ms if is_ongoing else now_ms,
            last_update_ms=now_ms,
            transaction_version=event.transaction_version,
        )
        return self._store(added, token)

    def _end(self, event: End, now_ms: int) -> list[Effect]:
        value, token = self.value, event.token
        if value is None:
            return [Reply(token, ErrorCode.invalid_producer_id_mapping)]
        answer = judge_end(value, event)
        # A zombie is fenced even while a record is under way; everything else may change with the record.
        is_fenced = answer in (ErrorCode.producer_fenced, ErrorCode.invalid_producer_id_mapping)
        if self._under_way is not None and not is_fenced:
            return [Reply(token, ErrorCode.concurrent_transactions)]
        if answer is not None:
            return [Reply(token, answer, producer_after(value)) if answer is NONE else Reply(token, answer)]
        needs_id = needs_new_id(value, event.transaction_version)
        if needs_id and event.new_producer_id is None:
            return [NeedProducerId(event)]
        end = event if needs_id else replace(event, new_producer_id=None)
        return self._store(prepared(value, end, now_ms), token)

    def _time_out(self, event: TimedOut, now_ms: int) -> list[Effect]:
        if self._under_way is not None or not self.is_timed_out(now_ms):
            return []
        assert self.value is not None, self
        return self._fence(self.value, event, now_ms)

    def _fence(
        self,
        value: TransactionValue,
        event: Init | TimedOut,
        now_ms: int,
        token: Token | None = None,
        answer: Reply | None = None,
    ) -> list[Effect]:
        """Abort the open transaction in the place of its producer."""
        if needs_new_id(value, event.transaction_version) and event.new_producer_id is None:
            return [NeedProducerId(event)]
        return self._store(fenced(value, event, now_ms), token, answer)

    def _judge_producer(self, producer: Producer) -> ErrorCode:
        value = self.value
        if value is not None and is_of_next(value, producer):
            return ErrorCode.concurrent_transactions
        if value is None or value.producer_id != producer.producer_id:
            return ErrorCode.invalid_producer_id_mapping
        return NONE if is_present(value, producer) else ErrorCode.producer_fenced

    def _expire(self, retention_ms: int, now_ms: int) -> list[Effect]:
        if self._under_way is not None or not self.is_unused(now_ms, retention_ms):
            return []
        return self._store(None)

    # Records and markers.

    def _store(
        self, value: TransactionValue | None, token: Token | None = None, answer: Reply | None = None
    ) -> list[Effect]:
        assert self._under_way is None, "one record at a time"
        if value is not None:
            before = State.EMPTY if self.value is None else self.value.state
            assert before in PREVIOUS[value.state], (before, value)
            assert 0 <= value.producer_epoch <= PRODUCER_EPOCH_MAX, value
        self._store_id += 1
        self._under_way = _UnderWay(self._store_id, value, token, answer)
        return [Store(self._store_id, value)]

    def _stored(self, event: Stored, now_ms: int) -> list[Effect]:
        under_way = self._under_way
        if under_way is None or under_way.store_id != event.store_id:
            return []
        self._under_way = None
        if event.error is not NONE:
            return [] if under_way.token is None else [Reply(under_way.token, event.error)]
        value = self.value = under_way.value
        effects: list[Effect] = []
        if under_way.token is not None:
            assert value is not None, "a tombstone answers no request"
            effects.append(under_way.answer or Reply(under_way.token, NONE, producer_after(value)))
        if value is not None and value.state in PREPARED:
            effects += self._send_markers(value, now_ms)
        return effects

    def _send_markers(self, value: TransactionValue, now_ms: int) -> list[Effect]:
        # A transaction of nothing needs no marker, and no report would come that all are written.
        return [SendMarkers(value)] if value.partitions else self._store(completed(value, now_ms))

    def _complete(self, producer: Producer, now_ms: int) -> list[Effect]:
        value = self.value
        if value is None or value.state not in PREPARED or self._under_way is not None:
            return []
        if Producer(value.producer_id, value.producer_epoch) != producer:
            return []
        return self._store(completed(value, now_ms))

    def _resume(self, now_ms: int) -> list[Effect]:
        value = self.value
        if value is None or value.state not in PREPARED:
            return []
        return self._send_markers(value, now_ms)


def _first(producer_id: int, timeout_ms: int, now_ms: int) -> TransactionValue:
    return TransactionValue(
        producer_id=producer_id,
        producer_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=timeout_ms,
        state=State.EMPTY,
        last_update_ms=now_ms,
    )


def _is_expected(value: TransactionValue, expected: Producer) -> bool:
    """Return whether a client that continues may do so (KIP-360); its epoch is judged with the bump.

    The id may be the one before: the client never got the answer that gave it the new one. Or the next one.
    """
    if is_of_next(value, expected):
        return True
    if value.producer_epoch == NO_PRODUCER_EPOCH or expected.producer_id == value.producer_id:
        return True
    is_exhausted = expected.epoch >= PRODUCER_EPOCH_MAX - 1
    return expected.producer_id == value.previous_producer_id and is_exhausted


def _bumped(value: TransactionValue, event: Init, now_ms: int) -> TransactionValue | None:
    """Return the value with the next epoch, or the same one for a retry; None for a producer that is fenced."""
    expected = event.expected
    if expected is None:
        epoch, last = value.producer_epoch + 1, NO_PRODUCER_EPOCH
    elif value.producer_epoch in (NO_PRODUCER_EPOCH, expected.epoch):
        epoch, last = value.producer_epoch + 1, value.producer_epoch
    elif expected.epoch == value.last_producer_epoch:
        # A retry: any other producer would have set the last epoch back to -1.
        epoch, last = value.producer_epoch, value.last_producer_epoch
    else:
        return None
    return _begun(value, event, value.producer_id, epoch, last, now_ms)


def _rotated(value: TransactionValue, event: Init, producer_id: int, now_ms: int) -> TransactionValue:
    last = NO_PRODUCER_EPOCH if event.expected is None else value.producer_epoch
    return _begun(value, event, producer_id, 0, last, now_ms)


def _begun(
    value: TransactionValue, event: Init, producer_id: int, epoch: int, last_epoch: int, now_ms: int
) -> TransactionValue:
    return replace(
        value,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        previous_producer_id=value.previous_producer_id if producer_id == value.producer_id else value.producer_id,
        timeout_ms=event.timeout_ms,
        state=State.EMPTY,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=now_ms,
        transaction_version=0,
    )

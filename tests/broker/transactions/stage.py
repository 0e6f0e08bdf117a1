"""One transactional id with a log that commits at once, or holds records back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tierfetch.broker.transactions.core.events import (
    AddPartitions,
    Effect,
    End,
    Event,
    Init,
    MarkersWritten,
    NeedProducerId,
    Producer,
    Reply,
    SendMarkers,
    Store,
    Stored,
)
from tierfetch.broker.transactions.core.states import TransactionState, TransactionValue
from tierfetch.broker.transactions.core.transaction import Transaction
from tierfetch.protocol import ErrorCode, TopicPartition

NOW_MS = 1_000_000
TIMEOUT_MS = 60_000
FIRST_ID = 1000
A, B = TopicPartition("a", 0), TopicPartition("b", 3)


class Stage:
    """`records` are those that are durable; with `holds` they wait until `commit` or `refuse`."""

    def __init__(self, value: TransactionValue | None = None) -> None:
        self.transaction = Transaction("tx", value)
        self.records: list[TransactionValue | None] = []
        self.markers: list[TransactionValue] = []
        self.replies: list[Reply] = []
        self.held: list[Store] = []
        self.holds = False
        self.now_ms = NOW_MS
        self.next_id = FIRST_ID if value is None else value.producer_id

    @property
    def value(self) -> TransactionValue:
        assert self.transaction.value is not None
        return self.transaction.value

    @property
    def state(self) -> TransactionState:
        return self.value.state

    @property
    def producer(self) -> Producer:
        return Producer(self.value.producer_id, self.value.producer_epoch)

    def step(self, event: Event) -> Reply | None:
        """Return the answer that it gives by the time all that can be done is done."""
        count = len(self.replies)
        self._perform(self.transaction.step(event, self.now_ms))
        return self.replies[-1] if len(self.replies) > count else None

    def init(self, expected: Producer | None = None, version: int = 0) -> Reply:
        reply = self.step(Init(token="init", timeout_ms=TIMEOUT_MS, expected=expected, transaction_version=version))
        assert reply is not None
        return reply

    def add(self, *partitions: TopicPartition, producer: Producer | None = None) -> ErrorCode:
        event = AddPartitions(token="add", producer=producer or self.producer, partitions=frozenset(partitions))
        reply = self.step(event)
        assert reply is not None
        return reply.error

    def end(self, *, commit: bool = True, producer: Producer | None = None, version: int = 0) -> Reply:
        event = End(token="end", producer=producer or self.producer, is_commit=commit, transaction_version=version)
        reply = self.step(event)
        assert reply is not None
        return reply

    def write_markers(self) -> None:
        value = self.markers[-1]
        self.step(MarkersWritten(Producer(value.producer_id, value.producer_epoch)))

    def commit(self) -> None:
        for store in self._taken():
            self._commit(store)

    def refuse(self, error: ErrorCode = ErrorCode.coordinator_not_available) -> None:
        for store in self._taken():
            self.step(Stored(store.store_id, error))

    def _taken(self) -> list[Store]:
        held, self.held, self.holds = self.held, [], False
        return held

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply():
                    self.replies.append(effect)
                case Store():
                    if self.holds:
                        self.held.append(effect)
                    else:
                        self._commit(effect)
                case SendMarkers(value):
                    last = self.records[-1] if self.records else self.transaction.value
                    assert last is not None, "markers of nothing"
                    assert (last.state, last.producer_epoch) == (value.state, value.producer_epoch), "before the record"
                    self.markers.append(value)
                case NeedProducerId(event):
                    self.next_id += 1
                    again = replace(event, new_producer_id=self.next_id)
                    self._perform(self.transaction.step(again, self.now_ms))

    def _commit(self, store: Store) -> None:
        self.records.append(store.value)
        self._perform(self.transaction.step(Stored(store.store_id), self.now_ms))

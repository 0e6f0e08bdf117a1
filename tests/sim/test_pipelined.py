"""Batches in flight: how many, in which order they go again, and when a producer id is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import iter_batches
from tierfetch.protocol.topics import TopicPartition
from tierfetch.sim.judges.core.events import ClientEvent, SequenceRefused
from tierfetch.sim.judges.core.history import ACKS_ALL, History, Outcome, Send
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.client import AttemptFailedError
from tierfetch.sim.scenarios.pipelined import IN_FLIGHT_MAX, PipelinedProducer
from tierfetch.sim.scenarios.workload import Pace, Shared, UnexpectedError

T = TopicPartition("t", 0)
Answer = Callable[[int, int], Exception | None]
"""Of a producer id and a sequence, when it is sent."""


class Broker:
    """Answers a while later, and takes only what comes next."""

    def __init__(self, answer: Answer = lambda *_: None) -> None:
        self.answer = answer
        self.ids = 0
        self.log: list[tuple[int, int]] = []
        self.sent: list[tuple[int, int]] = []
        self.in_flight = self.most = 0
        self.next: dict[int, int] = {}
        self.refused: list[Send] = []

    def judge(self, event: ClientEvent) -> None:
        if isinstance(event, SequenceRefused):
            self.refused.append(event.send)

    async def init_producer_id(self) -> tuple[int, int]:
        self.ids += 1
        return self.ids, 0

    async def produce(self, partition: TopicPartition, batch: bytes, acks: int) -> int:
        ((_, header),) = iter_batches(batch)
        key = (header.producer_id, header.base_sequence)
        self.sent.append(key)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        error = self.answer(*key)
        if error is None and key not in self.log:
            if key[1] != self.next.get(key[0], key[1]):
                error = KafkaError(ErrorCode.out_of_order_sequence_number, "too early")
            else:
                self.log.append(key)
                self.next[key[0]] = key[1] + header.record_count
        await asyncio.sleep(1.0)
        self.in_flight -= 1
        if error is not None:
            raise error
        return 10 * self.log.index(key)


def run(broker: Broker, seconds: float = 20.0, gap_factor: float = 1.0) -> History:
    history = History()
    with World(1) as world:

        async def work() -> None:
            shared = Shared(
                history,
                lambda: int(world.now_s * 1000),
                asyncio.Event(),
                gap_factor=gap_factor,
                publish=broker.judge,
                logs_of=lambda _: {},
                were_clocks_set=lambda: False,
            )
            client: Any = broker
            producer = PipelinedProducer("p", T, ACKS_ALL, client, shared, Random(1), Pace(gap_s=0.1))
            world.loop.call_later(seconds, shared.stopping.set)
            await producer.run()

        world.run(work(), limit_s=seconds + 60)
        assert world.loop.failures == []
    return history


def test_several_are_in_flight_once_the_first_was_taken() -> None:
    first: list[int] = []
    broker = Broker()
    broker.answer = lambda *_: first.append(broker.in_flight) if len(broker.sent) <= 2 else None
    history = run(broker)
    assert first[0] == 1
    assert broker.most == IN_FLIGHT_MAX
    assert broker.log == broker.sent
    assert len(history.sends) == len(broker.log) > 20
    assert {send.outcome for send in history.sends} == {Outcome.OK}
    assert [(send.producer_id, send.sequence) for send in history.sends] == broker.log


def test_producers_can_be_asked_to_slow_down() -> None:
    assert len(run(Broker(), gap_factor=10.0).sends) < len(run(Broker()).sends) / 2


def test_what_failed_goes_again_in_its_order_and_nothing_new_before_it() -> None:
    broker = Broker()

    def answer(*_: int) -> Exception | None:
        return AttemptFailedError("no answer") if 8 <= len(broker.sent) < 16 else None

    broker.answer = answer
    history = run(broker)
    assert broker.log == sorted(broker.log)
    assert len(broker.sent) > len(broker.log)
    assert {send.outcome for send in history.sends} == {Outcome.OK}


def test_a_producer_id_is_given_up_once_its_oldest_batch_is_out_of_order() -> None:
    broker = Broker()

    def answer(producer_id: int, sequence: int) -> Exception | None:
        if producer_id == 1 and len(broker.log) == 8:
            return KafkaError(ErrorCode.out_of_order_sequence_number, "lost")
        return None

    broker.answer = answer
    history = run(broker)
    assert {producer_id for producer_id, _ in broker.log} == {1, 2}
    lost = [send for send in history.sends if send.outcome is Outcome.INFO]
    assert 1 <= len(lost) <= IN_FLIGHT_MAX
    assert {send.producer_id for send in lost} == {1}
    assert broker.refused == lost[:1], "judged: it is the next one that was due"


def test_an_answer_that_no_fault_explains_ends_it() -> None:
    with pytest.raises(UnexpectedError):
        run(Broker(lambda *_: KafkaError(ErrorCode.invalid_record, "for no reason")))

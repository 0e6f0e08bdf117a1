"""Which answers of a broker clients take, and which end the run."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.topics import TopicPartition
from tierfetch.sim.judges.core.events import ClientEvent, CommitReported, LogStartReported, OffsetRefused
from tierfetch.sim.judges.core.history import ACKS_ALL, History
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.scenarios.client import EARLIEST, Fetched
from tierfetch.sim.scenarios.pipelined import PipelinedProducer
from tierfetch.sim.scenarios.workload import RETRIABLE, Pace, Producer, Reader, Retries, Shared, UnexpectedError


@pytest.mark.parametrize("code", sorted(RETRIABLE))
def test_what_a_fault_explains_is_tried_again(code: ErrorCode) -> None:
    Retries.check(KafkaError(code, "because of a fault"))


@pytest.mark.parametrize("kind", [Producer, PipelinedProducer])
def test_records_of_now_are_refused_only_where_a_clock_may_be_far_behind(kind: type[Producer]) -> None:
    def run(*, were_clocks_set: bool) -> None:
        refusals = [KafkaError(ErrorCode.invalid_timestamp, "must be in")]

        async def produce(*_: object) -> int:
            if refusals:
                raise refusals.pop()
            shared.stopping.set()
            return 0

        async def init_producer_id() -> tuple[int, int]:
            return 1, 0

        client: Any = SimpleNamespace(produce=produce, init_producer_id=init_producer_id)
        shared = Shared(
            History(),
            lambda: 0,
            asyncio.Event(),
            were_clocks_set=lambda: were_clocks_set,
            publish=lambda _: None,
            logs_of=lambda _: {},
        )
        asyncio.run(kind("p", TopicPartition("t", 0), ACKS_ALL, client, shared, Random(1), Pace()).run())

    run(were_clocks_set=True)
    with pytest.raises(UnexpectedError, match="invalid_timestamp"):
        run(were_clocks_set=False)


@pytest.mark.parametrize("code", [ErrorCode.corrupt_message, ErrorCode.invalid_record, ErrorCode.unknown_server_error])
def test_what_no_fault_explains_ends_the_run(code: ErrorCode) -> None:
    with pytest.raises(UnexpectedError, match=code.name):
        Retries.check(KafkaError(code, "for no reason"))


T = TopicPartition("t", 0)


def reader_of(fetched: Fetched | None, starts: int = 0, ends: int = 0) -> Reader:
    """Of a partition that answers so."""

    async def fetch(*_: object, **__: object) -> Fetched:
        if fetched is None:
            raise KafkaError(ErrorCode.offset_out_of_range, "outside")
        return fetched

    async def list_offset(_: object, timestamp: int) -> int:
        return starts if timestamp == EARLIEST else ends

    client: Any = SimpleNamespace(fetch=fetch, list_offset=list_offset, leader_host="b")
    shared = Shared(
        History(),
        lambda: 0,
        asyncio.Event(),
        publish=lambda _: None,
        logs_of=lambda _: {},
        were_clocks_set=lambda: False,
    )
    return Reader("r", TopicPartition("t", 0), client, shared, Random(1))


@pytest.mark.parametrize(("position", "goes_to"), [(3, 5), (7, 7), (12, 9)])
def test_a_reader_out_of_range_goes_to_the_nearest_offset_in_it(position: int, goes_to: int) -> None:
    assert asyncio.run(reader_of(None, 5, 9)._poll("r", position)) == goes_to


@pytest.mark.parametrize(
    ("fetched", "why"),
    [
        (Fetched(b"", 9, 9, 5, ()), "reads what is kept: r asked t-0 from 4 on, and was answered that it starts at 5"),
        (Fetched(b"", 9, 10, 0, ()), "told in order: .*: the last stable offset is 10, the high watermark 9"),
    ],
)
def test_what_an_answer_tells_beside_its_records_is_in_order(fetched: Fetched, why: str) -> None:
    with pytest.raises(InvariantViolationError, match=why):
        asyncio.run(reader_of(fetched)._poll("r", 4))
    in_order = Fetched(b"", 9, 9, 4, ())
    assert asyncio.run(reader_of(in_order)._poll("r", 4)) == 4


def test_what_an_answer_tells_beside_its_records_is_judged() -> None:
    told: list[ClientEvent] = []

    async def work() -> None:
        for reader in (reader_of(Fetched(b"", 9, 8, 4, ())), reader_of(None, 5, 7)):
            reader._shared.publish = told.append
            await reader._poll("p", 5)

    asyncio.run(work())
    assert told == [
        LogStartReported(T, 4, "p"),
        CommitReported(T, 9, "p", 0),
        OffsetRefused(T, 5, "b", {}),
        LogStartReported(T, 5, "r"),
        CommitReported(T, 7, "r", 0),
    ]
